// The libraries of the page, as its modules use them. Templates make elements; what is put into them is text, never markup.

import htm from "/ui/htm.mjs";
import { Component, createRef, h, render } from "/ui/preact.mjs";

export const html = htm.bind(h);
export const { uPlot } = globalThis;
export { Component, createRef, render };
