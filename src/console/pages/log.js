// The page Log.

import { html } from "../parts.js";

export const Log = () => html`<p></p>`;
