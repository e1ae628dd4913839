// A schedule in words, where it is of a kind that operators write: certain times, or every so many minutes, on certain days.
// For others there are none; whether one can be read at all is the server's to say.

import { currentLanguage, t } from "../../words.js";

const NUMBERS = /^\d+(,\d+)*$/;
const two = (text) => text.padStart(2, "0");

function time(minute, hour) {
  const [, step] = /^\*\/(\d+)$/.exec(minute) ?? (minute === "*" ? [0, "1"] : []);
  if (step && hour === "*") return t("every {step} minutes", { step });
  if (!NUMBERS.test(minute)) return null;
  if (hour === "*") return t("every hour at minute {minute}", { minute });
  const [, hours] = /^\*\/(\d+)$/.exec(hour) ?? [];
  if (hours) return t("every {hours} hours at minute {minute}", { hours, minute });
  return NUMBERS.test(hour) ? t("at {times}", { times: hour.split(",").flatMap((one) => minute.split(",").map((other) => `${two(one)}:${two(other)}`)).join(", ") }) : null;
}

export function cronWords(text) {
  const parts = text.trim().split(/\s+/);
  if (parts.length === 6 && parts[0] === "0") parts.shift();
  const [minute, hour, day, month, week] = parts;
  const at = parts.length === 5 && month === "*" && time(minute, hour);
  if (!at) return null;
  if (day === "*" && week === "*") return hour === "*" ? at : t("every day {at}", { at });
  if (week === "*" && NUMBERS.test(day)) return t("on day {day} of the month {at}", { day, at });
  if (day !== "*" || !/^[0-7](,[0-7])*$/.test(week)) return null;
  const names = new Intl.DateTimeFormat(currentLanguage() === "zh" ? "zh-CN" : "en", { weekday: "long" });
  return t("on {days} {at}", { days: week.split(",").map((one) => names.format(new Date(2023, 0, 1 + Number(one)))).join(", "), at });
}
