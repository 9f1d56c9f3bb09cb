// The modules that know no page: lines, lists, the reducer, the player, the stream.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { rankOf } from "../../web/finality.js";
import * as format from "../../web/format.js";
import { within } from "../../web/heatmap.js";
import { append, emptyLog, emptySet, has, insert, itemsOf, newestOf, sizeOf } from "../../web/log.js";
import { ordered, Player, STRIDE } from "../../web/player.js";
import {
  AGGREGATES_OF_CELL_KEPT, BROADCASTS_KEPT, FAULTS_KEPT, INITIAL, isOver, lose, NAMES_KEPT, OTHERS, PEERS_KEPT, reduce,
  SECONDS_KEPT, SLOTS_KEPT,
} from "../../web/reducer.js";
import { dispatch, EventParser } from "../../web/stream.js";
import { broadcastFigures, coverage, fingerprint, quantile, shownSlot, summary } from "../../web/summary.js";
import { kindOfJob, phasesOf, rowsOf } from "../../web/timeline.js";
import { LineReader, LINE_BYTES_MAX, parseLine, readStream, TraceError } from "../../web/trace.js";

const base64 = (values) => Buffer.from(values).toString("base64");
const line = (k, fields, t = 0, n = "node-0") => JSON.stringify({ t, n, k, ...fields });
const record = (k, fields, t, n) => parseLine(line(k, fields, t, n));
const run = (records, state = INITIAL) => records.reduce((before, one) => reduce(before, one), state);

const GENESIS = { scheme: "model", validators: 256, committees: 2, subs: 2, slot_ms: 4000, offsets_ms: [0, 800, 1600, 2400, 3200] };
const cells = (slot, from, values) => ({ slot, from, seen: base64(values), aggregated: base64(values), collected: base64(values) });
const job = (fields) => ({
  id: 1, kind: "aggregate", inputs: 4, t_submit: 0, t_start: 1e6, t_end: 5e6, predicted_ms: 4, outcome: "done", lane: 0, ...fields,
});
const aggregate = (fields) => ({ slot: 1, c: 0, s: 0, votes: 10, ms: 3, late: false, ...fields });

/** A state that breaks when somebody writes to it. */
function freeze(value) {
  if (value !== null && typeof value === "object" && !ArrayBuffer.isView(value) && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(freeze);
  }
  return value;
}

test("a cursor stays within its map", () => {
  const map = { committees: 2, subs: 3 };
  assert.deepEqual(within(map, { c: 1, s: 2 }), { c: 1, s: 2 });
  assert.deepEqual(within(map, { c: 5, s: 9 }), { c: 1, s: 2 });
  assert.deepEqual(within(map, { c: -1, s: -1 }), { c: 0, s: 0 });
});

test("lines are records, and what is not one is named", () => {
  const read = record("cells", cells(3, 0, [0, 100, 7]), -5);
  assert.deepEqual([read.t, read.n, read.k, [...read.seen]], [-5, "node-0", "cells", [0, 100, 7]]);
  assert.equal(record("fault", { kind: "disk", detail: "", more: 1 }).more, undefined);
  const refused = [
    ["{}", /unknown kind/], ["nonsense", /JSON/], ["[]", /no object/], ["null", /no object/],
    [line("unknown", {}), /unknown kind "unknown"/], [line("toString", {}), /unknown kind/], [line("__proto__", {}), /unknown kind/],
    [line("slot", { slot: -1, proposer: 0, root: "" }), /slot\.slot: -1 is no whole number/],
    [line("slot", { slot: 1, proposer: 2 ** 32, root: "" }), /slot\.proposer/],
    [line("slot", { slot: 1.5, proposer: 0, root: "" }), /slot\.slot/],
    [line("fault", { kind: "a", detail: 7 }), /fault\.detail: 7 is no text/],
    [line("cells", cells(1, 0, [101])), /101 percent/], [line("cells", { ...cells(1, 0, [1]), seen: "?" }), /base64/],
    [line("cells", { ...cells(1, 0, [1]), seen: base64([1, 2]) }), /different lengths/],
    [line("cells", cells(1, 65535, [1, 1])), /cells up to 65537/],
    [line("genesis", { ...GENESIS, committees: 513 }), /513 committees/],
    [line("genesis", { ...GENESIS, offsets_ms: [800, 0] }), /ascend/],
    [line("session", { id: 1, open: 5, soft: 4, hard: 6 }), /closes before/],
    [line("job", job({ t_start: 6e6 })), /ends before/], [line("aggregate", aggregate({ late: 1 })), /true or false/],
  ];
  for (const [text, why] of refused) assert.throws(() => parseLine(text), why, text);
});

