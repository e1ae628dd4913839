// The address of a page: its path, and its filters in the query.

import { useEffect, useState } from "./vendor/htm-preact.js";
import { t } from "./words.js";

const CHANGED = "switchyard:address";

const read = (url = location) => ({ path: url.pathname, query: Object.fromEntries(new URLSearchParams(url.search)) });

// Asks before changes `within` are lost: what holds some is marked as `unsaved`.
export const mayLeave = (within = document, what = ".unsaved") => !within.querySelector(what)
  || confirm(t("What was changed is not saved. Give it up?", "修改尚未保存。要放弃吗？"));

// Another page loses all of them, another opened row those in the row.
let here = read();
const mayGo = ({ path, query }) => path !== here.path ? mayLeave() : query.open === here.query.open || mayLeave(document, ".detail .unsaved");

// What is empty is left out.
export function href(path, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(said).toString();
  return text ? `${path}?${text}` : path;
}

// `replace` leaves no step to go back to: for filters that change while one types. Gives whether it went.
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

export function useAddress() {
  const [address, setAddress] = useState(read);
  useEffect(() => {
    const follow = () => setAddress(read());
    addEventListener("popstate", follow);
    addEventListener(CHANGED, follow);
    return () => { removeEventListener("popstate", follow); removeEventListener(CHANGED, follow); };
  }, []);
  return address;
}

// A filter, kept in the address: `[value, set]`.
export function useFilter(name, usual = "") {
  const { path, query } = useAddress();
  const set = (value) => go(path, { ...query, [name]: value === usual ? "" : value }, { replace: true });
  return [query[name] ?? usual, set];
}

// Links of the console load no page anew; those with a modifier key or to elsewhere are the browser's. Going back and closing the
// tab ask, too.
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
