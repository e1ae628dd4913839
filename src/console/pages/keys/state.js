// What a key may do now, in words.

import { t } from "../../words.js";

export const isExpired = (key, now = Date.now()) => key.expiresAt !== null && Date.parse(key.expiresAt) <= now;

// `[kind of badge, words, name for the filter]`.
export function stateOf(key) {
  if (!key.enabled) return ["", t("Off"), "off"];
  if (isExpired(key)) return ["bad", t("Expired"), "blocked"];
  if (key.maxCost !== null && key.usedCost >= key.maxCost) return ["bad", t("Budget spent"), "blocked"];
  if (key.maxRequests !== null && key.usedRequests >= key.maxRequests) return ["bad", t("Requests used up"), "blocked"];
  if (!key.supportedModels.length && !key.allowedRouteIds.length) return ["warn", t("Allows no model"), "blocked"];
  return ["good", t("On"), "on"];
}