test("lines and pieces of them are bounded, and errors say where", () => {
  const good = line("fault", { kind: "a", detail: "ä€😀" });
  const bytes = new TextEncoder().encode(`${good}\n\n${good}\r\n${good}`);
  const reader = new LineReader();
  const decoder = new TextDecoder();
  const read = [];
  for (const byte of bytes) read.push(...reader.push(decoder.decode(Uint8Array.of(byte), { stream: true })));
  read.push(...reader.finish());
  assert.equal(read.length, 3);
  assert.equal(read[2].detail, "ä€😀");
  const bad = new LineReader();
  assert.throws(() => bad.push(`${good}\n\n{}\n`), (error) => error instanceof TraceError && error.line === 3 && /^line 3: /.test(error.message));
  assert.throws(() => new LineReader().push("x".repeat(LINE_BYTES_MAX + 1)), /line 1: more than/);
  const full = (detail) => line("fault", { kind: "a", detail });
  const room = LINE_BYTES_MAX - 1 - full("").length;
  assert.equal(parseLine(full("x".repeat(room))).detail.length, room);
  assert.throws(() => parseLine(full("x".repeat(room + 1))), /more than/);
  assert.throws(() => parseLine(full("€".repeat(Math.ceil(room / 3) + 1))), /more than/);
});

test("a stream is read whole, and bytes that are no text are an error", async () => {
  const text = `${line("genesis", GENESIS)}\n${line("fault", { kind: "a", detail: "" })}`;
  const records = await readStream(new Blob([text]).stream());
  assert.deepEqual(records.map((one) => one.k), ["genesis", "fault"]);
  await assert.rejects(readStream(new Blob([Uint8Array.of(0xff, 0xfe)]).stream()));
});

test("lists keep the newest items and share the rest", () => {
  let log = emptyLog(128);
  const logs = [];
  for (let i = 0; i < 1000; i += 1) {
    logs.push(log);
    log = append(freeze(log), i);
  }
  assert.equal(sizeOf(log) + log.dropped, 1000);
  assert.ok(sizeOf(log) >= 128 && sizeOf(log) <= 128 + 64);
  assert.deepEqual(itemsOf(log), Array.from({ length: sizeOf(log) }, (_, i) => log.dropped + i));
  assert.deepEqual(newestOf(log, 70), Array.from({ length: 70 }, (_, i) => 999 - i));
  assert.deepEqual(newestOf(logs[2], 9), [1, 0]);
  let set = emptySet();
  for (let i = 0; i < 2000; i += 1) if (!has(set, `n${i % 1000}`)) set = insert(freeze(set), `n${i % 1000}`);
  assert.ok(set.size === 1000 && has(set, "n999") && !has(set, "n1000"));
});

test("a slot is empty until it has a block, whoever should propose one", () => {
  const slot = (number, root) => record("slot", { slot: number, proposer: 3, root });
  const finality = (head) => record("finality", { head, justified: 3, finalised: 2 });
  const state = run([
    slot(1, ""), slot(1, "ab"), finality(1), slot(2, ""), slot(3, ""), slot(3, "cd"), finality(3), slot(4, ""), slot(5, ""), slot(5, "ef"),
    slot(6, ""), finality(6),
  ]);
  assert.deepEqual(state.slots.map((entry) => rankOf(state, entry, entry.slot)), ["finalised", "empty", "justified", "empty", "proposed", "head"]);
  assert.equal(rankOf(state, null, 7), "empty");
});

test("the time to two thirds is that of the slot whose votes were counted", () => {
  const finality = (fields) => record("finality", { head: 1, justified: 0, finalised: 0, ...fields });
  const of = (...records) => run([record("slot", { slot: 1, proposer: 0, root: "ab" }), record("slot", { slot: 2, proposer: 0, root: "" }), ...records]);
  const told = of(finality({ two_thirds_ms: 2300, two_thirds_slot: 2 }), finality({ head: 2 }));
  assert.deepEqual(told.slots.map(({ isHead, twoThirdsMs }) => [isHead, twoThirdsMs]), [[true, null], [true, 2300]]);
  assert.equal(told.finality.twoThirdsMs, 2300);
  // Traces of earlier versions do not name it.
  assert.deepEqual(of(finality({ two_thirds_ms: 5 })).slots.map((slot) => slot.twoThirdsMs), [5, null]);
});

