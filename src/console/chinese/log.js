// The words of the page Log, in Chinese.

export const LOG = {
  "Time": "时间", "new": "新", "Status": "状态", "Tokens in / out": "令牌数 入 / 出", "Took": "用时", "Cost": "费用", "Requests": "请求",
  "Live": "实时", "Read again": "重新读取", "Clear the log": "清空日志", "All requests in the log": "日志中的所有请求", "clear": "清空",
  "The sums of sites and models stay; what each request was does not.": "站点和模型的汇总会保留，每个请求的内容不会。", "Search": "搜索",
  "Model or key": "模型或密钥", "Good": "成功", "Failed": "失败", "Client": "客户端", "From": "从", "Until": "到", "No filter": "清除筛选",
  "{total} requests, {failed} failed; {tokens} tokens, {cost}": "{total} 个请求，失败 {failed}；{tokens} 令牌，{cost}",
  "paused while a row is open": "展开时暂停", "No requests yet.": "还没有请求。", "Costs and counts": "费用与次数", "Tried again": "已重试",
  "Charged by the call, or estimated from all tokens: no parts are recorded.": "按次计费，或按总令牌数估算：没有明细。", "In": "输入",
  "From the cache": "读取缓存", "Into the cache": "写入缓存", "Out": "输出", "Tokens": "令牌数", "Per million": "每百万", "Sum": "合计",
  "No trace was recorded. Traces are switched on in the settings.": "没有跟踪记录。可在设置中开启跟踪。", "Attempt {number}": "第 {number} 次尝试",
  "Request": "请求", "channel {id}": "通道 {id}", "Because": "原因", "the global token": "全局令牌", "Counted by": "计数来源", "the site": "站点",
  "the site's own log": "站点自己的日志", "First byte": "首字节", "streamed": "流式", "Error": "错误", "Attempts": "尝试", "Trace": "跟踪",
  "Name": "名称", "Share": "占比", "Days": "天数", "Show": "显示", "By day": "按天", "By site": "按站点", "By model": "按模型", "By key": "按密钥",
  "24 hours": "24 小时", "7 days": "7 天", "ever": "全部",
};
