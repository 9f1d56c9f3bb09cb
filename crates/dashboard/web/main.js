// The page: takes a trace, live or recorded, and keeps the pictures at its state.

import { drawBroadcasts, drawProgress } from "./curves.js";
import { byId, forgetPalette, make, palette, prepare, setText, show } from "./dom.js";
import { FinalityStrip } from "./finality.js";
import * as format from "./format.js";
import { HeatMap, heatColour } from "./heatmap.js";
import { drawFaults, drawPeers, drawRecords } from "./lists.js";
import { ordered, Player } from "./player.js";
import { INITIAL, lose, reduce } from "./reducer.js";
import { follow } from "./stream.js";
import { coverage, fingerprint, shownSlot, summary } from "./summary.js";
import { drawTimeline } from "./timeline.js";
import { drawTraffic } from "./traffic.js";
import { readStream } from "./trace.js";

/** Milliseconds until a server whose places are all taken is asked again. */
const BUSY_MS = 2000;

let state = INITIAL;
let player = null;
/** The slot that was chosen, or null to follow the newest. */
let wanted = null;
let isPlaying = false;
let isDirty = true;

/** Draws at the next frame: a thousand records between two frames are one picture. */
function redraw() {
  isDirty = true;
}

function part(id) {
  const [empty, legend] = ["empty", "legend"].map((name) => document.getElementById(`${id}-${name}`));
  return { table: byId(`${id}-table`), canvas: document.getElementById(id), empty, legend };
}

function isTableOpen(table) {
  return table.closest("details")?.open ?? true;
}

const parts = Object.fromEntries(
  ["timeline", "progress", "broadcasts", "traffic", "peers", "faults", "records"].map((id) => [id, part(id)]),
);
/** Panels, what they are called, and when there is something in them. */
const PANELS = [
  ["committees", "committees", ({ counts, genesis }) => counts.cells > 0 && genesis?.committees > 0],
  ["timeline", "phases, sessions and jobs", ({ counts }) => counts.phase > 0 || counts.session > 0 || counts.job > 0],
  ["progress", "votes over the slot", ({ counts }) => counts.cells > 0],
  ["finality", "slots", ({ counts }) => counts.slot > 0 || counts.finality > 0],
  ["broadcasts", "broadcasts", ({ counts }) => counts.broadcast > 0],
  ["traffic", "traffic", ({ counts }) => counts.bytes > 0],
  ["peers", "peers", ({ counts }) => counts.peer > 0],
  ["faults", "faults", ({ records }) => records > 0],
  ["records", "records", ({ records }) => records > 0],
];

/** Panels of half the width. */
const HALF_PANELS = new Set(["progress", "finality", "broadcasts", "traffic", "peers", "faults"]);

const heatMap = new HeatMap({
  canvas: byId("heatmap"), details: byId("cell"), said: byId("cell-said"), table: byId("heatmap-table"), empty: byId("heatmap-empty"), redraw,
});
const strip = new FinalityStrip({ list: byId("strip"), table: byId("strip-table"), choose });

function choose(slot) {
  wanted = slot;
  redraw();
}

/** Shows the panels that have something in them; gives their names. */
function showPanels() {
  const shown = new Set();
  const absent = [];
  let halves = 0;
  for (const [id, name, hasAny] of PANELS) {
    const isShown = hasAny(state);
    show(byId(`p-${id}`), isShown);
    if (isShown) shown.add(id);
    else absent.push(name);
    if (isShown && HALF_PANELS.has(id)) halves += 1;
  }
  // The last of an odd number has no neighbour.
  byId("p-faults").classList.toggle("wide", halves % 2 === 1);
  show(byId("waiting"), state.records === 0);
  show(byId("figures"), state.records > 0);
  setText(byId("absent"), absent.length === 0 ? "" : `not in this trace: ${absent.join(", ")}`);
  return shown;
}

function draw() {
  const slot = shownSlot(state, wanted) ?? shownSlot(state);
  const shown = showPanels();
  drawFigures(slot);
  drawSlotChoice(slot);
  if (shown.has("committees")) {
    heatMap.draw(state, slot, isTableOpen(byId("heatmap-table")));
    drawScale(slot !== null && slot.cells !== null);
  }
  if (shown.has("finality")) strip.draw(state, slot?.slot ?? null, isTableOpen(byId("strip-table")));
  for (const [id, paint] of [["timeline", drawTimeline], ["progress", drawProgress], ["broadcasts", drawBroadcasts], ["traffic", drawTraffic]]) {
    if (shown.has(id)) paint({ ...parts[id], state, slot, isTableOpen: isTableOpen(parts[id].table) });
  }
  if (shown.has("peers")) drawPeers({ ...parts.peers, state });
  drawFaults({ ...parts.faults, state });
  if (isTableOpen(parts.records.table)) drawRecords({ ...parts.records, outcomes: byId("outcomes-table"), state });
  setText(byId("about"), aboutText());
  if (player !== null) drawControls();
}