test("the reducer leaves the old state as it was", () => {
  const records = [
    record("genesis", GENESIS), record("slot", { slot: 1, proposer: 3, root: "ab" }), record("cells", cells(1, 0, [10, 20, 30, 40])),
    record("aggregate", aggregate()), record("aggregate", aggregate({ late: true })), record("collection", { slot: 1, c: 1, votes: 9, bytes: 70 }),
    record("job", job()), record("session", { id: 1, open: 0, soft: 1, hard: 2 }), record("bytes", { topic_kind: "vote", in: 1, out: 2 }),
    record("peer", { short: "a", event: "up", score: 1 }), record("peer", { short: "a", event: "down", score: -1 }),
    record("finality", { head: 1, justified: 0, finalised: 0, two_thirds_ms: 5 }), record("fault", { kind: "a", detail: "b" }),
    record("phase", { slot: 1, phase: "vote", lag_us: 7 }), record("input", { event: 1, what: "message", kind: "", bytes: 1 }),
    record("output", { event: 1, what: "send", to: [1], kind: "", amount: 1 }),
    record("broadcast", { id: "x", kind: 1, slot: 1, first_ns: 1, deliver_ns: 9, bytes: 1, dependent: 0, invalid: 0 }),
  ];
  let state = freeze(INITIAL);
  const names = [];
  for (const one of [...records, ...records]) {
    names.push([state, fingerprint(state)]);
    state = freeze(reduce(state, one));
  }
  for (const [old, name] of names) assert.equal(fingerprint(old), name);
  assert.equal(new Set(names.map(([, name]) => name)).size, names.length);
});

test("figures are sums of records", () => {
  const state = run([
    record("genesis", GENESIS), record("aggregate", aggregate({ votes: 10, ms: 3 })), record("aggregate", aggregate({ votes: 7, ms: 5, late: true })),
    record("collection", { slot: 1, c: 0, votes: 17, bytes: 100 }), record("job", job()), record("job", job({ t_end: 6e6 })),
    record("job", job({ outcome: "crashed" })), record("bytes", { topic_kind: "vote", in: 5, out: 6 }), record("bytes", { topic_kind: "vote", in: 1, out: 0 }),
    record("phase", { slot: 1, phase: "vote", lag_us: 9 }, 1, "node-1"), record("phase", { slot: 1, phase: "vote", lag_us: 4 }, 2, "node-2"),
  ]);
  const { totals, bytes, outcomes, nodes } = summary(state);
  assert.deepEqual([totals.aggregates, totals.aggregatesLate, totals.aggregateVotes, totals.aggregateMs], [2, 1, 17, 8]);
  assert.deepEqual([totals.collections, totals.collectionVotes, totals.collectionBytes], [1, 17, 100]);
  assert.deepEqual([totals.jobs, totals.jobsOver, totals.jobRunNs], [3, 1, 13e6]);
  assert.deepEqual(bytes, { vote: { in: 6, out: 6 } });
  assert.deepEqual(outcomes, { done: 2, crashed: 1 });
  assert.equal(nodes, 3);
  assert.deepEqual(state.slots[0].phases.vote, { t: 1, lagUs: 9, node: "node-1" });
  assert.deepEqual([state.slots[0].aggregates[0][0].count, state.slots[0].aggregates[0][0].votes], [2, 10]);
  assert.equal(lose(state, 5).dropped, 5);
});

test("cells of several lines and nodes become one table, and its means are the curve", () => {
  const state = run([
    record("genesis", GENESIS), record("cells", cells(1, 0, [100, 50]), 1), record("cells", cells(1, 2, [40, 10]), 2),
    record("cells", cells(1, 0, [20, 60]), 3, "node-1"),
  ]);
  assert.deepEqual([...state.slots[0].cells.seen], [100, 60, 40, 10]);
  assert.deepEqual(itemsOf(state.slots[0].points).map((point) => point.seen), [37.5, 50, 52.5]);
  assert.deepEqual(coverage(state.slots[0]), { seen: 52.5, aggregated: 52.5, collected: 52.5 });
  assert.equal(coverage(null), null);
});

