// Curves over time: how far the votes of a slot are, and how a broadcast spreads.

import { fillTable, make, palette, prepare, right, setText, show } from "./dom.js";
import * as format from "./format.js";
import { itemsOf } from "./log.js";
import { broadcastFigures } from "./summary.js";
import { spanOf } from "./timeline.js";

const FRAME = { left: 40, right: 12, top: 10, bottom: 26 };
const HEIGHT = 220;

/** Axes from 0 to 100 percent and from 0 to `maxMs`; gives the scales. */
function axes(canvas, maxMs) {
  const { g, width } = prepare(canvas, HEIGHT);
  const colours = palette();
  const { left, right: edge, top, bottom } = FRAME;
  const x = (ms) => left + (ms / maxMs) * (width - left - edge);
  const y = (percent) => HEIGHT - bottom - (percent / 100) * (HEIGHT - top - bottom);
  for (const percent of [0, 25, 50, 75, 100]) {
    g.fillStyle = percent === 0 ? colours.line : colours.grid;
    g.fillRect(left, y(percent), width - left - edge, 1);
    g.fillStyle = colours.muted;
    g.textAlign = "right";
    g.fillText(`${percent} %`, left - 6, y(percent));
  }
  for (const ms of format.ticks(maxMs, width < 420 ? 4 : 6)) {
    g.fillStyle = colours.muted;
    g.textAlign = x(ms) > width - 28 ? "right" : "center";
    g.fillText(maxMs >= 2000 ? `${ms / 1000} s` : `${ms} ms`, Math.min(x(ms), width), HEIGHT - 11);
  }
  return { g, x, y, width, colours };
}

function line(g, points, colour, dash) {
  g.strokeStyle = colour;
  g.lineWidth = 2;
  g.lineJoin = "round";
  g.setLineDash(dash);
  g.beginPath();
  points.forEach(([x, y], i) => (i === 0 ? g.moveTo(x, y) : g.lineTo(x, y)));
  g.stroke();
  g.setLineDash([]);
}

/** Each stage has a colour and a dash of its own. */
const STAGES = [["seen", []], ["aggregated", [7, 3]], ["collected", [2, 3]]];

/** Draws how the votes of a slot move through the stages. */
export function drawProgress({ canvas, table, empty, state, slot, isTableOpen }) {
  const points = slot === null ? [] : itemsOf(slot.points);
  show(canvas, points.length > 0);
  show(empty, points.length === 0);
  if (points.length === 0) {
    setText(empty, "Nothing was told of the cells of this slot.");
    fillTable(table, [], []);
    return;
  }
  const { from, to } = spanOf(state, slot);
  const last = Math.max(to, points.at(-1).t);
  const { g, x, y, width, colours } = axes(canvas, (last - from) / 1e6);
  const at = (t) => x((t - from) / 1e6);
  g.strokeStyle = colours.muted;
  g.setLineDash([3, 4]);
  g.beginPath();
  g.moveTo(FRAME.left, y(200 / 3));
  g.lineTo(width - FRAME.right, y(200 / 3));
  g.stroke();
  g.setLineDash([]);
  g.fillStyle = colours.muted;
  g.textAlign = "left";
  g.fillText("2/3", FRAME.left + 4, y(200 / 3) - 8);
  for (const [stage, dash] of STAGES) {
    line(g, points.map((point) => [at(point.t), y(point[stage])]), colours[stage], dash);
  }
  if (slot.twoThirdsMs !== null) {
    const mark = x(slot.twoThirdsMs);
    g.fillStyle = colours.ink;
    g.fillRect(mark, FRAME.top, 1, HEIGHT - FRAME.top - FRAME.bottom);
    g.textAlign = mark > width - 110 ? "right" : "left";
    // Below the line of two thirds, where the curves have passed.
    g.fillText(format.milliseconds(slot.twoThirdsMs), mark + (mark > width - 110 ? -5 : 5), y(200 / 3) + 12);
  }
  const end = points.at(-1);
  canvas.setAttribute("aria-label", `Votes of slot ${slot.slot}: ${format.percent(end.seen)} seen, `
    + `${format.percent(end.aggregated)} aggregated, ${format.percent(end.collected)} collected. `
    + `Time to two thirds: ${format.milliseconds(slot.twoThirdsMs)}.`);
  if (isTableOpen) {
    const rows = points.map((point) => [
      right(format.milliseconds((point.t - from) / 1e6)),
      ...STAGES.map(([stage]) => right(format.percent(point[stage]))),
    ]);
    fillTable(table, ["Since slot start", "Seen", "Aggregated", "Collected"].map(right), rows);
  }
}

const BROADCASTS_DRAWN = 4;
const KIND_NAMES = { 1: "block", 2: "collection", 3: "filler" };
/** Colour, dash, and the words for them in the style sheet; the newest broadcast has the first. */
const BROADCAST_LINES = [
  ["aggregated", [], "line aggregated"],
  ["late", [7, 3], "line late dash"],
  ["collected", [2, 3], "line collected dot"],
  ["seen", [10, 3, 2, 3], "line seen dash"],
];

/** Draws which share of the receivers had a broadcast by when. */
export function drawBroadcasts({ canvas, table, legend, state, isTableOpen }) {
  const all = state.broadcasts.map((one) => ({ one, figures: broadcastFigures(one) }));
  const drawn = all.slice(-BROADCASTS_DRAWN).reverse();
  const maxMs = Math.max(1, ...drawn.map(({ figures }) => figures.max ?? 0)) * 1.05;
  const { g, x, y, width, colours } = axes(canvas, maxMs);
  drawn.forEach(({ figures }, i) => {
    const points = [[x(0), y(0)]];
    let height = 0;
    figures.times.forEach((ms, rank) => {
      points.push([x(ms), y(height)]);
      height = ((rank + 1) / figures.receivers) * 100;
      points.push([x(ms), y(height)]);
    });
    points.push([width - FRAME.right, y(height)]);
    line(g, points, colours[BROADCAST_LINES[i][0]], BROADCAST_LINES[i][1]);
  });
  const names = drawn.map(({ one }) => `${kindName(one)}, slot ${one.slot}`);
  if (legend.textContent !== names.join("")) {
    legend.replaceChildren(...names.map((name, i) => make("span", { class: `key ${BROADCAST_LINES[i][2]}` }, name)));
  }
  const newest = drawn[0].figures;
  canvas.setAttribute("aria-label", `${all.length} broadcasts; the newest reached ${newest.delivered} of `
    + `${newest.receivers} nodes, half of them within ${format.milliseconds(newest.p50)}.`);
  if (isTableOpen) {
    const rows = [...all].reverse().map(({ one, figures }) => [
      format.short(one.id), kindName(one), right(format.count(one.slot)),
      right(`${format.count(figures.delivered)} of ${format.count(figures.receivers)}`),
      right(format.milliseconds(figures.p50)), right(format.milliseconds(figures.p95)), right(format.milliseconds(figures.max)),
      right(format.bytes(figures.bytesMean)), right(format.count(figures.dependent)), right(format.count(figures.invalid)),
    ]);
    const numbers = ["Slot", "Delivered", "Half", "95 %", "Last", "Bytes a node", "Dependent", "Invalid"];
    fillTable(table, ["Broadcast", "Kind", ...numbers.map(right)], rows);
  }
}

function kindName(one) {
  return KIND_NAMES[one.kind] ?? `kind ${one.kind}`;
}
