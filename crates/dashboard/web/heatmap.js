// Committees as a map of cells: a row a committee, a column a subcommittee.

import { fillTable, make, palette, prepare, right, setText, show } from "./dom.js";
import * as format from "./format.js";

/** Stages of a vote, in their order. */
export const STAGES = ["seen", "aggregated", "collected"];

// One hue from the ground of the page to its ink: lightness alone carries the value, so that no
// kind of colour vision is at a loss.
const LIGHT = [[236, 240, 244], [188, 211, 232], [122, 173, 214], [47, 119, 178], [8, 56, 107]];
const DARK = [[33, 40, 50], [28, 66, 104], [36, 108, 168], [88, 163, 222], [205, 230, 250]];

/** Red, green and blue of a percentage. */
export function heatColour(percent, isDark) {
  const ramp = isDark ? DARK : LIGHT;
  const place = (Math.max(0, Math.min(100, percent)) / 100) * (ramp.length - 1);
  const low = Math.min(Math.floor(place), ramp.length - 2);
  return ramp[low].map((value, i) => Math.round(value + (ramp[low + 1][i] - value) * (place - low)));
}

/** Where cells lie on a canvas so wide: sizes in CSS pixels. */
export function layoutOf(committees, subs, width) {
  const left = 30;
  const top = 18;
  const room = Math.max(1, width - left);
  const cellWidth = Math.max(1, Math.min(room / subs, 96));
  const tall = Math.max(2, Math.min(440 / committees, 36));
  const cellHeight = Math.min(tall, Math.max(cellWidth, 8));
  const gap = Math.min(cellWidth, cellHeight) >= 5 ? 1 : 0;
  return { left, top, cellWidth, cellHeight, gap, height: Math.ceil(top + committees * cellHeight + 2) };
}

/** The cell of a map of this size that is nearest to a place. */
export function within({ committees, subs }, { c, s }) {
  const clamp = (value, max) => Math.max(0, Math.min(value, max));
  return { c: clamp(c, committees - 1), s: clamp(s, subs - 1) };
}

/** The map, its cursor and the details of the cell under it. */
export class HeatMap {
  #canvas;
  #details;
  #said;
  #hasMoved = false;
  #table;
  #empty;
  #stage = "collected";
  #cursor = { c: 0, s: 0 };
  #size = { committees: 0, subs: 0 };
  #layout = null;
  #redraw;

  constructor({ canvas, details, said, table, empty, redraw }) {
    this.#canvas = canvas;
    this.#said = said;
    this.#details = details;
    this.#table = table;
    this.#empty = empty;
    this.#redraw = redraw;
    canvas.addEventListener("click", (event) => this.#click(event));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Which stage of the votes is shown. */
  set stage(stage) {
    this.#stage = stage;
    this.#redraw();
  }

  #click(event) {
    if (this.#layout === null) return;
    const box = this.#canvas.getBoundingClientRect();
    const { left, top, cellWidth, cellHeight } = this.#layout;
    this.#moveTo(
      Math.floor((event.clientY - box.top - top) / cellHeight),
      Math.floor((event.clientX - box.left - left) / cellWidth),
    );
  }

  #key(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const { c, s } = this.#cursor;
    if (step !== undefined) this.#moveTo(c + step[0], s + step[1]);
    else if (event.key === "Home") this.#moveTo(c, 0);
    else if (event.key === "End") this.#moveTo(c, this.#size.subs - 1);
    else return;
    event.preventDefault();
  }

