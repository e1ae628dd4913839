// Which models a pattern names, for the preview while one types. The server has the last word.
//
//   exact   no `*`, no `?`, not `re:`   the same text
//   glob    with `*` or `?`             any run, `/` included; one character; the whole name
//   regex   `re:…`                      anywhere in the name unless `^` or `$` hold it

export const isExact = (pattern) => !/^re:/i.test(pattern) && !/[*?]/.test(pattern);

// The first names of routes that hold what is typed; a pattern without a name of its own only matches.
export const namesLike = (typed, routes = []) => [...new Set(routes.filter((route) => route.enabled).map((route) => route.displayName || route.modelPattern))]
  .filter((name) => isExact(name) && name.toLowerCase().includes(typed.toLowerCase())).slice(0, 50);

// Walks both texts once, coming back only to the last `*`: nothing that is typed can stall the page.
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

// A repeated group, or many repetitions, may take a browser for ever, but not the server.
const COSTLY = /\)[*+{]|([*+{].*){4}/s;
const REFUSED = /\(\?<?[=!]|\\[1-9]/;

// A function that says whether a name matches, or a text: why that cannot be shown (`blank`, `refused`, `unknown`).
export function matcher(pattern) {
  const text = pattern.trim();
  if (!text) return "blank";
  if (isExact(text)) return (name) => name === text;
  if (!/^re:/i.test(text)) return (name) => name === text || globMatches(text, name);
  const body = text.slice(3).trim();
  if (!body) return "blank";
  if ([...body].length > 256 || REFUSED.test(body)) return "refused";
  if (COSTLY.test(body)) return "unknown";
  // Anchors at the ends hold for the whole: `^a|b$` is `a` or `b` and nothing longer.
  const [, start, rest, end] = /^(\^?)(.*?)((?<!\\)(?:\\\\)*\$)?$/s.exec(body);
  try {
    const expression = new RegExp(`${start}(?:${rest}${end ? end.slice(0, -1) : ""})${end ? "$" : ""}`, "u");
    return (name) => name === text || expression.test(name);
  } catch { return "unknown"; }
}
