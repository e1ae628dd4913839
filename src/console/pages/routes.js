// The page Routes.

import { html } from "../parts.js";

export const Routes = () => html`<p></p>`;
