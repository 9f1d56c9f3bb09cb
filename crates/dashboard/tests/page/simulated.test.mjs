// A simulated slot of Horn on the page: the trace is made here, by the program.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { itemsOf } from "../../web/log.js";
import { ordered } from "../../web/player.js";
import { INITIAL, reduce } from "../../web/reducer.js";
import { coverage, fingerprint, shownSlot, summary } from "../../web/summary.js";
import { phasesOf, rowsOf } from "../../web/timeline.js";
import { LineReader } from "../../web/trace.js";
import { fingerprintOf, launch, open, PROGRAM, serve, untilRecords } from "./browser.mjs";

const COMMITTEES = 4;
const CELLS = 8;
const NODES = 96;
const SETTINGS = [
  `sim.nodes=${NODES}`, "protocol.validators=4096", `protocol.committees=${COMMITTEES}`, `protocol.subcommittees=${CELLS}`, "output.trace=full",
];

let folder;
let text;
let records;
let manifest;
let scheme;

before(() => {
  folder = mkdtempSync(join(tmpdir(), "alphorn-slot-"));
  const set = SETTINGS.flatMap((value) => ["--set", value]);
  execFileSync(PROGRAM, ["sim", "run", "horn-16k", "--seed", "7", ...set, "--out", join(folder, "run")], { stdio: "ignore" });
  text = readFileSync(join(folder, "run", "trace.jsonl"), "utf8");
  records = new LineReader().push(text);
  manifest = JSON.parse(readFileSync(join(folder, "run", "manifest.json"), "utf8"));
  const [, costs] = /^costs = "(.+)"$/m.exec(readFileSync(join(folder, "run", "scenario.toml"), "utf8"));
  const table = readFileSync(join(folder, "run", "inputs", manifest.files[costs]), "utf8");
  scheme = JSON.parse(table).scheme;
});

after(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

test("a simulated slot has what a live one has", () => {
  assert.deepEqual(ordered(records), records, "in the order of time");
  const state = records.reduce(reduce, INITIAL);
  assert.deepEqual(
    [state.genesis.validators, state.genesis.committees, state.genesis.subs, state.genesis.scheme],
    [4096, COMMITTEES, CELLS, scheme],
  );
  const slot = shownSlot(state);
  assert.equal(slot.slot, 0);
  // Votes over the slot: none before their phase, then each stage after the one before it.
  const points = itemsOf(slot.points);
  const at = (stage) => points.find((point) => point[stage] > 200 / 3)?.t;
  const [, vote, aggregate, collect] = state.genesis.offsetsMs.map((ms) => ms * 1e6);
  assert.ok(vote < at("seen") && at("seen") < aggregate, `seen at ${at("seen")}`);
  assert.ok(aggregate < at("aggregated") && at("aggregated") < collect, `aggregated at ${at("aggregated")}`);
  assert.ok(collect < at("collected"), `collected at ${at("collected")}`);
  assert.ok(points.length > 100 && points.every((point) => point.collected <= point.aggregated && point.aggregated <= point.seen));
  // What the run counts is what the page shows: a percentage of a cell is rounded down.
  const { cast, in_block: inBlock } = manifest.figures.votes;
  assert.equal(cast, inBlock);
  const { seen, collected } = coverage(slot);
  const share = (100 * cast) / 4096;
  for (const mean of [seen, collected]) assert.ok(mean <= share && mean > share - 1, `${mean} of ${share}`);
  assert.ok(Math.abs(slot.twoThirdsMs - manifest.figures.votes.two_thirds_ms - vote / 1e6) <= 1);
  // Committees: all cells have aggregates, all committees collections.
  assert.equal(slot.aggregates.flat().length, COMMITTEES * CELLS);
  assert.equal(slot.aggregates.flat().reduce((sum, cell) => sum + cell.count, 0), summary(state).totals.aggregates);
  assert.equal(slot.collections.length, COMMITTEES);
  assert.equal(slot.collections.reduce((sum, one) => sum + one.votes, 0), cast);
  // Phases, sessions and jobs, of several nodes.
  assert.deepEqual(phasesOf(state, slot).map(({ name, lagUs }) => [name, lagUs]), ["propose", "vote", "aggregate", "collect", "decide"].map((name) => [name, 0]));
  const rows = rowsOf(state, slot);
  assert.ok(rows.sessions.length > 0 && rows.lanes.length > 1, `${rows.sessions.length} sessions, ${rows.lanes.length} lanes`);
  assert.ok(new Set(rows.lanes.map(({ n }) => n)).size > 1);
  for (const kind of ["sign", "verify_votes", "aggregate"]) assert.ok(rows.jobs.some((job) => job.kind === kind), kind);
  // Peers and traffic, and the block that carries the votes, at every node.
  assert.ok(Object.keys(state.peers).length > 8);
  assert.deepEqual(Object.keys(summary(state).bytes), ["aggregate", "block", "collection", "control", "vote"]);
  const [block] = summary(state).broadcasts;
  assert.deepEqual([block.receivers, block.delivered], [NODES, NODES]);
  assert.ok(state.nodes.size <= NODES && state.finality.head === 1, `${state.nodes.size} nodes, head ${state.finality.head}`);
});

test("the page shows all panels of a simulated slot", async () => {
  const server = await serve(0, "file", join(folder, "run", "trace.jsonl"));
  const browser = await launch();
  try {
    const { page, wrong, close } = await open(browser, server.url);
    await untilRecords(page, records.length);
    assert.equal(await fingerprintOf(page), fingerprint(records.reduce(reduce, INITIAL)));
    await page.waitForFunction(() => !document.getElementById("p-committees").hidden);
    for (const panel of ["committees", "timeline", "progress", "finality", "broadcasts", "traffic", "peers"]) {
      assert.ok(await page.locator(`#p-${panel}`).isVisible(), panel);
    }
    assert.match(await page.locator("#heatmap").getAttribute("aria-label"), /Committees in slot 0/);
    assert.match(await page.locator("#peers-table").innerText(), /^Of\tPeer/);
    assert.match(await page.locator("#about").innerText(), /4,096 validators · 4 × 8 cells/);
    assert.deepEqual(wrong, []);
    await close();
  } finally {
    await browser.close();
    await server.stop();
  }
});
