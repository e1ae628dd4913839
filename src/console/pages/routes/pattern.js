// Matches models with a pattern, for the preview while the user types. The server decides.
//
//   exact   no `*`, no `?`, not `re:`   the same text
//   glob    with `*` or `?`             any run, `/` included; one character; the whole name
//   regex   `re:…`                      anywhere in the name, unless anchored by `^` or `$`

export const isExact = (pattern) => !/^re:/i.test(pattern) && !/[*?]/.test(pattern);

// Returns the first names of routes that contain the typed text; patterns without a name of their own are left out.
export const namesLike = (typed, routes = []) => [...new Set(routes.filter((route) => route.enabled).map((route) => route.displayName || route.modelPattern))]
  .filter((name) => isExact(name) && name.toLowerCase().includes(typed.toLowerCase())).slice(0, 50);

// Goes back only to the last `*`, so that no pattern can stall the page.
function globMatches(glob, name) {
  let at = 0, from = 0, star = -1, kept = 0;
  while (from < name.length) {
    if (glob[at] === "*") { star = at++; kept = from; }
    else if (at < glob.length && (glob[at] === "?" || glob[at] === name[from])) { at++; from++; }
    else if (star >= 0) { at = star + 1; from = ++kept; }
    else return false;
  }
  while (glob[at] === "*") at++;
  return at === glob.length;
}

// Matching a repeated group, or many repetitions, may never end in a browser; the server has no such problem.
const COSTLY = /\)[*+{]|([*+{].*){4}/s;
const REFUSED = /\(\?<?[=!]|\\[1-9]/;

// Returns a function that says whether a name matches, or the reason why there is no preview: `blank`, `refused` or `unknown`.
export function matcher(pattern) {
  const text = pattern.trim();
  if (!text) return "blank";
  if (isExact(text)) return (name) => name === text;
  if (!/^re:/i.test(text)) return (name) => name === text || globMatches(text, name);
  const body = text.slice(3).trim();
  if (!body) return "blank";
  if ([...body].length > 256 || REFUSED.test(body)) return "refused";
  if (COSTLY.test(body)) return "unknown";
  // Anchors at the ends apply to the whole pattern: `^a|b$` matches `a` or `b` and nothing longer.
  const [, start, rest, end] = /^(\^?)(.*?)((?<!\\)(?:\\\\)*\$)?$/s.exec(body);
  try {
    const expression = new RegExp(`${start}(?:${rest}${end ? end.slice(0, -1) : ""})${end ? "$" : ""}`, "u");
    return (name) => name === text || expression.test(name);
  } catch { return "unknown"; }
}
