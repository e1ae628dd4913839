// The words of the page Overview, in Chinese.

export const OVERVIEW = {
  "Four steps to the first answer": "四步得到第一个回答", "Add a site": "添加站点", "A vendor's API or a hub: paste its address, the rest is detected.": "厂商接口或中转站：粘贴地址，其余自动识别。",
  "Add a key, or log in": "添加密钥或登录", "It is verified before it is saved. Its models and routes follow by themselves.": "保存前会先验证，模型和路由随后自动生成。", "Try a model": "试用模型",
  "Ask something in the playground and see the answer stream.": "在试验台提问，查看流式回答。",
  "Make a key and paste a few lines into Claude Code, Codex, an SDK or curl.": "创建密钥，把几行配置粘贴到 Claude Code、Codex、SDK 或 curl。", "{what} over time": "{what}的变化", "Balance": "余额",
  "Spent today": "今日花费", "24 h": "24 小时", "Errors": "错误", "Just now": "当前", "requests a minute": "请求/分钟", "In flight": "处理中", "Cache hits": "缓存命中",
  "of prompt tokens since the start": "占启动以来的输入令牌", "Which events": "事件范围", "warnings and errors": "警告和错误", "all": "全部", "Open": "打开", "Mark as read": "标为已读",
  "No warning. {count} others are unread.": "没有警告，另有 {count} 条未读。", "Nothing is unread.": "没有未读事件。", "{good} of {all} answered": "{all} 个请求中成功 {good} 个", "no requests": "无请求",
  "The last 24 hours": "最近 24 小时", "{name}: {percent} answered in 24 hours": "{name}：24 小时内成功 {percent}", "Answered": "成功率", "Latency": "延迟", "Sites, hour by hour": "各站点逐时状况",
  "No site yet.": "还没有站点。", "Check again": "重新检查", "Log in again": "重新登录", "cooling": "冷却中", "End cooling": "解除冷却", "low balance": "余额不足", "{balance} left": "剩余 {balance}",
  "Read it again": "重新读取", "task failed": "任务失败", "Start again": "重新开始", "Set aside": "忽略", "Needs attention": "需要处理", "{count} more": "还有 {count} 项", "All is well.": "一切正常。",
};
