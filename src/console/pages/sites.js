// The page Sites.

import { html } from "../parts.js";

export const Sites = () => html`<p></p>`;
