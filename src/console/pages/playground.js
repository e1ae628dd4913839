// The page Playground.

import { html } from "../parts.js";

export const Playground = () => html`<p></p>`;
