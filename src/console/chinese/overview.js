// The words of the page Overview, in Chinese.

export const OVERVIEW = {
  "Four steps to the first answer": "四步得到第一个回答", "Add a site": "添加站点", "Add a key, or log in": "添加密钥或登录", "Try a model": "试用模型", "Balance": "余额", "Spent today": "今日花费", "24 h": "24 小时",
  "Errors": "错误", "Just now": "当前", "requests a minute": "请求/分钟", "In flight": "处理中", "Cache hits": "缓存命中", "of the input, 24 h": "占 24 小时内的输入令牌", "Open": "打开",
  "Mark as read": "标为已读", "Nothing is unread.": "没有未读事件。", "The last 24 hours": "最近 24 小时", "Answered": "成功率", "Latency": "延迟", "Sites, hour by hour": "各站点逐时状况", "Check again": "重新检查",
  "Log in again": "重新登录", "cooling": "冷却中", "End cooling": "解除冷却", "low balance": "余额不足", "task failed": "任务失败", "Start again": "重新开始", "Needs attention": "需要处理",
  "{count} more": "还有 {count} 项", "All is well.": "一切正常。", "30 days": "30 天",
};