/** Which slot is shown, and which others there are. */
function drawSlotChoice(slot) {
  byId("slot-follow").setAttribute("aria-pressed", String(wanted === null));
  byId("slot-back").disabled = slot === null || slot.slot === state.slots[0].slot;
  byId("slot-forward").disabled = slot === null || slot.slot === state.slots.at(-1).slot;
  setText(byId("slot-shown"), slot === null ? "" : `slot ${slot.slot}${wanted === null ? ", the newest" : ""}`);
}

function aboutText() {
  const { genesis } = state;
  if (genesis === null) return "";
  const words = [state.node, `scheme ${genesis.scheme}`];
  if (genesis.validators > 0) words.push(`${format.count(genesis.validators)} validators`);
  if (genesis.committees > 0) words.push(`${genesis.committees} × ${genesis.subs} cells`);
  words.push(`slots of ${genesis.slotMs / 1000} s`);
  return words.filter(Boolean).join(" · ");
}

/** Name, value and a remark of each key figure; what the trace does not tell has no value. */
function figuresOf(slot) {
  const { totals, finality } = summary(state);
  const votes = coverage(slot);
  // The newest slot is mostly still collecting: the one before it says how that usually ends.
  const before = slot === null ? undefined : state.slots.findLast((one) => one.cells !== null && one.slot < slot.slot);
  const ended = before === undefined ? "" : `; slot ${before.slot}: ${format.percent(coverage(before)?.collected)}`;
  const meanMs = totals.aggregates === 0 ? null : totals.aggregateMs / totals.aggregates;
  const told = (kind, value, remark) => (state.counts[kind] > 0 ? [value, remark] : ["–", ""]);
  return [
    ["slot", "Slot", format.count(state.slots.at(-1)?.slot ?? null), state.t === null ? "" : `at ${format.instant(state.t)}`],
    ["finalised", "Finalised", ...told("finality", format.count(finality.finalised), `head ${format.count(finality.head)}, justified ${format.count(finality.justified)}`)],
    ["coverage", "Votes collected", ...told("cells", format.percent(votes?.collected), `${format.percent(votes?.seen)} seen${ended}`)],
    ["two-thirds", "Time to 2/3", ...told("finality", format.milliseconds(finality.twoThirdsMs), "since slot start")],
    ["aggregates", "Aggregates", ...told("aggregate", format.count(totals.aggregates), `${format.count(totals.aggregatesLate)} late, ${format.milliseconds(meanMs)} each`)],
    ["collections", "Collections", ...told("collection", format.count(totals.collections), format.bytes(totals.collectionBytes))],
    ["jobs", "Jobs", ...told("job", format.count(totals.jobs), `${format.count(totals.jobsOver)} later than predicted`)],
    ["lag", "Worst lag", ...told("phase", format.microseconds(totals.lagMaxUs), "of a phase")],
    ["traffic", "Traffic in", ...told("bytes", format.bytes(totals.bytesIn), `${format.bytes(totals.bytesOut)} out`)],
    ["nodes", "Nodes", format.count(state.nodes.size), ""],
    ["records", "Records", format.count(state.records), state.dropped > 0 ? `${format.count(state.dropped)} lost` : ""],
    ["faults", "Faults", format.count(totals.faults), ""],
  ];
}

function drawFigures(slot) {
  const list = byId("figures");
  const figures = figuresOf(slot);
  if (list.children.length === 0) {
    list.append(...figures.map(([id, name]) => make("div", { "data-figure": id }, make("dt", {}, name), make("dd", {}, make("span"), make("small")))));
  }
  figures.forEach(([, , value, remark], i) => {
    const [number, small] = list.children[i].lastElementChild.children;
    setText(number, value);
    setText(small, remark);
  });
}

/** The scale of the map, from no votes to all. */
function drawScale(isShown) {
  const canvas = byId("scale");
  show(canvas, isShown);
  if (!isShown) return;
  const { g, width } = prepare(canvas, 24);
  const colours = palette();
  for (let x = 0; x < width; x += 1) {
    const [red, green, blue] = heatColour((x / (width - 1)) * 100, colours.isDark);
    g.fillStyle = `rgb(${red} ${green} ${blue})`;
    g.fillRect(x, 0, 1, 8);
  }
  g.fillStyle = colours.muted;
  g.textAlign = "left";
  g.fillText("0 %", 0, 17);
  g.textAlign = "center";
  g.fillText("50 %", width / 2, 17);
  g.textAlign = "right";
  g.fillText("100 %", width, 17);
}

function drawControls() {
  const slider = byId("slider");
  const { from, to } = player.span;
  const share = to === from ? 1 : (playTime() - from) / (to - from);
  const at = player.index === player.length ? slider.max : String(Math.floor(share * Number(slider.max)));
  if (slider.value !== at && document.activeElement !== slider) slider.value = at;
  const clock = `${format.instant(playTime())} of ${format.instant(to)}`;
  setText(byId("clock"), clock);
  slider.setAttribute("aria-valuetext", clock);
  setText(byId("play"), isPlaying ? "Pause" : "Play");
  byId("play").setAttribute("aria-pressed", String(isPlaying));
}