  #moveTo(c, s) {
    const { committees, subs } = this.#size;
    if (committees * subs === 0) return;
    this.#cursor = within(this.#size, { c, s });
    this.#hasMoved = true;
    this.#redraw();
  }

  /** Draws a slot. */
  draw(state, slot, isTableOpen) {
    const { committees = 0, subs = 0 } = state.genesis ?? {};
    const hasCells = committees * subs > 0 && slot !== null && slot.cells !== null;
    this.#size = hasCells ? { committees, subs } : { committees: 0, subs: 0 };
    show(this.#canvas, hasCells);
    show(this.#details, hasCells);
    show(this.#empty, !hasCells);
    if (!hasCells) {
      this.#layout = null;
      setText(this.#empty, "Nothing was told of the cells of this slot.");
      fillTable(this.#table, [], []);
      return;
    }
    // Another trace may have a smaller map than the one where the cursor was moved.
    this.#cursor = within(this.#size, this.#cursor);
    const percents = slot.cells[this.#stage];
    this.#layout = layoutOf(committees, subs, this.#canvas.clientWidth);
    this.#drawCells(percents, committees, subs);
    this.#describe(slot, percents, committees * subs);
    this.#tell(slot);
    if (isTableOpen) this.#fill(slot, committees, subs);
  }

  #drawCells(percents, committees, subs) {
    const { left, top, cellWidth, cellHeight, gap, height } = this.#layout;
    const { g } = prepare(this.#canvas, height);
    const colours = palette();
    g.fillStyle = colours.muted;
    g.textAlign = "center";
    const everyColumn = Math.max(1, Math.ceil(26 / cellWidth));
    for (let s = 0; s < subs; s += everyColumn) g.fillText(s, left + (s + 0.5) * cellWidth, 8);
    g.textAlign = "right";
    const everyRow = Math.max(1, Math.ceil(13 / cellHeight));
    for (let c = 0; c < committees; c += everyRow) g.fillText(c, left - 8, top + (c + 0.5) * cellHeight);
    g.textAlign = "center";
    for (let c = 0; c < committees; c += 1) {
      for (let s = 0; s < subs; s += 1) {
        const percent = percents[c * subs + s] ?? 0;
        const [red, green, blue] = heatColour(percent, colours.isDark);
        g.fillStyle = `rgb(${red} ${green} ${blue})`;
        const [x, y] = [left + s * cellWidth, top + c * cellHeight];
        g.fillRect(x, y, cellWidth - gap, cellHeight - gap);
        if (cellWidth >= 38 && cellHeight >= 16) {
          const isBright = red * 0.3 + green * 0.59 + blue * 0.11 > 140;
          g.fillStyle = isBright ? "#10202e" : "#f4f8fb";
          g.fillText(percent, x + cellWidth / 2, y + cellHeight / 2);
        }
      }
    }
    const { c, s } = this.#cursor;
    g.strokeStyle = colours.late;
    g.lineWidth = 2;
    g.strokeRect(left + s * cellWidth - 0.5, top + c * cellHeight - 0.5, cellWidth - gap + 1, cellHeight - gap + 1);
  }

  #describe(slot, percents, cells) {
    let full = 0;
    for (const percent of percents) full += percent === 100 ? 1 : 0;
    const label = `Committees in slot ${slot.slot}: ${full} of ${cells} cells have all votes ${this.#stage}. `
      + "Arrow keys move between cells.";
    if (this.#canvas.getAttribute("aria-label") !== label) this.#canvas.setAttribute("aria-label", label);
  }

  #tell(slot) {
    const { c, s } = this.#cursor;
    const at = c * this.#size.subs + s;
    const cell = slot.aggregates[c]?.[s];
    const collection = slot.collections[c];
    const facts = [
      ...STAGES.map((stage) => [stage[0].toUpperCase() + stage.slice(1), format.percent(slot.cells[stage][at] ?? 0)]),
      ["Aggregates", cell === undefined ? "none" : `${cell.count}, ${cell.late} late`],
      ["Most votes in one", cell === undefined ? "–" : format.count(cell.votes)],
      ["Collections of the committee", collection === undefined ? "none" : format.count(collection.count)],
      ["Votes in the largest", collection === undefined ? "–" : format.count(collection.votes)],
      ["Bytes of them", collection === undefined ? "–" : format.bytes(collection.bytes)],
    ];
    const rows = (cell?.newest ?? []).map((one) => [
      format.short(one.n), right(format.count(one.votes)), right(format.milliseconds(one.ms)), one.late ? "late" : "in time",
    ]);
    const parts = [
      make("h3", {}, `Committee ${c}, subcommittee ${s}`),
      make("dl", {}, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    ];
    if (rows.length > 0) {
      const table = make("table");
      fillTable(table, ["Aggregator", right("Votes"), right("Took"), "Deadline"], rows);
      parts.push(make("h4", {}, "Newest aggregates"), table);
    }
    const fresh = make("div", {}, ...parts);
    // Told to readers of screens when the reader moves, not each time a number changes.
    if (this.#hasMoved) setText(this.#said, `${facts[STAGES.indexOf(this.#stage)].join(" ")}, committee ${c}, subcommittee ${s}`);
    this.#hasMoved = false;
    if (this.#details.textContent !== fresh.textContent) this.#details.replaceChildren(fresh);
  }

  #fill(slot, committees, subs) {
    const rows = [];
    for (let c = 0; c < committees; c += 1) {
      const means = STAGES.map((stage) => {
        const row = slot.cells[stage].subarray(c * subs, (c + 1) * subs);
        return row.reduce((sum, percent) => sum + percent, 0) / subs;
      });
      const aggregates = (slot.aggregates[c] ?? []).filter((cell) => cell !== undefined);
      const made = aggregates.reduce((sum, cell) => sum + cell.count, 0);
      const votes = slot.collections[c]?.votes ?? null;
      rows.push([right(String(c)), ...means.map((mean) => right(format.percent(mean))), right(format.count(made)), right(format.count(votes))]);
    }
    const head = ["Committee", "Seen", "Aggregated", "Collected", "Aggregates", "Votes collected"].map(right);
    fillTable(this.#table, head, rows);
  }
}