test("slots are kept in order, and only the newest", () => {
  const slot = (number) => record("slot", { slot: number, proposer: 1, root: "" });
  const numbers = [5, 3, 4, ...Array.from({ length: 100 }, (_, i) => 10 + i), 1, 60];
  const state = run(numbers.map(slot));
  assert.equal(state.slots.length, SLOTS_KEPT);
  assert.deepEqual(state.slots.map((one) => one.slot), Array.from({ length: 64 }, (_, i) => 46 + i));
  const young = run([slot(1), record("cells", cells(1, 0, [1])), slot(2)]);
  assert.equal(shownSlot(young).slot, 1);
  assert.equal(shownSlot(young, 2).slot, 2);
  assert.equal(shownSlot(young, 9), null);
  assert.equal(shownSlot(INITIAL), null);
});

test("everything that grows is bounded", () => {
  const many = (count, make) => run(Array.from({ length: count }, (_, i) => make(i)));
  assert.ok(sizeOf(many(2000, (i) => record("fault", { kind: "a", detail: String(i) })).faults) < FAULTS_KEPT + 64);
  const topics = many(500, (i) => record("bytes", { topic_kind: `t${i}`, in: 1, out: 1 }, i * 1e9));
  assert.equal(Object.keys(topics.topics).length, NAMES_KEPT + 1);
  assert.equal(topics.topics[OTHERS].in, 500 - NAMES_KEPT);
  assert.equal(topics.totals.bytesIn, 500);
  assert.equal(topics.seconds.length, SECONDS_KEPT);
  const peers = many(500, (i) => record("peer", { short: `p${i}`, event: "up", score: i }));
  assert.equal(Object.keys(peers.peers).length, PEERS_KEPT);
  const shorts = Object.values(peers.peers).map((peer) => peer.short);
  assert.ok(shorts.includes("p499") && !shorts.includes("p0"));
  const broadcasts = many(99, (i) => record("broadcast", { id: `b${i}`, kind: 1, slot: 0, bytes: 1, dependent: 0, invalid: 0 }));
  assert.equal(broadcasts.broadcasts.length, BROADCASTS_KEPT);
  const votes = many(99, (i) => record("aggregate", aggregate({ votes: i })));
  assert.equal(votes.slots[0].aggregates[0][0].newest.length, AGGREGATES_OF_CELL_KEPT);
  assert.ok(Object.keys(many(99, (i) => record("phase", { slot: 1, phase: `p${i}`, lag_us: 1 })).slots[0].phases).length <= 16);
});

test("names of methods are names like others", () => {
  const state = run(["__proto__", "constructor", "toString"].flatMap((name) => [
    record("bytes", { topic_kind: name, in: 1, out: 1 }), record("peer", { short: name, event: name, score: 1 }), record("job", job({ outcome: name })),
    record("phase", { slot: 1, phase: name, lag_us: 3 }),
  ]));
  const { bytes, outcomes, peers } = summary(state);
  assert.deepEqual(Object.entries(bytes).map(([, sum]) => sum.in), [1, 1, 1]);
  assert.deepEqual(Object.values(outcomes), [1, 1, 1]);
  assert.equal(peers, 3);
  assert.equal(Object.keys(state.slots[0].phases).length, 3);
});

test("broadcasts have the quantiles of their receivers", () => {
  const one = (n, deliver) => record("broadcast", { id: "x", kind: 2, slot: 1, header_ns: n === 0 ? 1e6 : null, first_ns: 2e6, deliver_ns: deliver, bytes: 10, dependent: 1, invalid: 0 }, 0, `node-${n}`);
  const figures = broadcastFigures(run([one(0, 5e6), one(1, 3e6), one(2, 11e6), one(3, null)]).broadcasts[0]);
  assert.deepEqual([figures.receivers, figures.delivered, figures.p50, figures.p95, figures.max], [4, 3, 4, 10, 10]);
  assert.deepEqual([figures.bytesMean, figures.dependent], [10, 4]);
  assert.equal(quantile([], 0.5), null);
  assert.deepEqual([0, 0.25, 0.5, 0.75, 1].map((share) => quantile([1, 2, 3, 4], share)), [1, 1, 2, 3, 4]);
});

