// One slot in time: its phases, its sessions, and what each lane of the worker did.

import { fillTable, fitted, make, palette, prepare, right, setText, show } from "./dom.js";
import * as format from "./format.js";
import { itemsOf } from "./log.js";

/** Room for names, less of it where there is little. */
const leftOf = (width) => (width < 600 ? 96 : 132);
const RIGHT = 14;
const ROW = 20;
const LANES_MAX = 24;
const SESSIONS_MAX = 6;

/** Begin and end of a slot in nanoseconds from genesis. */
export function spanOf(state, slot) {
  const length = (state.genesis?.slotMs ?? 0) * 1e6;
  const from = length > 0 ? slot.slot * length : slot.t ?? state.first ?? 0;
  return { from, to: from + (length || 1e9) };
}

/** What happened in a slot, in rows: pure, so that tests see what is drawn. */
export function rowsOf(state, slot) {
  const { from, to } = spanOf(state, slot);
  const overlaps = (start, end) => end >= from && start < to;
  const sessions = itemsOf(state.sessions).filter((one) => overlaps(one.open, one.hard));
  const jobs = itemsOf(state.jobs).filter((one) => overlaps(one.start, one.end));
  const lanes = new Map();
  for (const job of jobs) {
    const key = `${job.n}\u0000${job.lane}`;
    if (!lanes.has(key)) lanes.set(key, { n: job.n, lane: job.lane, jobs: [] });
    lanes.get(key).jobs.push(job);
  }
  const sorted = [...lanes.values()].sort((a, b) => (a.n === b.n ? a.lane - b.lane : a.n < b.n ? -1 : 1));
  return { from, to, sessions, jobs, lanes: sorted };
}

/** Which colour a job has: done as predicted, done later than predicted, or not done. */
export function kindOfJob(job) {
  if (job.outcome !== "done") return "bad";
  return job.over ? "late" : "aggregated";
}

/** The names of the phases, of which the trace gives only the times: one for each level of evidence in the middle. */
function phaseNames(count) {
  const levels = ["aggregate", "collect", "collect_3", "collect_4"].slice(0, Math.max(0, count - 3));
  return ["propose", "vote", ...levels, "decide"];
}

/** The phases of a slot, in order: name, planned begin, lag. */
export function phasesOf(state, slot) {
  const offsets = state.genesis?.offsetsMs ?? [];
  const names = phaseNames(offsets.length);
  return offsets.map((ms, i) => {
    const name = names[i] ?? `phase ${i}`;
    const told = Object.hasOwn(slot.phases, name) ? slot.phases[name] : null;
    return { name, ms, lagUs: told?.lagUs ?? null, node: told?.node ?? null };
  });
}

/** Draws the timeline of a slot and fills its table. */
export function drawTimeline({ canvas, table, empty, state, slot, isTableOpen }) {
  const rows = slot === null ? null : rowsOf(state, slot);
  const phases = slot === null ? [] : phasesOf(state, slot);
  const hasAny = rows !== null && (phases.length > 0 || rows.jobs.length + rows.sessions.length > 0);
  show(canvas, hasAny);
  show(empty, !hasAny);
  if (!hasAny) {
    setText(empty, "Nothing was told of this slot.");
    fillTable(table, [], []);
    return;
  }
  const lanes = rows.lanes.slice(0, LANES_MAX);
  const sessions = rows.sessions.slice(-SESSIONS_MAX);
  const height = 44 + (sessions.length + lanes.length) * ROW + (sessions.length > 0 ? 8 : 0) + 24;
  const { g, width } = prepare(canvas, height);
  const left = leftOf(width);
  const scale = (ns) => left + ((ns - rows.from) / (rows.to - rows.from)) * (width - left - RIGHT);
  const place = { g, scale, left, width, height, rows };
  drawPhases(place, phases);
  let y = 44;
  for (const session of sessions) {
    drawSession(place, session, y);
    y += ROW;
  }
  if (sessions.length > 0) y += 8;
  for (const lane of lanes) {
    drawLane(place, lane, y);
    y += ROW;
  }
  drawAxis(place);
  const more = rows.lanes.length - lanes.length;
  const others = more > 0 ? ` ${more} more lanes are in the table.` : "";
  canvas.setAttribute("aria-label", `Slot ${slot.slot}: ${rows.jobs.length} jobs on ${rows.lanes.length} lanes, `
    + `${rows.jobs.filter((job) => kindOfJob(job) === "late").length} later than predicted, ${rows.sessions.length} sessions.${others}`);
  if (isTableOpen) fill(table, phases, rows);
}

