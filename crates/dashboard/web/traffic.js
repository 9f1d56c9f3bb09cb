// Traffic by kind of topic, and the rate of the newest seconds.

import { fillTable, fitted, palette, prepare, right } from "./dom.js";
import * as format from "./format.js";

const ROW = 30;
const LEFT = 116;
const RIGHT = 74;
const SPARK = 54;
const TOPICS_MAX = 8;

/** Topics by their traffic, and bytes a second of all of them: pure. */
export function trafficOf(state) {
  const topics = Object.entries(state.topics)
    .map(([name, sum]) => ({ name, in: sum.in, out: sum.out }))
    .sort((a, b) => b.in + b.out - a.in - a.out || (a.name < b.name ? -1 : 1));
  const seconds = state.seconds.map(({ second, topics: parts }) => {
    const sums = Object.values(parts);
    return { second, in: sum(sums, "in"), out: sum(sums, "out") };
  });
  return { topics, seconds };
}

function sum(parts, direction) {
  return parts.reduce((total, part) => total + part[direction], 0);
}

/** Draws the bars and the rate, and fills the table. */
export function drawTraffic({ canvas, table, state, isTableOpen }) {
  const { topics, seconds } = trafficOf(state);
  const drawn = topics.slice(0, TOPICS_MAX);
  const { g, width } = prepare(canvas, drawn.length * ROW + SPARK + 34);
  const colours = palette();
  const max = Math.max(1, ...drawn.flatMap((topic) => [topic.in, topic.out]));
  const room = width - LEFT - RIGHT;
  drawn.forEach((topic, i) => {
    const y = i * ROW;
    g.fillStyle = colours.ink;
    g.textAlign = "left";
    g.fillText(fitted(g, topic.name, LEFT - 10), 0, y + ROW / 2);
    bar(g, topic.in, y + 4, colours.seen);
    bar(g, topic.out, y + 16, colours.late);
  });
  drawRate({ g, width, y: drawn.length * ROW + 26, seconds, colours });
  const total = (direction) => format.bytes(sum(topics, direction));
  canvas.setAttribute("aria-label", `${total("in")} in and ${total("out")} out over ${topics.length} kinds of topics.`);
  if (isTableOpen) {
    const rows = topics.map((topic) => [
      topic.name, ...[topic.in, topic.out, topic.in + topic.out].map((bytes) => right(format.bytes(bytes))),
    ]);
    fillTable(table, ["Topic", ...["In", "Out", "Both"].map(right)], rows);
  }

  function bar(context, bytes, y, colour) {
    const length = (bytes / max) * room;
    context.fillStyle = colour;
    context.fillRect(LEFT, y, Math.max(bytes > 0 ? 1 : 0, length), 9);
    context.fillStyle = colours.muted;
    context.fillText(format.bytes(bytes), LEFT + length + 6, y + 5);
  }
}

/** In upwards, out downwards, a column a second. */
function drawRate({ g, width, y, seconds, colours }) {
  const max = Math.max(1, ...seconds.flatMap((one) => [one.in, one.out]));
  const last = seconds.at(-1)?.second ?? 0;
  const span = Math.max(30, last - (seconds[0]?.second ?? 0) + 1);
  const step = width / span;
  const half = SPARK / 2;
  g.fillStyle = colours.muted;
  g.textAlign = "left";
  g.fillText(`a second, in above and out below, at most ${format.bytes(max)}/s`, 0, y - 8);
  g.fillStyle = colours.line;
  g.fillRect(0, y + half, width, 1);
  for (const one of seconds) {
    const x = width - (last - one.second + 1) * step;
    g.fillStyle = colours.seen;
    g.fillRect(x, y + half - (one.in / max) * half, Math.max(1, step - 1), (one.in / max) * half);
    g.fillStyle = colours.late;
    g.fillRect(x, y + half + 1, Math.max(1, step - 1), (one.out / max) * half);
  }
}
