// What the console says, in Chinese: a file for each page. A text that is missing is shown in English; the test of the console
// names it.

import { FRAME } from "./chinese/frame.js";
import { OVERVIEW } from "./chinese/overview.js";
import { SITES } from "./chinese/sites.js";
import { ROUTES } from "./chinese/routes.js";
import { LOG } from "./chinese/log.js";
import { KEYS } from "./chinese/keys.js";
import { PLAYGROUND } from "./chinese/playground.js";
import { SETTINGS } from "./chinese/settings.js";

export const CHINESE = { ...FRAME, ...OVERVIEW, ...SITES, ...ROUTES, ...LOG, ...KEYS, ...PLAYGROUND, ...SETTINGS };
