// Numbers, amounts and times in readable form.

import { currentLanguage, t } from "./words.js";

// The formats that were made; making one is expensive.
const made = new Map();
function format(options, kind = "NumberFormat") {
  const key = `${locale()} ${kind} ${JSON.stringify(options)}`;
  if (!made.has(key)) made.set(key, new Intl[kind](locale(), options));
  return made.get(key);
}

const locale = () => (currentLanguage() === "zh" ? "zh-CN" : "en");

export function number(value, digits = 0) {
  if (value == null || Number.isNaN(value)) return "–";
  return format({ maximumFractionDigits: digits }).format(value);
}

// Writes 1,234 as 1.2K.
export function short(value) {
  if (value == null) return "–";
  return format({ notation: "compact", maximumFractionDigits: 1 }).format(value);
}

// Writes US dollars, to the cent where `digits` are not given; small amounts have up to six digits.
export function money(value, digits = 2) {
  if (value == null) return "–";
  const small = Math.abs(value) > 0 && Math.abs(value) < 0.01;
  return format({ style: "currency", currency: "USD", minimumFractionDigits: 2, maximumFractionDigits: small ? 6 : digits }).format(value);
}

// Writes a price, or the cost of one request.
export const price = (value) => money(value, 6);

export const percent = (value, digits = 0) => (value == null ? "–" : `${number(value, digits)} %`);

const dated = (options) => (text) => (text ? format(options, "DateTimeFormat").format(new Date(text)) : "–");
export const moment = dated({ dateStyle: "medium", timeStyle: "medium" });
export const clock = dated({ timeStyle: "medium" });

export function ago(text) {
  if (!text) return t("never", "从未");
  const seconds = Math.round((new Date(text).getTime() - Date.now()) / 1000);
  const form = format({ numeric: "auto" }, "RelativeTimeFormat");
  for (const [unit, size] of [["day", 86_400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(seconds) >= size) return form.format(Math.round(seconds / size), unit);
  }
  return form.format(seconds, "second");
}

// Writes 90_500 ms as 1:31, 3_605_000 ms as 1:00:05.
export function countdown(milliseconds) {
  const all = Math.max(0, Math.ceil(milliseconds / 1000));
  const [hours, minutes, seconds] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  const two = (part) => String(part).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}

export function duration(milliseconds) {
  if (milliseconds == null) return "–";
  return milliseconds < 1000 ? `${number(milliseconds)} ms` : `${number(milliseconds / 1000, 1)} s`;
}
