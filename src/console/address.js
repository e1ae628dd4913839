// The address of a page: its path, and its filters in the query. Going back and forward is the browser's.

import { useEffect, useState } from "./vendor/htm-preact.js";

const CHANGED = "switchyard:address";

const read = () => ({ path: location.pathname, query: Object.fromEntries(new URLSearchParams(location.search)) });

// `/log` and `{status: "failed"}` as an address; what is empty is left out.
export function href(path, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(said).toString();
  return text ? `${path}?${text}` : path;
}

// Goes to a page. `replace` leaves no step to go back to: for filters that change while one types.
export function go(path, query = {}, { replace = false } = {}) {
  const target = href(path, query);
  if (target === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", target);
  dispatchEvent(new Event(CHANGED));
}

// Where we are; renders again when that changes.
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

// One filter of this page, kept in the address: `[value, set]`.
export function useFilter(name, usual = "") {
  const { path, query } = useAddress();
  const set = (value) => go(path, { ...query, [name]: value === usual ? "" : value }, { replace: true });
  return [query[name] ?? usual, set];
}

// Links of the console load no page anew; those with a modifier key or to elsewhere are the browser's.
export function followLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const isOurs = link && link.origin === location.origin && !link.target && !link.hasAttribute("download");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!isOurs || !isPlain || event.defaultPrevented || link.hash || link.pathname.startsWith("/api/")) return;
    event.preventDefault();
    go(link.pathname, Object.fromEntries(new URLSearchParams(link.search)));
    scrollTo(0, 0);
  });
}
