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
      throw new Failure("refused", t("This is not the admin token. It is the value of AUTH_TOKEN, or what it was changed to."));
    }
    token.set(tried, isKept);
    onDone();
  };
  return html`
    <main class="signin">
      <h1>Switchyard</h1>
      ${why && html`<${Note} kind="warn">${why}<//>`}
      <${Form} act=${signIn} verb=${t("Sign in")} disabled=${!typed.trim()}>
        <${Field} kind="password" label=${t("Admin token")} hint=${t("The value of AUTH_TOKEN. It goes to this server only.")}
          value=${typed} onChange=${setTyped} autocomplete="current-password" autofocus />
        <${Field} kind="switch" label=${t("Keep it in this browser")} hint=${t("Otherwise it is forgotten when this tab is closed.")}
          value=${isKept} onChange=${setKept} />
      <//>
      <${Languages} class="language" onChange=${onLanguage} />
    </main>`;
}
