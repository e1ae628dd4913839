// Sign-in with the admin token.

import { useState } from "../vendor/htm-preact.js";
import { Failure, get, token } from "../api.js";
import { Field, Form, Languages, Note, html } from "../parts.js";
import { t } from "../words.js";

export function SignIn({ why, onDone, onLanguage }) {
  const [typed, setTyped] = useState("");
  const [isKept, setKept] = useState(false);
  const signIn = async () => {
    const tried = typed.trim();
    try {
      await get("/api/settings/auth/info", { as: tried });
    } catch (failure) {
      if (failure.kind !== "signin") throw failure;
      throw new Failure("refused", t("This is not the admin token. It is the value of AUTH_TOKEN, or what it was changed to.", "这不是管理令牌。管理令牌是 AUTH_TOKEN 的值，或修改后的值。"));
    }
    token.set(tried, isKept);
    onDone();
  };
  return html`
    <main class="signin">
      <h1>Switchyard</h1>
      ${why && html`<${Note} kind="warn">${why}<//>`}
      <${Form} act=${signIn} verb=${t("Sign in", "登录")} disabled=${!typed.trim()}>
        <${Field} kind="password" label=${t("Admin token")} hint=${t("The value of AUTH_TOKEN. It goes to this server only.", "即 AUTH_TOKEN 的值，只会发送给本服务器。")}
          value=${typed} onChange=${setTyped} autocomplete="current-password" autofocus />
        <${Field} kind="switch" label=${t("Keep it in this browser", "保存在此浏览器中")} hint=${t("Otherwise it is forgotten when this tab is closed.", "否则关闭此标签页后即被忘记。")}
          value=${isKept} onChange=${setKept} />
      <//>
      <${Languages} class="language" onChange=${onLanguage} />
    </main>`;
}
