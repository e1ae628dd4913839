// Begins: sign-in, the frame, the page that the address names.

import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useState } from "./vendor/htm-preact.js";
import { followLinks, useAddress } from "./address.js";
import { get, listen, token } from "./api.js";
import { useRead, useTicks } from "./data.js";
import { setLanguage, t } from "./words.js";
import { Languages, Note } from "./parts.js";
import { Overview } from "./pages/overview.js";
import { SignIn } from "./pages/signin.js";

// The first page is here from the beginning; each other one is loaded when it is first opened.
const PAGES = [
  ["/", "Overview"],
  ["/sites", "Sites", () => import("./pages/sites.js").then((module) => module.Sites)],
  ["/routes", "Models", () => import("./pages/routes.js").then((module) => module.Routes)],
  ["/log", "Log", () => import("./pages/log.js").then((module) => module.Log)],
  ["/keys", "Keys", () => import("./pages/keys.js").then((module) => module.Keys)],
  ["/playground", "Playground", () => import("./pages/playground.js").then((module) => module.Playground)],
  ["/settings", "Settings", () => import("./pages/settings.js").then((module) => module.Settings)],
];
const loaded = new Map([["/", Overview]]);
const pageAt = (path) => PAGES.find(([known]) => known === path) ?? PAGES[0];
const THEME = "switchyard.theme";

function setTheme(theme) {
  localStorage.setItem(THEME, theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

// A page that breaks, or cannot be loaded, takes nothing else with it.
function Guarded({ at, load, query }) {
  const [error, forget] = useErrorBoundary((seen) => console.error(seen));
  const [failure, setFailure] = useState(null);
  const [, arrived] = useState(0);
  const begin = () => {
    setFailure(null);
    load().then((Page) => { loaded.set(at, Page); arrived((count) => count + 1); }, setFailure);
  };
  useLayoutEffect(() => { if (!loaded.has(at)) begin(); }, [at]);
  const Page = loaded.get(at);
  if (error || failure) {
    return html`<${Note} kind="bad">${failure ? t("This page could not be loaded.", "无法加载此页面。") : t("This page broke: {why}", "此页面出错：{why}", { why: error.message })}
      <button class="link" onClick=${failure ? () => location.reload() : forget}>${t("Try again")}</button><//>`;
  }
  return Page ? html`<${Page} query=${query} />` : html`<p class="quiet" role="status" aria-busy="true">${t("Loading …")}</p>`;
}

// Whether the server is away, and how often it came back. While it is away it is asked for as long as the tab is seen.
function useConnection() {
  const [state, setState] = useState({ isAway: false, returned: 0 });
  useEffect(() => listen((what) => setState((before) => {
    if (what === "signin" || before.isAway === (what === "offline")) return before;
    return { isAway: !before.isAway, returned: before.returned + (before.isAway ? 1 : 0) };
  })), []);
  useTicks(state.isAway ? 2 : 0, () => get("/api/events/count").catch(() => {}));
  return state;
}

// What failed while the server was away is read anew once it is back: `returned` is a part of the page's key.
function Frame({ onSignOut, onLanguage }) {
  const { path, query } = useAddress();
  const { isAway, returned } = useConnection();
  const [at, name, load] = pageAt(path);
  const unread = useRead("/api/events/count", { every: 15 });
  useEffect(() => { if (unread.at) unread.reload(); }, [path]);
  const [theme, chooseTheme] = useState(localStorage.getItem(THEME) ?? "system");
  useEffect(() => { document.title = `${t(name)} · Switchyard`; });
  return html`
    <a class="skip" href="#page">${t("To the page", "跳到正文")}</a>
    <header class="top">
      <a class="brand" href="/">Switchyard</a>
      <nav aria-label=${t("Pages")}>${PAGES.map(([to, label]) => html`<a href=${to} key=${to} aria-current=${to === path ? "page" : undefined}>${t(label)}
        ${to === "/" && unread.value?.count > 0 && html` <span class="badge warn" title=${t("Unread events")}>${unread.value.count}</span>`}</a>`)}</nav>
      <div class="choices">
        <${Languages} onChange=${onLanguage} />
        <label><span class="unseen">${t("Colours", "配色")}</span><select value=${theme} onChange=${(event) => { setTheme(event.target.value); chooseTheme(event.target.value); }}>
          <option value="system">${t("As the system", "跟随系统")}</option><option value="light">${t("Light", "浅色")}</option><option value="dark">${t("Dark", "深色")}</option></select></label>
        <button class="quiet" onClick=${onSignOut}>${t("Sign out", "退出")}</button>
      </div>
    </header>
    ${isAway && html`<${Note} kind="warn">${t("The server cannot be reached. What is shown may be old; it is tried again by itself.", "无法连接服务器，显示的内容可能已过时；系统会自动重试。")}<//>`}
    <main id="page" tabindex="-1"><h1>${t(name)}</h1><${Guarded} key=${`${path} ${returned}`} at=${at} load=${load} query=${query} /></main>`;
}

function Console() {
  const [isSignedIn, setSignedIn] = useState(token.get() !== "");
  const [why, setWhy] = useState(null);
  const [, setLanguages] = useState(0);
  useEffect(() => listen((what) => {
    if (what !== "signin") return;
    token.forget();
    setWhy(t("The token is not accepted any more. It may have been changed: sign in again."));
    setSignedIn(false);
  }), []);
  const choose = async (language) => { await setLanguage(language); setLanguages((count) => count + 1); };
  if (!isSignedIn) {
    return html`<${SignIn} why=${why} onLanguage=${choose} onDone=${() => { setWhy(null); setSignedIn(true); }} />`;
  }
  return html`<${Frame} onLanguage=${choose} onSignOut=${() => { token.forget(); setWhy(null); setSignedIn(false); }} />`;
}

setTheme(localStorage.getItem(THEME) ?? "system");
followLinks();
// The page that the address names is on its way while the frame is drawn; whether it comes is told there.
if (token.get()) pageAt(location.pathname)[2]?.().catch(() => {});
render(html`<${Console} />`, document.getElementById("console"));