/** Time of the replay: between two records while it runs. */
let playedNs = 0;
let frameMs = null;

function playTime() {
  return Math.min(Math.max(playedNs, player.time), player.span.to);
}

function goTo(index) {
  stop();
  state = player.seek(index);
  playedNs = player.time;
  redraw();
}

function stop() {
  isPlaying = false;
  frameMs = null;
  redraw();
}

function frame(nowMs) {
  if (isPlaying && player !== null) {
    const passedMs = frameMs === null ? 0 : Math.min(nowMs - frameMs, 250);
    frameMs = nowMs;
    playedNs += passedMs * 1e6 * Number(byId("speed").value);
    state = player.seekTime(playedNs);
    isDirty = true;
    if (player.index === player.length) stop();
  }
  if (isDirty) {
    isDirty = false;
    draw();
  }
  requestAnimationFrame(frame);
}

function startReplay(records, name) {
  if (records.length === 0) throw new Error("the trace has no records");
  player = new Player(ordered(records));
  state = player.state;
  playedNs = player.span.to;
  wanted = null;
  show(byId("controls"), true);
  status("replay", `Replay of ${name}`);
  showError(null);
  stop();
}

function status(kind, text) {
  byId("status").dataset.state = kind;
  setText(byId("status"), text);
}

function showError(text) {
  show(byId("error"), text !== null);
  setText(byId("error"), text ?? "");
}

async function openStream(open, name) {
  try {
    startReplay(await readStream(await open()), name);
  } catch (error) {
    showError(`${name}: ${error.message}`);
  }
}

function wire() {
  byId("file").addEventListener("change", ({ target }) => {
    const [file] = target.files;
    if (file !== undefined) openStream(() => file.stream(), file.name);
  });
  byId("play").addEventListener("click", () => {
    if (isPlaying) return stop();
    if (player.index === player.length) goTo(0);
    isPlaying = true;
    return redraw();
  });
  byId("back").addEventListener("click", () => goTo(player.index - 1));
  byId("forward").addEventListener("click", () => goTo(player.index + 1));
  byId("slider").addEventListener("input", ({ target }) => {
    const { from, to } = player.span;
    stop();
    playedNs = from + ((to - from) * Number(target.value)) / Number(target.max);
    state = player.seekTime(playedNs);
  });
  byId("stages").addEventListener("change", ({ target }) => { heatMap.stage = target.value; });
  byId("slot-follow").addEventListener("click", () => choose(null));
  for (const [id, step] of [["slot-back", -1], ["slot-forward", 1]]) {
    byId(id).addEventListener("click", () => {
      const at = state.slots.indexOf(shownSlot(state, wanted) ?? shownSlot(state));
      const next = state.slots[at + step];
      if (next !== undefined) choose(next.slot);
    });
  }
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = palette().isDark ? "light" : "dark";
    forgetPalette();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { forgetPalette(); redraw(); });
  new ResizeObserver(redraw).observe(byId("main"));
  for (const details of document.querySelectorAll("details")) details.addEventListener("toggle", redraw);
}

const live = {
  snapshot() {
    if (player === null) state = INITIAL;
    redraw();
  },
  records(list) {
    // Whoever opened a file looks at that file.
    if (player === null) state = list.reduce(reduce, state);
    redraw();
  },
  gap(dropped) {
    if (player === null) state = lose(state, dropped);
    redraw();
  },
  status(isConnected, why) {
    if (player === null) status(isConnected ? "live" : "lost", isConnected ? "Live" : `Connection lost: ${why}`);
  },
};

/** What `?trace=` names, else the trace of the server: recorded, live, or none. */
async function start() {
  const named = new URLSearchParams(location.search).get("trace");
  const ask = () => fetch(named ?? "trace", { cache: "no-store" });
  let response = await ask();
  while (response.status === 503) {
    status("waiting", "All places are taken; trying again");
    await new Promise((resolve) => { setTimeout(resolve, BUSY_MS); });
    // Whoever opened a file meanwhile looks at that file.
    if (player !== null) return;
    response = await ask();
  }
  const name = named ?? "the recorded trace";
  const type = response.headers.get("content-type") ?? "";
  if (response.status === 204) status("waiting", "Open a trace to look at");
  else if (!response.ok) showError(`${name}: the server answers ${response.status}`);
  else if (type.startsWith("text/event-stream")) await follow(named ?? "trace", response, live);
  else await openStream(() => response.body, name);
}

// What a test or a curious reader may ask from the console.
globalThis.alphorn = Object.freeze({
  summary: () => summary(state),
  fingerprint: () => fingerprint(state),
  heatColour,
});

wire();
requestAnimationFrame(frame);
start().catch((error) => showError(error.message));
