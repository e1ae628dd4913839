// The page Settings.

import { html } from "../parts.js";

export const Settings = () => html`<p></p>`;
