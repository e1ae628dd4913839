// Languages. The text in the code is English and is its own key: `t("Add a site")`. `{name}` stands for a value.

import { CHINESE } from "./chinese.js";

const KEY = "switchyard.language";
const LANGUAGES = { en: {}, zh: CHINESE };

export const languages = [["en", "English"], ["zh", "中文"]];

let language = localStorage.getItem(KEY);
if (!(language in LANGUAGES)) language = navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en";

export const currentLanguage = () => language;

export function setLanguage(chosen) {
  language = chosen;
  localStorage.setItem(KEY, chosen);
  document.documentElement.lang = chosen === "zh" ? "zh-CN" : "en";
}
document.documentElement.lang = language === "zh" ? "zh-CN" : "en";

// The text in the operator's language, with values in it. Values are text; markup in them stays text.
export function t(text, values = {}) {
  const said = LANGUAGES[language][text] ?? text;
  return said.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

// "1 model", "3 models": two texts in English, the second for everything but one.
export const count = (number, one, many) => t(number === 1 ? one : many, { count: number });

// What a failure means, in words.
export function explain(failure) {
  switch (failure?.kind) {
    case "signin": return t("The token is not accepted. It may have been changed: sign in again.");
    case "forbidden": return t("This address may not use the admin API: {why}", { why: failure.message });
    case "offline": return failure.message === "timeout" ? t("The server did not answer in time.")
      : t("The server cannot be reached.");
    case "limited": return failure.retryAfter
      ? t("Asked too often. Try again in {seconds} s.", { seconds: failure.retryAfter }) : t("Asked too often. Try again soon.");
    default: return failure?.message ?? String(failure);
  }
}
