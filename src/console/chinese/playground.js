// The words of the page Playground, in Chinese.

export const PLAYGROUND = {
  "Sent": "已发送", "Answer begins": "开始回应", "First text": "首段文本", "End": "结束", "through channel {id} alone": "只经通道 {id}",
  "The answer broke off: {why}": "回应中断：{why}", "Timeline": "时间线", "Answer, HTTP {status}": "回应，HTTP {status}", "Answer": "回应",
  "Channel": "通道", "As routed": "按路由选择", "No enabled route matches.": "没有已启用的路由匹配。", "Conversation": "对话", "Begin anew": "重新开始",
  "Dialect": "接口", "System prompt": "系统提示", "You": "你", "cut short": "未完成", "Your message": "你的消息", "Stop": "停止", "Send": "发送",
  "What is sent and what comes back is shown here. It counts and is logged like any request.": "这里显示发出和收到的内容。请求照常计数并记入日志。",
};
