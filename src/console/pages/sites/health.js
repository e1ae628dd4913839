// How an account is, and what it is called: for its row, and for the red list.

import { good, post } from "../../api.js";
import { Badge, html } from "../../parts.js";
import { coded, t } from "../../words.js";

export const nameOf = (account) => account.username || t("Account {id}", account);

export const isInTrouble = ({ status, runtimeHealth }) => ["expired", "unhealthy"].includes(status) || ["unhealthy", "degraded"].includes(runtimeHealth.state);

export function StateBadge({ account: { status, runtimeHealth: { state, reason } } }) {
  const words = { healthy: t("healthy"), degraded: t("degraded"), unhealthy: t("unhealthy"), disabled: t("off"), expired: t("expired"), unknown: t("not checked", "未检查") };
  const told = status === "expired" ? status : state;
  return html`<${Badge} title=${reason} kind=${{ healthy: "good", degraded: "warn", unhealthy: "bad", expired: "bad" }[told]}>${words[told] ?? told}<//>`;
}

// Reads the balance, or the models where there is none.
export async function recheck({ id, capabilities }) {
  if (capabilities?.canRefreshBalance) return good(await post(`/api/accounts/${id}/balance`));
  const { refresh } = good(await post(`/api/models/check/${id}`));
  return good({ ...refresh, success: refresh.status !== "failed", message: coded(refresh.errorCode, refresh.errorMessage, refresh.errorMessage) });
}
