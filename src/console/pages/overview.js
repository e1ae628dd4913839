// The page Overview.

import { html } from "../parts.js";

export const Overview = () => html`<p></p>`;
