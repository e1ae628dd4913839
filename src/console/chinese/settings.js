// The words of the settings' page, in Chinese; those of the settings themselves stand beside them in the table.

import { FORMS } from "../pages/settings/table.js";

const pairs = Object.values(FORMS).flat().flatMap(([english, chinese, rows]) => [[english, chinese], ...rows.map((row) => [row[2], row[3]])]);

export const SETTINGS = {
  ...Object.fromEntries(pairs),
  "Routing": "路由", "Limits": "限制", "Schedules": "计划", "Notices": "通知", "Traces": "跟踪", "Rewriting": "改写", "Access": "访问", "Tasks": "任务", "Events": "事件", "Maintenance": "维护", "About": "关于",
  "by the schedule": "按计划时间", "each so many hours after its last time": "距上次若干小时后", "on": "开", "off": "关", "Default: {value}": "默认：{value}", "Saved": "已保存", "Saved:": "已保存：",
  "unchanged": "不变", "Nothing is saved.": "尚未保存。", "Remove": "移除", "Keep it": "保留", "what is saved is removed.": "已保存的值将被移除。",
  "This has to be a number.": "须为数字。", "This is not JSON: {why}": "不是 JSON：{why}",
  "every {step} minutes": "每 {step} 分钟", "every hour at minute {minute}": "每小时第 {minute} 分", "every {hours} hours at minute {minute}": "每 {hours} 小时第 {minute} 分", "at {times}": "{times}",
  "every day {at}": "每天 {at}", "on day {day} of the month {at}": "每月 {day} 日 {at}", "on {days} {at}": "{days} {at}",
  "The two new tokens differ.": "两次输入的新令牌不同。", "The built-in admin token holds. It works from this machine only.": "正在使用内置管理令牌，仅限本机。",
  "ACCOUNT_CREDENTIAL_SECRET, which seals stored credentials, is weak or not set.": "用于加密凭据的 ACCOUNT_CREDENTIAL_SECRET 过弱或未设置。",
  "Change the token": "修改令牌", "Present token": "当前令牌", "New token": "新令牌", "New token again": "再次输入新令牌", "The new token is in force.": "新令牌已生效。",
  "6 to 512 visible ASCII characters without blanks. It holds at once, everywhere.": "6 至 512 个可见 ASCII 字符，不含空格，立即在各处生效。",
  "It gives a way out: {status} in {time}": "可以出站：{status}，{time}", "Test the proxy": "测试代理", "Your address: {address}": "您的地址：{address}", "Unless one of these networks holds it, this list would shut you out, and is refused.": "除非其中某个网段包含它，否则此列表会把您挡在外面，将被拒绝。", "Add {address}": "添加 {address}",
  "The built-in token of clients holds. It works from this machine only.": "正在使用内置客户端令牌，仅限本机。", "Make one up": "生成一个",
  "Backup": "备份", "Export": "导出", "Import": "导入", "Everything": "全部", "Sites, accounts, routes and keys": "站点、账号、路由和密钥", "What": "内容", "Save a backup": "保存备份",
  "The file has every credential in clear, so that another server can use it: keep it safe.": "文件含明文凭据，以便其他服务器使用：请妥善保管。",
  "A backup of Switchyard, or the JSON backup of another gateway. All of it is imported, or nothing.": "Switchyard 的备份，或其他网关的 JSON 备份。全部导入，或完全不导入。",
  "File": "文件", "How": "方式", "Add to what is here": "并入现有数据", "Replace what is here": "替换现有数据", "What the file does not have is deleted; counters, the log and found models stay.": "文件中没有的将被删除；计数、日志和已发现的模型保留。",
  "Where both have it": "两边都有时", "the file's holds": "以文件为准", "only what is empty here is filled": "只填补空缺", "what is here stays": "保留现有",
  "See what it would change": "查看将有哪些改动", "Row by row": "逐行", "and {count} more": "另有 {count} 行", "created": "新建", "updated": "更新", "skipped": "跳过", "refused": "拒绝", "deleted": "删除",
  "Use it": "启用", "Address of the file": "文件地址", "User": "用户", "Export by the schedule": "按计划导出", "Schedule": "计划", "Last export or import": "上次导出或导入", "Not used yet.": "尚未使用。",
  "Export now": "立即导出", "Import now": "立即导入",
  "Test": "测试", "Send a test notice": "发送测试通知", "What is saved is tested.": "测试使用已保存的设置。", "sent": "已发送", "failed": "失败",
  "Task": "任务", "Progress": "进度", "Begun": "开始于", "waiting": "等待中", "running": "进行中", "done": "已完成", "No task since the server was started.": "服务器启动以来没有任务。",
  "Event": "事件", "Level": "级别", "Message": "内容", "When": "时间", "info": "信息", "warning": "警告", "error": "错误", "new": "新", "Unread only": "仅未读", "No events.": "没有事件。",
  "Mark all as read": "全部标为已读", "Delete all": "全部删除", "Delete all events?": "删除全部事件？", "Every event, read and unread": "所有事件，无论是否已读",
  "Clear usage": "清除用量", "Forget found models": "清除已发现的模型", "New seal key": "更换加密密钥", "New index key": "更换索引密钥", "Go on?": "继续？",
  "The log, all sums, counters and cooldowns are forgotten.": "清除全部请求日志、统计、计数和冷却。",
  "Found models and automatic channels and routes go, then models are asked for anew. What was made by hand stays.": "删除已发现的模型以及自动建立的通道和路由，然后重新查询；手工建立的保留。",
  "A new key seals every stored credential; a task seals the old ones anew, then deletes the former key.": "用新密钥加密所有凭据；由任务重新加密旧数据，然后删除旧密钥。",
  "A new key makes the look-up hashes; a task makes the old ones anew, then deletes the former key.": "用新密钥生成查找用的散列；由任务重新生成旧数据，然后删除旧密钥。",
  "A task does it: see how it goes": "已由任务执行：查看进度",
  "Factory reset": "恢复出厂", 
  "Everything goes: sites, accounts, keys, routes, the log, the settings. The admin token is the built-in one again, which works on the server's machine only.": "站点、账号、密钥、路由、日志和设置全部删除；管理令牌恢复为内置值，仅限服务器本机使用。",
  "Save the description of the API (OpenAPI)": "保存接口描述（OpenAPI）", "What others wrote": "第三方组件", "with": "含",
};
