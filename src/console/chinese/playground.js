// The words of the page Playground, in Chinese.

export const PLAYGROUND = {
  "through channel {id} alone": "只经通道 {id}", "The answer broke off: {why}": "回应中断：{why}", "Timeline": "时间线", "Answer, HTTP {status}": "回应，HTTP {status}", "Answer": "回应", "Waiting …": "等待中…",
  "Nothing came.": "没有收到内容。", "The rest is not shown.": "其余内容未显示。", "Channel": "通道", "As routed": "按路由选择", "Conversation": "对话", "Begin anew": "重新开始", "Dialect": "接口", "More": "更多",
  "Streamed": "流式", "System prompt": "系统提示", "Temperature": "温度", "Most tokens": "令牌上限", "You": "你", "It was cut short.": "回答不完整。", "The answer has no text.": "回应中没有文本。", "Your message": "你的消息",
  "Ctrl and Enter send it.": "按 Ctrl + Enter 发送。", "Stop": "停止", "Send": "发送", "Requests of this model in the log": "日志中此模型的请求", "Sent": "已发送", "Answer begins": "开始回应", "First text": "首段文本", "End": "结束",
  "What is sent and what comes back is shown here. Nothing of it is stored; the request counts and is logged like any other.": "这里显示发出和收到的内容。内容不会被保存；请求照常计数并记入日志。",
};
