// The address of a page: its path, and its filters in the query.

import { useEffect, useState } from "./vendor/htm-preact.js";
import { t } from "./words.js";

const CHANGED = "switchyard:address";

const read = (url = location) => ({ path: url.pathname.replace(/(.)\/+$/, "$1"), query: Object.fromEntries(new URLSearchParams(url.search)) });

// Asks before unsaved changes in `within` are lost; elements with such changes have the class `unsaved`.
export const mayLeave = (within = document, what = ".unsaved") => !within.querySelector(what)
  || confirm(t("Your changes are not saved. Discard them?", "修改尚未保存。要放弃吗？"));

// Leaving the page loses all unsaved changes; opening another row loses those in the open row.
let here = read();
const mayGo = ({ path, query }) => path !== here.path ? mayLeave() : query.open === here.query.open || mayLeave(document, ".detail .unsaved");

// Builds an address; empty values are left out of the query.
export function href(path, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(said).toString();
  return text ? `${path}?${text}` : path;
}

// Goes to an address; returns false if the user chose to stay. `replace` adds no history entry: for filters that change
// while the user types.
export function go(path, query = {}, { replace = false } = {}) {
  const target = href(path, query);
  const next = read(new URL(target, location));
  if (!mayGo(next)) return false;
  if (target === location.pathname + location.search) return true;
  here = next;
  history[replace ? "replaceState" : "pushState"](null, "", target);
  dispatchEvent(new Event(CHANGED));
  return true;
}

// Returns path and query, and `setQuery(more)`, which changes members of the query without a history entry.
export function useAddress() {
  const [address, setAddress] = useState(read);
  useEffect(() => {
    const follow = () => setAddress(read());
    addEventListener("popstate", follow);
    addEventListener(CHANGED, follow);
    return () => { removeEventListener("popstate", follow); removeEventListener(CHANGED, follow); };
  }, []);
  const setQuery = (more) => go(address.path, { ...address.query, ...more }, { replace: true });
  return { ...address, setQuery };
}

// A filter that is kept in the address, as `[value, set]`.
export function useFilter(name, usual = "") {
  const { query, setQuery } = useAddress();
  const set = (value) => setQuery({ [name]: value === usual ? "" : value });
  return [query[name] ?? usual, set];
}

// Follows links within the console without loading the page again; links elsewhere, or clicked with a modifier key, are left to
// the browser. Going back and closing the tab also ask about unsaved changes.
export function followLinks() {
  addEventListener("beforeunload", (event) => { if (document.querySelector(".unsaved")) event.preventDefault(); });
  addEventListener("popstate", (event) => {
    if (mayGo(read())) { here = read(); return; }
    event.stopImmediatePropagation();
    history.pushState(null, "", href(here.path, here.query));
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const isOurs = link && link.origin === location.origin && !link.target && !link.hasAttribute("download");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!isOurs || !isPlain || event.defaultPrevented || link.hash || link.pathname.startsWith("/api/")) return;
    event.preventDefault();
    if (go(link.pathname, read(link).query)) scrollTo(0, 0);
  });
}