function drawPhases({ g, scale, width, height, rows }, phases) {
  const colours = palette();
  phases.forEach((phase, i) => {
    const from = scale(rows.from + phase.ms * 1e6);
    const to = i + 1 < phases.length ? scale(rows.from + phases[i + 1].ms * 1e6) : width - RIGHT;
    if (i % 2 === 0) {
      g.fillStyle = colours.grid;
      g.fillRect(from, 0, to - from, height - 22);
    }
    g.fillStyle = colours.line;
    g.fillRect(from, 0, 1, height - 22);
    g.textAlign = "left";
    g.fillStyle = colours.ink;
    g.fillText(fitted(g, phase.name, to - from - 10), from + 6, 11);
    g.fillStyle = colours.muted;
    const lag = phase.lagUs === null ? "" : `+${format.microseconds(phase.lagUs)}`;
    g.fillText(fitted(g, lag, to - from - 10), from + 6, 27);
  });
  g.textAlign = "left";
  g.fillStyle = colours.muted;
  g.fillText("phase", 0, 11);
  g.fillText("worst lag", 0, 27);
}

function drawSession({ g, scale, left }, { n, id, open, soft, hard }, y) {
  const colours = palette();
  g.fillStyle = colours.muted;
  g.textAlign = "left";
  g.fillText(fitted(g, `session ${format.session(id)} · ${n}`, left - 8), 0, y + ROW / 2);
  const [from, middle, to] = [scale(open), scale(soft), scale(hard)];
  g.save();
  clip(g, left, y);
  g.fillStyle = colours.collected;
  g.fillRect(from, y + 8, Math.max(1, middle - from), 4);
  g.fillStyle = colours.soft;
  g.fillRect(middle, y + 8, Math.max(1, to - middle), 4);
  g.fillStyle = colours.ink;
  g.fillRect(middle - 0.5, y + 4, 1, 12);
  g.restore();
}

/** What lies before the slot does not run into the names. */
function clip(g, left, y) {
  g.beginPath();
  g.rect(left, y, 1e5, ROW);
  g.clip();
}

function drawLane({ g, scale, left }, { n, lane, jobs }, y) {
  const colours = palette();
  g.fillStyle = colours.muted;
  g.textAlign = "left";
  g.fillText(fitted(g, `lane ${lane} · ${n}`, left - 8), 0, y + ROW / 2);
  g.save();
  clip(g, left, y);
  for (const job of jobs) {
    const from = scale(job.start);
    const length = Math.max(1.5, scale(job.end) - from);
    const kind = kindOfJob(job);
    g.fillStyle = colours[kind];
    g.fillRect(from, y + 4, length, ROW - 8);
    if (kind === "bad") hatch(g, from, y + 4, length, ROW - 8, colours.panel);
    if (length > 46) {
      g.fillStyle = colours.panel;
      g.fillText(fitted(g, job.kind, length - 8), from + 4, y + ROW / 2 + 0.5);
    }
    // Bars so narrow would be hidden by their marks.
    if (length < 5) continue;
    g.fillStyle = colours.ink;
    g.fillRect(scale(job.predicted) - 0.75, y + 1, 1.5, ROW - 2);
  }
  g.restore();
}

/** Stripes, so that a failed job differs by more than its colour. */
function hatch(g, x, y, width, height, colour) {
  g.save();
  g.beginPath();
  g.rect(x, y, width, height);
  g.clip();
  g.strokeStyle = colour;
  g.lineWidth = 1.5;
  g.beginPath();
  for (let at = x - height; at < x + width; at += 5) {
    g.moveTo(at, y + height);
    g.lineTo(at + height, y);
  }
  g.stroke();
  g.restore();
}

function drawAxis({ g, scale, left, width, height, rows }) {
  const colours = palette();
  const lengthMs = (rows.to - rows.from) / 1e6;
  g.fillStyle = colours.line;
  g.fillRect(left, height - 22, width - left - RIGHT, 1);
  g.textAlign = "center";
  for (const ms of format.ticks(lengthMs, width < 600 ? 4 : 8)) {
    const x = scale(rows.from + ms * 1e6);
    g.fillStyle = colours.line;
    g.fillRect(x, height - 22, 1, 4);
    g.fillStyle = colours.muted;
    const isLast = x > width - 30;
    g.textAlign = isLast ? "right" : "center";
    g.fillText(lengthMs >= 2000 ? `${ms / 1000} s` : `${ms} ms`, isLast ? width : x, height - 9);
  }
}

function fill(table, phases, rows) {
  const since = (ns) => right(format.milliseconds((ns - rows.from) / 1e6));
  const head = ["What", "Node", right("From"), right("Predicted end"), right("End"), "Outcome"];
  const lines = phases.map((phase) => [
    `phase ${phase.name}`, phase.node ?? "–", right(format.milliseconds(phase.ms)), "", "",
    phase.lagUs === null ? "" : `worst lag ${format.microseconds(phase.lagUs)}`,
  ]);
  for (const one of rows.sessions) {
    lines.push([`session ${one.id}`, one.n, since(one.open), since(one.soft), since(one.hard), "soft and hard deadline"]);
  }
  for (const job of rows.jobs) {
    const mark = job.over ? make("span", { class: "late" }, `${job.outcome}, later than predicted`) : job.outcome;
    lines.push([`${job.kind} of ${job.inputs}, lane ${job.lane}`, job.n, since(job.start), since(job.predicted), since(job.end), mark]);
  }
  fillTable(table, head, lines);
}
