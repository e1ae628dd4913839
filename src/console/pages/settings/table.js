// The runtime settings by theme: `[field, built-in default, English, Chinese, kind?, choices?]`. A form is
// `[English, Chinese, rows]`. Without a kind, the type of the default decides.

export const FORMS = {
  routing: [
  ["Failures and cooldowns", "失败与冷却", [
   ["tokenRouterFailureCooldownMaxSec", 2592000, "Longest cooldown of a channel, seconds (at most 30 days)", "通道最长冷却时间，秒（最多 30 天）"],
   ["cooldownLastResortSec", 30, "When all channels are cooling down, seconds until one is tried again; 0: never", "所有通道都在冷却时，多少秒后再试一个；0 为从不"],
   ["accountLimitAvoidPercent", 95, "Spare an account that has used this much of its limit, %; 0: off", "账号限额用到多少后仅作备选，%；0 为关闭"],
   ["channelRecoveryProbeEnabled", false, "Probe cooling channels every 30 s; an answer ends the cooldown", "每 30 秒探测冷却中的通道，应答即解除"],
   ["modelAvailabilityProbeEnabled", false, "Probe all models now and then, and route by the answers", "定期探测全部模型，并据此路由"],
   ["proxyEmptyContentFailEnabled", false, "Count an answer without content as a failure", "没有内容的回答算失败"],
   ["proxyErrorKeywords", null, "Count an answer with one of these as a failure; one per line", "回答含其一算失败，每行一个", "list"]]],
  ["Choice of a channel", "通道选择", [
   ["routingWeights.baseWeightFactor", 0.5, "Factor of the base weight", "基础权重系数"],
   ["routingWeights.valueScoreFactor", 0.5, "Factor of the value, made up of the next three", "价值分系数，由以下三项组成"],
   ["routingWeights.costWeight", 0.4, "Weight of a low cost", "低成本的权重"],
   ["routingWeights.balanceWeight", 0.3, "Weight of a high balance", "高余额的权重"],
   ["routingWeights.usageWeight", 0.3, "Weight of little usage", "低用量的权重"],
   ["routingFallbackUnitCost", 1, "Cost of a channel whose price is unknown", "价格未知的通道的成本"]]],
  ["Dialects", "协议", [
   ["disableCrossProtocolFallback", false, "Send requests to a site in its first dialect only", "只用站点首选的协议"],
   ["responsesCompactFallbackToResponsesEnabled", false, "If an upstream cannot compact a conversation, ask it for an ordinary answer", "上游不能压缩对话时请它回答"],
   ["echoRequestedModel", false, "Answers name the model that was requested", "回答中使用请求的模型名"],
   ["codexUpstreamWebsocketEnabled", false, "Use WebSockets for Codex, or HTTP if refused", "通过 WebSocket 请求 Codex，被拒绝则用 HTTP"],
   ["codexHeaderDefaults.userAgent", null, "User-Agent for Codex; empty: the client's", "发给 Codex 的 User-Agent；留空为客户端的"],
   ["codexHeaderDefaults.betaFeatures", null, "Beta features for Codex on WebSockets if the client names none", "客户端未指定时，WebSocket 上发给 Codex 的测试功能"]]]],
  limits: [
  ["Limits and time-outs", "限制与超时", [
   ["proxyFirstByteTimeoutSec", 0, "Longest wait for an answer's first byte, seconds; 0 is no limit", "等待首字节的最长时间，秒；0 为不限"],
   ["streamHeartbeatSec", 15, "Heartbeat of a silent stream, seconds; 0 is never", "流静默时的心跳，秒；0 为从不"],
   ["streamFirstHeartbeatSec", 45, "First heartbeat before any output, seconds; 0 is never", "没有输出时的首个心跳，秒；0 为从不"],
   ["proxySessionChannelConcurrencyLimit", 2, "Sessions at a time on a channel connected by login; 0 is no limit", "登录类通道的并发会话数；0 为不限"],
   ["proxySessionChannelQueueWaitMs", 1500, "How long a further session waits before it tries the next channel, ms", "更多会话改试下一个通道前的等待，毫秒"]]]],
  jobs: [
  ["Check-ins", "签到", [
   ["checkinScheduleMode", "cron", "Accounts check in", "账号签到方式", "choice", [["cron", "by the schedule"], ["interval", "some hours after the last one"]]],
   ["checkinCron", "0 8 * * *", "Schedule of check-ins", "签到时间", "cron"],
   ["checkinIntervalHours", 6, "Hours between two check-ins, 1 to 24", "两次签到间隔，1 至 24 小时"]]],
  ["Balances and the daily summary", "余额与每日汇总", [
   ["balanceRefreshCron", "0 * * * *", "Read balances and models of all active accounts", "读取所有启用账号的余额和模型", "cron"],
   ["dailySummaryCron", "58 23 * * *", "Send a daily summary; empty is never", "发送每日汇总；留空为从不", "cron"]]],
  ["Deletion of old records", "旧记录清理", [
   ["logCleanupUsageLogsEnabled", null, "Delete old rows of the log", "清理旧的请求日志", "switch"],
   ["logCleanupProgramLogsEnabled", false, "Delete old events", "清理旧事件"],
   ["logCleanupRetentionDays", null, "Days kept; once one of these four is saved, they replace PROXY_LOG_RETENTION_DAYS", "保留天数；这四项之一保存后即取代 PROXY_LOG_RETENTION_DAYS", "number"],
   ["logCleanupCron", "0 6 * * *", "Schedule of the deletion", "清理时间", "cron"]]]],
  notices: [
  ["When notices are sent", "何时通知", [
   ["lowBalanceThreshold", 0, "Notify once when a balance falls below, USD; 0 is never", "余额低于此值时通知一次，美元；0 为从不"],
   ["notifyCooldownSec", 300, "Seconds until the same notice is sent again; 0 sends every one", "相同通知的最短间隔，秒；0 为每次都发"]]],
  ["Webhook", "Webhook", [
   ["webhookEnabled", true, "Use it, once it has an address", "填有地址即启用"],
   ["webhookUrl", null, "Address; WeCom and Feishu robots get their own format", "地址；企业微信和飞书机器人使用各自的格式", "secret"]]],
  ["Bark", "Bark", [["barkEnabled", true, "Use it, once it has an address", "填有地址即启用"], ["barkUrl", null, "Address with the device key", "带设备密钥的地址", "secret"]]],
  ["ServerChan", "Server 酱", [["serverChanEnabled", true, "Use it, once it has a key", "填有密钥即启用"], ["serverChanKey", null, "Key of the service", "服务密钥", "secret"]]],
  ["Telegram", "Telegram", [
   ["telegramEnabled", false, "Use it", "启用"],
   ["telegramBotToken", null, "Token of the bot", "机器人令牌", "secret"],
   ["telegramChatId", null, "Chat ID", "聊天 ID"],
   ["telegramMessageThreadId", null, "Topic ID, or empty", "话题 ID，可留空"],
   ["telegramApiBaseUrl", "https://api.telegram.org", "Address of the bot API", "机器人接口地址"],
   ["telegramUseSystemProxy", false, "Through the system proxy", "经由系统代理"]]],
  ["Mail", "邮件", [
   ["smtpEnabled", false, "Use it", "启用"],
   ["smtpHost", null, "Mail server", "邮件服务器"], ["smtpPort", 587, "Port", "端口"],
   ["smtpSecure", false, "TLS from the first byte (port 465), else STARTTLS where offered", "从首字节起用 TLS（465 端口），否则在支持时用 STARTTLS"],
   ["smtpUser", null, "User", "用户名"], ["smtpPass", null, "Password", "密码", "secret"],
   ["smtpFrom", null, "Sender", "发件人"], ["smtpTo", null, "Recipients, separated by commas", "收件人，以逗号分隔"]]]],
  models: [
  ["Which models get routes", "哪些模型建立路由", [
   ["globalAllowedModels", null, "Only these models, one per line; empty: all", "仅允许这些模型，每行一个；留空为全部", "list"],
   ["globalBlockedBrands", null, "Blocked brands", "屏蔽的品牌", "brands"]]]],
  traces: [
  ["Debug traces", "调试跟踪", [
   ["proxyDebugTraceEnabled", false, "Record requests in full, without credentials", "完整记录请求，去除凭据"],
   ["proxyDebugCaptureHeaders", true, "with their headers", "包括请求头"],
   ["proxyDebugCaptureBodies", false, "with their bodies, which hold your users' data", "包括正文，其中有用户数据"],
   ["proxyDebugCaptureStreamChunks", false, "with streamed answers", "包括流式回答"],
   ["proxyDebugTargetModel", null, "Only of this model", "仅此模型"],
   ["proxyDebugTargetClientKind", null, "Only of this kind of client", "仅此类客户端"],
   ["proxyDebugTargetSessionId", null, "Only of this session", "仅此会话"],
   ["proxyDebugRetentionHours", 24, "Hours that traces are kept", "保留小时数"],
   ["proxyDebugMaxBodyBytes", 262144, "Bytes kept of each body, from 1024", "每个正文保留的字节数，至少 1024"]]]],
  rewriting: [
  ["Payload rules", "载荷规则", [
   ["payloadRules", null, "Fields to set (default, override) or delete (filter) in bodies, by model", "按模型设置（default、override）或删除（filter）正文的字段", "json"]]]],
  access: [
  ["Token of clients", "客户端令牌", [["proxyToken", null, "New global token (PROXY_TOKEN), begins with sk-", "新的全局令牌（PROXY_TOKEN），以 sk- 开头", "secret"]]],
  ["Who may use the admin API", "谁可使用管理接口", [["adminIpAllowlist", null, "Addresses and CIDR networks, one per line; empty: everyone", "地址和 CIDR 网段，每行一个；留空为所有人", "list"]]],
  ["System proxy", "系统代理", [["systemProxyUrl", null, "Address of the proxy for sites that use it", "供使用它的站点出站的代理地址", "secret"]]]],
};
