// Languages. The text in the code is English and is its own key: `t("Add a site")`. `{name}` stands for a value.

const KEY = "switchyard.language";

export const languages = [["en", "English"], ["zh", "中文"]];

let language = "en";
let words = {};

export const currentLanguage = () => language;

// Goes over to a language, whose words are loaded first; English when they cannot be.
export async function setLanguage(chosen) {
  const { CHINESE } = chosen === "zh" ? await import("./chinese.js").catch(() => ({})) : {};
  words = CHINESE ?? {};
  language = CHINESE ? "zh" : "en";
  document.documentElement.lang = CHINESE ? "zh-CN" : "en";
  localStorage.setItem(KEY, chosen);
}

// The language that was chosen, or that of the browser.
const saved = localStorage.getItem(KEY);
const usual = navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en";
if ((saved ?? usual) === "zh") {
  await setLanguage("zh");
  if (!saved) localStorage.removeItem(KEY);
} else {
  document.documentElement.lang = "en";
}

// The text in the operator's language, with values in it. Values are text; markup in them stays text.
export function t(text, values = {}) {
  const said = words[text] ?? text;
  return said.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

// "1 model", "3 models": two texts in English, the second for everything but one; in Chinese the second is for both.
export const count = (number, one, many) => t(number === 1 && !words[many] ? one : many, { count: number });

// What a status means, before the server's own words, which are English.
const FAILURES = {
  200: (why) => t("The site says: {why}", { why }), 400: (why) => t("Refused: {why}", { why }), 404: (why) => t("Not there: {why}", { why }),
  409: (why) => t("Against what is there: {why}", { why }), 500: (why) => t("The server failed: {why}", { why }), 507: (why) => t("The disk is full: {why}", { why }),
};

// What a failure means, in words.
export function explain(failure) {
  switch (failure?.kind) {
    case "signin": return t("The token is not accepted any more. It may have been changed: sign in again.");
    case "forbidden": return failure.value?.code === "builtin_token" ? t("The built-in token works on this machine only. Set AUTH_TOKEN and start anew.")
      : t("This address may not use the admin API: {why}", { why: failure.message });
    case "offline": return failure.message === "timeout" ? t("The server did not answer in time.")
      : t("The server cannot be reached.");
    case "limited": return failure.retryAfter
      ? t("Asked too often. Try again in {seconds} s.", { seconds: failure.retryAfter }) : t("Asked too often. Try again soon.");
    default: return (FAILURES[failure?.status] ?? ((why) => why))(failure?.message ?? String(failure));
  }
}
