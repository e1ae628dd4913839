// The words of the page Log, in Chinese.

export const LOG = {
  "Time": "时间", "new": "新", "Status": "状态", "Key": "密钥", "Tokens in / out": "令牌数 入 / 出", "Took": "用时", "Cost": "费用", "Requests": "请求", "Live": "实时", "Read again": "重新读取",
  "Clear the log": "清空日志", "All requests in the log": "日志中的所有请求", "clear": "清空", "The sums of sites and models stay; what each request was does not.": "站点和模型的汇总会保留，每个请求的内容不会。",
  "Search": "搜索", "Model or key": "模型或密钥", "Good": "成功", "Client": "客户端", "From": "从", "Until": "到", "No filter": "清除筛选",
  "{total} requests, {good} good ({share}), {failed} failed; {tokens} tokens, {cost}": "{total} 个请求，成功 {good}（{share}），失败 {failed}；{tokens} 令牌，{cost}", "paused while a row is open": "展开时暂停",
  "No requests yet.": "还没有请求。", "Costs and counts": "费用与次数", "Tried again": "已重试",
  "No parts were recorded: it was charged by the call, or estimated from all tokens because no price was known.": "没有明细：按次计费，或因价格未知按总令牌数估算。",
  "Part": "部分", "Tokens": "令牌数", "Per million": "每百万", "In": "输入", "From the cache": "读取缓存", "Into the cache": "写入缓存", "Out": "输出", "Sum": "合计",
  "Ratios: model {model}, out {out}, cache read {read}, cache write {write}, group {group}": "倍率：模型 {model}，输出 {out}，缓存读 {read}，缓存写 {write}，分组 {group}",
  "No trace of it was recorded.": "没有它的跟踪记录。", "Traces are switched on in the settings.": "可在设置中开启跟踪。", "A trace holds what was asked and answered: treat it as private.": "跟踪记录包含问答内容，请妥善保密。",
  "Request: headers": "请求：标头", "Request: body": "请求：正文", "Decision": "决策", "Attempt {number}": "第 {number} 次尝试", "Sent: headers": "发出：标头", "Sent: body": "发出：正文",
  "Came back: headers": "返回：标头", "Came back: body": "返回：正文", "Error": "错误", "Answer: headers": "回应：标头", "Answer: body": "回应：正文", "Request": "请求", "Route": "路由", "Went to": "去向",
  "channel {id}": "通道 {id}", "Because": "原因", "the global token": "全局令牌", "of these cached": "其中缓存", "Counted by": "计数来源", "the site": "站点", "the site's own log": "站点自己的日志", "nobody": "无",
  "First byte": "首字节", "streamed": "流式", "Attempts": "尝试", "What was said": "返回信息", "Trace": "跟踪", "Share": "占比", "Today": "今天", "7 days": "7 天", "30 days": "30 天", "90 days": "90 天",
  "Show": "显示", "By day and site": "按日期和站点", "No requests in this time.": "这段时间没有请求。", "{what} by day: {all} together": "每日{what}：共 {all}", "By model": "按模型", "All sites": "所有站点",
  "{tokens} tokens": "{tokens} 令牌", "By key": "按密钥", "No keys yet.": "还没有密钥。", "The last 24 hours.": "最近 24 小时。", "The last 7 days.": "最近 7 天。", "Since each key was made.": "自各密钥创建以来。",
};