test("the timeline has the jobs of its slot by lane, and their kinds", () => {
  const at = (ms, fields) => record("job", job({ t_submit: ms * 1e6, t_start: ms * 1e6, t_end: (ms + 4) * 1e6, ...fields }));
  const state = run([
    record("genesis", GENESIS), record("slot", { slot: 1, proposer: 0, root: "" }, 4e9), at(3999, { lane: 1 }), at(5000, { lane: 0 }), at(8000, {}), at(100, {}),
    record("session", { id: 4, open: 4e9, soft: 5e9, hard: 6e9 }), record("phase", { slot: 1, phase: "vote", lag_us: 12 }),
  ]);
  const rows = rowsOf(state, state.slots[0]);
  assert.deepEqual(rows.lanes.map(({ lane, jobs }) => [lane, jobs.length]), [[0, 1], [1, 1]]);
  assert.equal(rows.sessions.length, 1);
  const phases = phasesOf(state, state.slots[0]);
  assert.deepEqual(phases.map(({ name, lagUs }) => [name, lagUs]).slice(0, 2), [["propose", null], ["vote", 12]]);
  const kinds = [{}, { over: true }, { outcome: "crashed", over: true }].map((fields) => kindOfJob({ outcome: "done", over: false, ...fields }));
  assert.deepEqual(kinds, ["aggregated", "late", "bad"]);
  assert.deepEqual([4e6, 4e6 + 1].map((end) => isOver({ t_start: 0, t_end: end, predicted_ms: 4 })), [false, true]);
});

test("each level of evidence has its phase, and each node its peers", () => {
  const names = (count) => phasesOf(run([record("genesis", { ...GENESIS, offsets_ms: Array.from({ length: count }, (_, i) => i) })]), { phases: {} }).map(({ name }) => name);
  assert.deepEqual(names(4), ["propose", "vote", "aggregate", "decide"]);
  assert.deepEqual(names(5), ["propose", "vote", "aggregate", "collect", "decide"]);
  assert.deepEqual(names(7), ["propose", "vote", "aggregate", "collect", "collect_3", "collect_4", "decide"]);
  const peer = (n, score) => record("peer", { short: "node-3", event: "score", score }, 0, n);
  const { peers } = run([peer("node-1", 5), peer("node-2", 7), peer("node-1", 6)]);
  assert.deepEqual(Object.values(peers).map(({ n, score }) => [n, score]), [["node-2", 7], ["node-1", 6]]);
});

test("what is told of the whole network is of no node", () => {
  const { nodes } = summary(run([
    record("genesis", GENESIS, 0, "run"), record("slot", { slot: 1, proposer: 0, root: "" }, 0, "run"), record("cells", cells(1, 0, [1]), 0, "run"),
    record("finality", { head: 0, justified: 0, finalised: 0 }, 0, "run"), record("phase", { slot: 1, phase: "vote", lag_us: 0 }, 0, "node-1"),
  ]));
  assert.equal(nodes, 1);
});

test("a player is at any place in the state of the records before it", () => {
  const records = Array.from({ length: 3 * STRIDE + 17 }, (_, i) => record("fault", { kind: "a", detail: String(i) }, i * 1000));
  const player = new Player(records);
  assert.equal(player.index, records.length);
  for (const index of [0, 1, STRIDE, STRIDE - 1, 2 * STRIDE + 5, records.length, 7]) {
    assert.equal(fingerprint(player.seek(index)), fingerprint(run(records.slice(0, index))), String(index));
  }
  player.seekTime(5000);
  assert.deepEqual([player.index, player.time], [6, 5000]);
  player.seekTime(-1);
  assert.equal(player.index, 0);
  assert.equal(player.seek(1e9).records, records.length);
  const mixed = [{ t: 2 }, { t: 1, a: 1 }, { t: 1, a: 2 }];
  assert.deepEqual(ordered(mixed), [{ t: 1, a: 1 }, { t: 1, a: 2 }, { t: 2 }]);
});

