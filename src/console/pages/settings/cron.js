// A schedule in words: `[second] minute hour day month weekday`, as the server reads it. Null when it cannot be read.

import { currentLanguage, t } from "../../words.js";

const MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(" ");
const DAYS = "SUN MON TUE WED THU FRI SAT".split(" ");

// The values of a field, ascending; null when it cannot be read.
function values(text, min, max, names = []) {
  const number = (part) => {
    const named = names.indexOf(part.toUpperCase());
    const value = named >= 0 ? named + min : /^\d+$/.test(part) ? Number(part) : NaN;
    return value >= min && value <= max ? value : NaN;
  };
  const found = new Set();
  for (const item of text.split(",")) {
    const [, range, step = ""] = /^([^/]+)(\/[1-9]\d*)?$/.exec(item) ?? [];
    if (!range) return null;
    const [from, to] = range === "*" || range === "?" ? [min, max] : range.split("-").map(number);
    const last = to ?? (step ? max : from);
    if (!(from <= last)) return null;
    for (let value = from; value <= last; value += Number(step.slice(1)) || 1) found.add(value);
  }
  return [...found].sort((a, b) => a - b);
}

const two = (number) => String(number).padStart(2, "0");
// 1–5, 7
const listed = (numbers, show = String) => numbers.reduce((runs, number) => {
  if (runs.at(-1)?.at(-1) === number - 1) runs.at(-1).push(number); else runs.push([number]);
  return runs;
}, []).map((run) => (run.length > 2 ? `${show(run[0])}–${show(run.at(-1))}` : run.map(show).join(", "))).join(", ");

function time(minutes, hours) {
  const step = minutes.length > 1 ? minutes[1] - minutes[0] : 0;
  const isEven = step && minutes[0] === 0 && 60 % step === 0 && minutes.length === 60 / step;
  const at = isEven ? step === 1 ? t("every minute") : t("every {step} minutes", { step }) : null;
  if (hours.length === 24) return at ?? t("every hour at minute {minutes}", { minutes: listed(minutes) });
  if (!at && hours.length * minutes.length <= 6) return t("at {times}", { times: hours.flatMap((hour) => minutes.map((minute) => `${two(hour)}:${two(minute)}`)).join(", ") });
  return t("{at} in the hours {hours}", { at: at ?? t("at minute {minutes}", { minutes: listed(minutes) }), hours: listed(hours) });
}

export function cronWords(text) {
  const parts = text.trim().split(/\s+/);
  if (parts.length === 5) parts.unshift("0");
  if (parts.length !== 6) return null;
  const [seconds, minutes, hours, days, months, weekDays] = [values(parts[0], 0, 59), values(parts[1], 0, 59), values(parts[2], 0, 23),
    values(parts[3], 1, 31), values(parts[4], 1, 12, MONTHS), values(parts[5], 0, 7, DAYS)];
  if (![seconds, minutes, hours, days, months, weekDays].every(Boolean)) return null;
  const named = (options, date) => (number) => new Intl.DateTimeFormat(currentLanguage() === "zh" ? "zh-CN" : "en", options).format(date(number));
  const week = [...new Set(weekDays.map((day) => day % 7))].sort();
  const onWeek = week.length < 7 && t("on {days}", { days: listed(week, named({ weekday: "short" }, (day) => new Date(2023, 0, 1 + day))) });
  const onDays = days.length < 31 && t("on day {days} of the month", { days: listed(days) });
  const isEither = !/^[*?]/.test(parts[3]) && !/^[*?]/.test(parts[5]);
  const on = [onDays, onWeek].filter(Boolean).join(isEither ? t(" or ") : ", ");
  return [on || (hours.length < 24 && t("every day")), months.length < 12 && t("in {months}", { months: listed(months, named({ month: "short" }, (month) => new Date(2023, month - 1))) }),
    time(minutes, hours), parts[0] !== "0" && t("at second {seconds}", { seconds: listed(seconds) })].filter(Boolean).join(", ");
}
