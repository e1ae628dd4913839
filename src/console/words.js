// The languages: English texts, each with its Chinese. `{name}` is replaced by a value.

const KEY = "switchyard.language";

export const languages = [["en", "English"], ["zh", "中文"]];

let language = "en";
let shared = {};

export const currentLanguage = () => language;

// Sets the language; falls back to English if the Chinese texts cannot be loaded.
export async function setLanguage(chosen) {
  const { CHINESE } = chosen === "zh" ? await import("./chinese.js").catch(() => ({})) : {};
  shared = CHINESE ?? {};
  language = CHINESE ? "zh" : "en";
  document.documentElement.lang = CHINESE ? "zh-CN" : "en";
  localStorage.setItem(KEY, chosen);
}

const saved = localStorage.getItem(KEY);
const usual = navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en";
if ((saved ?? usual) === "zh") {
  await setLanguage("zh");
  if (!saved) localStorage.removeItem(KEY);
} else {
  document.documentElement.lang = "en";
}

// Translates: `t("Add {name}", "添加 {name}", { name })`. Texts that several pages share have their Chinese in `chinese.js`.
// Markup in values stays text.
export function t(text, chinese, values) {
  if (typeof chinese !== "string") return t(text, shared[text] ?? text, values ?? chinese);
  const said = language === "zh" ? chinese : text;
  return values ? said.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole)) : said;
}

// Joins names; isolates right-to-left ones, so that they do not reorder their neighbours.
export const joined = (...names) => names.filter(Boolean).map((name) => (/[\u0590-\u08ff\u202a-\u2069]/.test(name) ? `\u2068${name}\u2069` : name)).join(" / ");

// Counts: "1 model", "3 models"; Chinese has one text for both.
export const count = (number, one, many, chinese = shared[many]) => t(number === 1 ? one : many, chinese, { count: number });

// Explains a code of the server: by the server's English words, or by our Chinese text before `more`.
export const coded = (code, words, more) => (shared[code] ? [shared[code], more].filter(Boolean).join("：") : words);

// The meanings of statuses, shown before the server's own words, which are English.
const FAILURES = () => ({
  200: t("The site says: {why}", "站点回复：{why}"), 400: t("Refused: {why}", "被拒绝：{why}"), 404: t("Not found: {why}", "不存在：{why}"),
  409: t("Conflict with existing data: {why}", "与现有内容冲突：{why}"), 500: t("The server failed: {why}", "服务器出错：{why}"),
  503: t("Not possible now: {why}", "暂时无法处理：{why}"), 507: t("The disk is full: {why}", "磁盘已满：{why}"),
});

// This server's own errors when a model is tried, by type, or by the words of the type that sites have, too.
const OWN = new RegExp("^(validation_error|invalid_request_error|not_found|"
  + "server_error (No available channels|Channel (\\d|busy)|Too many large requests|Internal error|The answer is longer))");

export function explain(failure) {
  const { type, message } = failure?.value?.error ?? {};
  if (type && !OWN.test(`${type} ${message}`)) {
    return t("The site failed, HTTP {status}: {why}", "站点出错，HTTP {status}：{why}", { status: failure.status, why: failure.message });
  }
  switch (failure?.kind) {
    case "signin": return t("The token is not accepted any more. It may have been changed: sign in again.", "令牌已不被接受，可能已被修改：请重新登录。");
    case "forbidden": return failure.value?.code === "builtin_token"
      ? t("The built-in token works on that machine only. Change it there, or set AUTH_TOKEN and restart.",
        "内置令牌仅限服务器本机：请在本机修改，或设置 AUTH_TOKEN 后重启。")
      : t("This address may not use the admin API: {why}", "此地址不得使用管理接口：{why}", { why: failure.message });
    case "offline": return failure.message === "timeout" ? t("The server did not answer in time.", "服务器未及时回应。")
      : t("The server cannot be reached.", "无法连接服务器。");
    case "limited": return failure.retryAfter
      ? t("Too many requests. Try again in {seconds} s.", "请求过于频繁，请在 {seconds} 秒后重试。", { seconds: failure.retryAfter })
      : t("Too many requests. Try again soon.", "请求过于频繁，请稍后重试。");
    default: return (FAILURES()[failure?.status] ?? "{why}").replace("{why}", () => failure?.message ?? String(failure));
  }
}