test("events are read in any pieces", () => {
  const text = ": dropped 3\nretry: 700\n\nevent: snapshot\ndata: {\"lines\":1}\n\nid: a-7\nevent: fault\ndata: one\ndata:two\n\ndata\n\nid: a-8\n\n";
  for (const size of [1, 2, 7, text.length]) {
    const parser = new EventParser();
    const events = [];
    for (let i = 0; i < text.length; i += size) events.push(...parser.push(text.slice(i, i + size)));
    assert.deepEqual(events, [
      { event: "snapshot", data: "{\"lines\":1}", id: null }, { event: "fault", data: "one\ntwo", id: "a-7" }, { event: "message", data: "", id: "a-7" },
    ]);
    assert.deepEqual([parser.lastId, parser.retryMs], ["a-8", 700]);
  }
  assert.throws(() => new EventParser().push("x".repeat(200_000)), /more than/);
});

test("what a newer server tells is lost by itself, and nothing else", () => {
  const told = [];
  const handler = { snapshot: () => told.push("snapshot"), gap: (lost) => told.push(lost), records: (list) => told.push(list.map((one) => one.detail).join()) };
  const fault = (detail) => ({ event: "fault", data: line("fault", { kind: "a", detail }) });
  dispatch([
    fault("old"), { event: "snapshot", data: "{}" }, fault("a"), fault("b"), { event: "new", data: line("new", {}) }, fault("c"),
    { event: "gap", data: "{\"dropped\":7}" }, fault("d"),
  ], handler);
  assert.deepEqual(told, ["snapshot", "a,b", 1, "c", 7, "d"]);
});

/** Contrast of two colours `#rrggbb` (WCAG 2.2, relative luminance). */
function contrast(one, other) {
  const luminance = (colour) => {
    const parts = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255);
    const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return high / low;
}

test("texts and marks stand out from the panels, in light and in dark", () => {
  const css = readFileSync(new URL("../../web/style.css", import.meta.url), "utf8");
  const themes = [...css.matchAll(/\{([^{}]*--ground:[^{}]*)\}/g)].map(([, body]) => Object.fromEntries([...body.matchAll(/--([a-z]+): (#[0-9a-f]{6});/g)].map(([, name, value]) => [name, value])));
  assert.equal(themes.length, 3);
  // Dark by choice and dark by the system are one theme.
  assert.deepEqual(themes[1], themes[2]);
  for (const theme of themes) {
    for (const ground of [theme.panel, theme.ground]) for (const text of ["ink", "muted", "accent"]) assert.ok(contrast(theme[text], ground) >= 4.5, `${text} ${theme[text]} on ${ground}`);
    for (const mark of ["seen", "aggregated", "collected", "late", "bad", "soft"]) {
      assert.ok(contrast(theme[mark], theme.panel) >= 3, `${mark} ${theme[mark]}: ${contrast(theme[mark], theme.panel)}`);
    }
    // Names are written on bars and buttons in the colour of the panel.
    for (const bar of ["aggregated", "late", "accent"]) assert.ok(contrast(theme[bar], theme.panel) >= 4.5, `${bar} ${theme[bar]}`);
  }
});

test("numbers are written with their units", () => {
  assert.deepEqual([0, 1234567, null].map(format.count), ["0", "1,234,567", "–"]);
  assert.deepEqual([0, 0.001, 50, 99.99, 100, null].map(format.percent), ["0 %", "0.1 %", "50.0 %", "99.9 %", "100 %", "–"]);
  assert.deepEqual([0, 1023, 1024, 123456789].map(format.bytes), ["0 B", "1023 B", "1.00 KiB", "118 MiB"]);
  assert.deepEqual([5, 5.25, 12345, null].map(format.milliseconds), ["5 ms", "5.3 ms", "12.35 s", "–"]);
  assert.deepEqual([7, 1500, 2e6].map(format.microseconds), ["7 µs", "1.50 ms", "2.00 s"]);
  assert.deepEqual([-5e8, 1.5e9].map(format.instant), ["−0.500 s", "1.500 s"]);
  assert.deepEqual([-5e8, 1.5e9, null].map(format.moment), ["before genesis", "1.500 s", "–"]);
  assert.deepEqual([7, "12345", "1632087571234567890"].map(format.session), ["7", "12345", "…7890"]);
  assert.deepEqual(format.ticks(4000, 8), [0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000]);
  assert.deepEqual([0, 1, 7].map((max) => format.ticks(max, 4).length), [1, 3, 4]);
});
