// The start: sign-in, the frame, and the page that the address names.

import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { followLinks, mayLeave, useAddress } from "./address.js";
import { Failure, get, listen, tell, token } from "./api.js";
import { readEarly, useRead, useTicks } from "./data.js";
import { explain, setLanguage, t } from "./words.js";
import { Dialog, Field, Form, Languages, Link, Note, Unread } from "./parts.js";

const PAGES = [["/", "Overview"], ["/sites", "Sites"], ["/routes", "Models"], ["/log", "Log"], ["/keys", "Keys"], ["/playground", "Playground"], ["/settings", "Settings"]];
const load = (path) => import(`./pages${path === "/" ? "/overview" : path}.js`).then((module) => module.Page);
const loaded = new Map();
const pageAt = (path) => PAGES.find(([known]) => known === path) ?? PAGES[0];
const THEME = "switchyard.theme";
const SLASH = "switchyard.slash";

function setTheme(theme) {
  localStorage.setItem(THEME, theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

// A page that breaks, or cannot be loaded, does not affect the frame.
function Guarded({ at, isAway }) {
  const [error, forget] = useErrorBoundary((seen) => console.error(seen));
  const [failure, setFailure] = useState(null);
  const [, arrived] = useState(0);
  useLayoutEffect(() => {
    if (!loaded.has(at)) load(at).then((Page) => { loaded.set(at, Page); setFailure(null); arrived((count) => count + 1); }, setFailure);
  }, [at, isAway]);
  const Page = loaded.get(at);
  if (error || failure) {
    return html`<${Note} kind="bad">${failure ? t("This page could not be loaded.", "无法加载此页面。") : t("This page failed: {why}", "此页面出错：{why}", { why: error.message })}
      <${Link} act=${failure ? () => location.reload() : forget}>${t("Try again")}<//><//>`;
  }
  return Page ? html`<${Page} />` : html`<p class="quiet" role="status" aria-busy="true">${t("Loading …")}</p>`;
}

// Whether the server is away; while it is, a visible tab asks every 2 seconds whether it is back.
function useAway() {
  const [isAway, setAway] = useState(false);
  useEffect(() => listen((what) => { if (what !== "signin") setAway(what === "offline"); }), []);
  useTicks(isAway ? 2 : 0, () => get("/api/events/count").catch(() => {}));
  return isAway;
}

function Frame({ onSignOut, onLanguage }) {
  const { path } = useAddress();
  const isAway = useAway();
  const [at, name] = pageAt(path);
  const unread = useRead("/api/events/count", { every: 15 });
  useEffect(() => { if (unread.at) unread.reload(); }, [path]);
  const [theme, chooseTheme] = useState(localStorage.getItem(THEME));
  const [Search, setSearch] = useState(null);
  // A shortcut of a single character can be turned off, for those whose speech input types it (WCAG 2.1.4).
  const [hasSlash, setSlash] = useState(localStorage.getItem(SLASH) !== "off");
  const search = () => import("./pages/search.js").then((module) => setSearch(() => module.Search), () => {});
  useEffect(() => {
    const press = (event) => {
      const isTyping = event.target.closest("input, select, textarea");
      if (document.querySelector("dialog") || !(event.key === "/" && hasSlash && !isTyping || event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey))) return;
      event.preventDefault();
      search();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [hasSlash]);
  // A link in the former page is gone with its focus, which goes on at the new page.
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current !== path && document.activeElement === document.body) document.getElementById("page").focus({ preventScroll: true });
    shown.current = path;
  }, [path]);
  useEffect(() => { document.title = `${t(name)} · Switchyard`; });
  return html`
    <a class="skip" href="#page">${t("Skip to content", "跳到正文")}</a>
    <header class="top">
      <a class="brand" href="/">Switchyard</a>
      <nav aria-label=${t("Pages")}>${PAGES.map(([to, label]) => html`<a href=${to} key=${to} aria-current=${to === path ? "page" : undefined}>${t(label)}
        ${to === "/" && unread.value?.count > 0 && html` <span class="badge" title=${t("Unread events")}>${unread.value.count > 99 ? "99+" : unread.value.count}</span>`}
        ${to === "/" && html`<${Unread} read=${unread} />`}</a>`)}</nav>
      <div class="choices">
        <button class="icon" onClick=${search} title=${hasSlash ? "Ctrl K, /" : "Ctrl K"} aria-label=${t("Find anything", "全局搜索")}>
          <svg viewBox="0 0 16 16" width="16" fill="none" stroke="currentColor" stroke-width="2"><path d="m15 15-5-5A5 5 0 1 1 10 3a5 5 0 0 1 0 7" /></svg></button>
        <${Languages} onChange=${onLanguage} />
        <label><span class="unseen">${t("Colours", "配色")}</span><select value=${theme} onChange=${(event) => { setTheme(event.target.value); chooseTheme(event.target.value); }}>
          <option value="system">${t("System", "跟随系统")}</option><option value="light">${t("Light", "浅色")}</option><option value="dark">${t("Dark", "深色")}</option></select></label>
        <button class="quiet" onClick=${() => mayLeave() && onSignOut()}>${t("Sign out", "退出")}</button>
      </div>
    </header>
    ${isAway && html`<${Note} kind="warn">${t("The server cannot be reached; retrying. What is shown may be out of date.", "无法连接服务器，显示的内容可能已过时；系统会自动重试。")}<//>`}
    ${Search && html`<${Search} pages=${PAGES} onClose=${() => setSearch(null)} hasSlash=${hasSlash}
      onSlash=${(isOn) => { localStorage.setItem(SLASH, isOn ? "on" : "off"); setSlash(isOn); }} />`}
    <main id="page" tabindex="-1"><h1>${t(name)}</h1><${Guarded} key=${path} at=${at} isAway=${isAway} /></main>`;
}

function SignIn({ why, onDone, onLanguage }) {
  const [typed, setTyped] = useState("");
  const [isKept, setKept] = useState(false);
  const signIn = async () => {
    const tried = typed.trim();
    try {
      await get("/api/settings/auth/info", { as: tried });
    } catch (failure) {
      if (failure.kind !== "signin") throw failure;
      throw new Failure("refused", t("This is not the admin token. Enter the value of AUTH_TOKEN, or the token it was changed to.", "这不是管理令牌。管理令牌是 AUTH_TOKEN 的值，或修改后的值。"));
    }
    token.set(tried, isKept);
    onDone();
    tell("online");
  };
  return html`
    <main class="signin">
      <h1>Switchyard</h1>
      ${why && html`<${Note} kind="warn">${why}<//>`}
      <${Form} act=${signIn} keeps verb=${t("Sign in")} disabled=${!typed.trim()}>
        <${Field} kind="password" label=${t("Admin token")} hint=${t("The value of AUTH_TOKEN. It is sent to this server only.", "即 AUTH_TOKEN 的值，只会发送给本服务器。")}
          value=${typed} onChange=${setTyped} autocomplete="current-password" autofocus />
        <${Field} kind="switch" label=${t("Keep it in this browser", "保存在此浏览器中")} hint=${t("Otherwise it is forgotten when this tab is closed.", "否则关闭此标签页后即被忘记。")}
          value=${isKept} onChange=${setKept} />
      <//>
      <${Languages} class="language" onChange=${onLanguage} />
    </main>`;
}

function Console() {
  const [isSignedIn, setSignedIn] = useState(token.get() !== "");
  const [why, setWhy] = useState(null);
  const [, setLanguages] = useState(0);
  useEffect(() => listen((what) => {
    if (what !== "signin") return;
    const words = token.get() ? explain({ kind: "signin" }) : t("Signed out in another tab.", "已在其他标签页退出。");
    token.forget();
    setWhy((before) => before ?? words);
    // What is not saved stays while the user signs in again.
    if (!document.querySelector(".unsaved")) setSignedIn(false);
  }), []);
  const choose = async (language) => { await setLanguage(language); setLanguages((count) => count + 1); };
  const signOut = () => { token.forget(); setWhy(null); setSignedIn(false); };
  const signIn = html`<${SignIn} why=${why} onLanguage=${choose} onDone=${() => { setWhy(null); setSignedIn(true); }} />`;
  if (!isSignedIn) return signIn;
  return html`<${Frame} onLanguage=${choose} onSignOut=${signOut} />
    ${why && html`<${Dialog} title=${t("Sign in")} onClose=${() => mayLeave() && signOut()}>${signIn}<//>`}`;
}

setTheme(localStorage.getItem(THEME) ?? "system");
followLinks();
// The first page is loaded while the frame is drawn; so are the figures of the overview.
const [first] = pageAt(location.pathname);
if (token.get()) {
  if (first === "/") readEarly("/api/stats/dashboard");
  load(first).catch(() => {});
}
render(html`<${Console} />`, document.getElementById("console"));
