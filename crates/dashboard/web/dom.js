// The few things that all pictures need. Text goes in as text, never as markup.

/** The element with an id; a page without it is a mistake of ours. */
export function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no #${id}`);
  return element;
}

/** A new element with attributes and children; children that are no elements become text. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null) element.setAttribute(key, value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

/** Sets a text only where it changes: readers of screens are told of changes. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows or hides an element. */
export function show(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

/** What each table shows: the same again is not built again, so that text in it can be selected. */
const shown = new WeakMap();

/** Fills a table; cells are texts, elements, or `{text, className}`. */
export function fillTable(table, head, rows) {
  const words = JSON.stringify([head, ...rows].map((row) => row.map(wordsOf)));
  if (shown.get(table) === words) return;
  shown.set(table, words);
  const top = make("tr", {}, ...head.map((one) => cellOf("th", one, { scope: "col" })));
  const lines = rows.map((row) => make("tr", {}, ...row.map((one) => cellOf("td", one))));
  table.replaceChildren(make("thead", {}, top), make("tbody", {}, ...lines));
}

/** What tells a cell from another one. */
function wordsOf(one) {
  if (typeof one === "string") return one;
  return one instanceof Node ? one.textContent : one.text;
}

function cellOf(name, one, attributes = {}) {
  if (typeof one === "string" || one instanceof Node) return make(name, attributes, one);
  return make(name, { class: one.className ?? null, ...attributes }, one.text);
}

/** A cell of a number: set to the right. */
export function right(text) {
  return { text, className: "number" };
}

const RATIO_MAX = 3;

/**
 * A canvas ready to draw on in CSS pixels, cleared: `{g, width, height}`. `height` is set first;
 * the width is what the page gives it.
 */
export function prepare(canvas, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, RATIO_MAX);
  const width = canvas.clientWidth;
  const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
  if (canvas.width !== pixels[0]) canvas.width = pixels[0];
  if (canvas.height !== pixels[1]) canvas.height = pixels[1];
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = `11px ${FONT}`;
  g.textBaseline = "middle";
  return { g, width, height };
}

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

const COLOUR_NAMES = [
  "ink", "muted", "line", "panel", "seen", "aggregated", "collected", "late", "bad", "soft", "grid",
];
let colours = null;

/** The colours of the page as it is shown now, by the names of its custom properties. */
export function palette() {
  if (colours === null) {
    const style = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(COLOUR_NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    colours.isDark = style.getPropertyValue("--is-dark").trim() === "1";
  }
  return colours;
}

/** To be called when light turns dark or back. */
export function forgetPalette() {
  colours = null;
}

/** Text that is cut where it would leave its place. */
export function fitted(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && g.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return end > 1 ? `${text.slice(0, end)}…` : "";
}
