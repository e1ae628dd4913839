// The page Keys.

import { html } from "../parts.js";

export const Keys = () => html`<p></p>`;
