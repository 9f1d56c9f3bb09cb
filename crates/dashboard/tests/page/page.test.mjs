// The page in a browser: a recorded trace, a live one, a restart, the keyboard, speed and colours.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { fingerprintOf, launch, open, PAGE, serve, untilRecords } from "./browser.mjs";

const SLOTS = 12;
const LARGE_SLOTS = 322;

let folder;
let browser;
let expected;
const servers = [];

const trace = (name) => join(folder, `${name}.jsonl`);

function write(name, slots) {
  execFileSync(PAGE, ["trace", trace(name), join(folder, `${name}.json`), String(slots)]);
  return JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8"));
}

async function started(port, ...source) {
  const server = await serve(port, ...source);
  servers.push(server);
  return server;
}

const opened = (url, options) => open(browser, url, options);

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "alphorn-page-"));
  expected = write("small", SLOTS);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await Promise.all(servers.map((server) => server.stop()));
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

const number = (text) => Number(text.replaceAll(",", "").replaceAll("−", "-"));

async function figure(page, name) {
  const [value, remark] = await page.locator(`[data-figure="${name}"] dd > *`).allTextContents();
  return { value: number(value), text: value, remark };
}

test("a recorded trace shows the numbers of its summary", async () => {
  const { url } = await started(0, "file", trace("small"));
  const { page, wrong, close } = await opened(url);
  await untilRecords(page, expected.records);
  await page.waitForFunction(() => document.querySelector("#status").dataset.state === "replay");
  await page.waitForFunction(() => document.querySelector("[data-figure=slot] span").textContent !== "–");
  const shown = {};
  for (const name of ["slot", "finalised", "aggregates", "collections", "jobs", "nodes", "records", "faults"]) shown[name] = (await figure(page, name)).value;
  assert.deepEqual(shown, {
    slot: SLOTS - 1, finalised: expected.finality.finalised, aggregates: expected.aggregates, collections: expected.collections,
    jobs: expected.jobs, nodes: expected.nodes, records: expected.records, faults: expected.faults,
  });
  assert.equal((await figure(page, "two-thirds")).text, `${expected.finality.twoThirdsMs} ms`);
  assert.equal((await figure(page, "coverage")).text, `${expected.collectedMean.toFixed(1)} %`);
  assert.match((await figure(page, "aggregates")).remark, new RegExp(`^${expected.aggregatesLate} late`));
  assert.match((await figure(page, "jobs")).remark, new RegExp(`^${expected.jobsOver} later`));
  // What has no figure of its own: the summary of the state, and the tables.
  const { totals, bytes, outcomes, peers } = await page.evaluate(() => globalThis.alphorn.summary());
  for (const name of ["aggregateVotes", "aggregateMs", "collectionVotes", "collectionBytes", "lagMaxUs"]) assert.equal(totals[name], expected[name], name);
  assert.deepEqual({ bytes, outcomes, peers }, { bytes: expected.bytes, outcomes: expected.outcomes, peers: expected.peers });
  for (const details of await page.locator("details").all()) await details.locator("summary").click();
  const rows = (id) => page.locator(`#${id} tbody tr`).count();
  await page.waitForFunction(() => document.querySelectorAll("#records-table tbody tr").length > 0);
  assert.deepEqual(
    [await rows("heatmap-table"), await rows("strip-table"), await rows("traffic-table"), await rows("peers-table")],
    [expected.committees, SLOTS, Object.keys(expected.bytes).length, expected.peers],
  );
  // Text of a trace is text: the markup in it is not there.
  assert.match(await page.locator("#faults-table").innerText(), /<b>markup<\/b> & quotes/);
  assert.equal(await page.locator("#faults-table b").count(), 0);
  assert.deepEqual(wrong, []);
  await close();
});

/** A trace of one slot whose first cells are of these percentages. */
function handmade(percents) {
  const base64 = Buffer.from(percents).toString("base64");
  const lines = [
    { t: 0, n: "a", k: "genesis", scheme: "model", validators: 8, committees: 1, subs: percents.length, slot_ms: 4000, offsets_ms: [0, 800] },
    { t: 1, n: "a", k: "cells", slot: 0, from: 0, seen: base64, aggregated: base64, collected: base64 },
  ];
  return lines.map((line) => JSON.stringify(line)).join("\n");
}

/** Red, green, blue at the left upper corner of a cell: its text is in the middle. */
function pixel(page, cell) {
  return page.evaluate(async (s) => {
    const { layoutOf } = await import("/dashboard/heatmap.js");
    const canvas = document.getElementById("heatmap");
    const { left, top, cellWidth } = layoutOf(1, 5, canvas.clientWidth);
    const ratio = canvas.width / canvas.clientWidth;
    const at = [left + s * cellWidth + 4, top + 4].map((value) => Math.round(value * ratio));
    // A canvas made for reading: the page's own is made for drawing.
    const copy = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, -at[0], -at[1]);
    return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
  }, cell);
}

test("known cells have the expected pixels, in light and in dark", async () => {
  const { url } = await started(0, "none");
  const colours = {
    light: [[236, 240, 244], [188, 211, 232], [122, 173, 214], [47, 119, 178], [8, 56, 107]],
    dark: [[33, 40, 50], [28, 66, 104], [36, 108, 168], [88, 163, 222], [205, 230, 250]],
  };
  for (const [colorScheme, wanted] of Object.entries(colours)) {
    const { page, wrong, close } = await opened(url, { colorScheme, deviceScaleFactor: 2 });
    assert.match(await page.locator("#status").innerText(), /Open a trace|Waiting/);
    await page.setInputFiles("#file", { name: "hand.jsonl", mimeType: "text/plain", buffer: Buffer.from(handmade([0, 25, 50, 75, 100])) });
    await page.waitForFunction(() => !document.getElementById("heatmap").hidden);
    await page.locator("#heatmap").focus();
    await page.keyboard.press("End");
    const found = [];
    for (let cell = 0; cell < 5; cell += 1) found.push(await pixel(page, cell));
    assert.deepEqual(found, wanted, colorScheme);
    assert.match(await page.locator("#cell").innerText(), /Committee 0, subcommittee 4[^]*Collected\s*100 %/);
    assert.deepEqual(wrong, []);
    await close();
  }
});

test("the cursor stays on a map that becomes smaller", async () => {
  const { url } = await started(0, "none");
  const { page, wrong, close } = await opened(url);
  const give = (percents) => page.setInputFiles("#file", { name: "hand.jsonl", mimeType: "text/plain", buffer: Buffer.from(handmade(percents)) });
  await give([0, 25, 50, 75, 100]);
  await page.waitForFunction(() => !document.getElementById("heatmap").hidden);
  await page.locator("#heatmap").focus();
  await page.keyboard.press("End");
  await page.waitForFunction(() => /subcommittee 4/.test(document.getElementById("cell").textContent));
  await give([30, 60]);
  await page.waitForFunction(() => /subcommittee 1[^]*Collected\s*60\.0 %/.test(document.getElementById("cell").textContent));
  assert.deepEqual(wrong, []);
  await close();
});

test("a server whose places are all taken is asked again", async () => {
  const { url } = await started(0, "file", trace("small"));
  const { page, close } = await opened(url);
  let asked = 0;
  await page.route("**/dashboard/trace", (route) => {
    asked += 1;
    return asked === 1 ? route.fulfill({ status: 503, body: "full" }) : route.continue();
  });
  await page.reload();
  await page.waitForFunction(() => /trying again/.test(document.getElementById("status").textContent));
  await untilRecords(page, expected.records);
  assert.equal(asked, 2);
  await close();
});

test("the live page and the end of the slider are one state", async () => {
  const recorded = await opened((await started(0, "file", trace("small"))).url);
  const live = await opened((await started(0, "live", SLOTS, 0)).url);
  await untilRecords(recorded.page, expected.records);
  await untilRecords(live.page, expected.records);
  assert.equal(await live.page.locator("#status").innerText(), "Live");
  const end = await fingerprintOf(recorded.page);
  assert.equal(await fingerprintOf(live.page), end);
  // There and back again.
  const { page } = recorded;
  await page.waitForFunction(() => document.querySelector("#status").dataset.state === "replay");
  await page.locator("#slider").focus();
  await page.keyboard.press("Home");
  await page.waitForFunction(() => globalThis.alphorn.summary().records < 20);
  assert.notEqual(await fingerprintOf(page), end);
  await page.locator("#forward").click();
  await page.keyboard.press("Enter");
  await page.locator("#back").click();
  await page.locator("#slider").focus();
  await page.keyboard.press("End");
  await untilRecords(page, expected.records);
  assert.equal(await fingerprintOf(page), end);
  assert.deepEqual([recorded.wrong, live.wrong], [[], []]);
  await recorded.close();
  await live.close();
});

test("play goes on by itself, faster on demand, and stops at the end", async () => {
  const { url } = await started(0, "file", trace("small"));
  const { page, wrong, close } = await opened(url);
  await untilRecords(page, expected.records);
  await page.selectOption("#speed", "16");
  await page.locator("#play").click();
  await page.waitForFunction(() => document.querySelector("#play").textContent === "Pause");
  await page.waitForFunction(() => globalThis.alphorn.summary().records > 600);
  const slots = await page.evaluate(() => globalThis.alphorn.summary().slot);
  assert.ok(slots < SLOTS - 1, `slot ${slots}`);
  await page.waitForFunction(() => document.querySelector("#play").textContent === "Play", null, { timeout: 20_000 });
  await untilRecords(page, expected.records);
  assert.deepEqual(wrong, []);
  await close();
});

test("a server that comes back is found within three seconds", async () => {
  const first = await serve(0, "live", 3, 0);
  const { page, wrong, close } = await opened(first.url);
  await page.waitForFunction(() => document.querySelector("#status").dataset.state === "live");
  await untilRecords(page, 100);
  await first.stop();
  await page.waitForFunction(() => document.querySelector("#status").dataset.state === "lost");
  await started(first.port, "live", SLOTS, 0);
  const start = performance.now();
  await page.waitForFunction(() => document.querySelector("#status").dataset.state === "live", null, { timeout: 3000 });
  await untilRecords(page, expected.records, 3000);
  assert.ok(performance.now() - start <= 3000);
  // Not the sum of both lives: the state of the second.
  assert.equal(await page.evaluate(() => globalThis.alphorn.summary().records), expected.records);
  const refusals = wrong.filter((text) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/.test(text));
  assert.deepEqual(refusals, []);
  await close();
});

/** Starts to count the seconds that the thread of a page works; gives how to read them. */
async function threadTime(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const read = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "ThreadTime").value;
  };
  const from = await read();
  return async () => (await read()) - from;
}

test("a hundred thousand records are replayed in two seconds and two hundred megabytes", async (t) => {
  const large = write("large", LARGE_SLOTS);
  assert.ok(large.records >= 100_000, `${large.records} records`);
  const { url } = await started(0, "file", trace("large"));
  const { page, wrong, close } = await opened(url);
  await untilRecords(page, large.records, 60_000);
  // Parsed and reduced from the first to the last, with the states that the slider keeps: time of
  // the page's thread, which other work on the machine does not lengthen.
  const text = readFileSync(trace("large"), "utf8");
  const spent = await threadTime(page);
  const start = performance.now();
  await page.evaluate(async (whole) => {
    const [{ LineReader }, { Player }] = await Promise.all([import("/dashboard/trace.js"), import("/dashboard/player.js")]);
    const player = new Player(new LineReader().push(whole));
    if (player.state.records !== player.length) throw new Error("not all records were reduced");
  }, text);
  const passed = performance.now() - start;
  const ms = (await spent()) * 1000;
  const heap = await page.evaluate(() => {
    globalThis.gc();
    return performance.memory.usedJSHeapSize;
  });
  const { totals } = await page.evaluate(() => globalThis.alphorn.summary());
  assert.deepEqual([totals.aggregates, totals.jobs, totals.faults], [large.aggregates, large.jobs, large.faults]);
  t.diagnostic(`${large.records} records: ${ms.toFixed(0)} ms of the thread (${passed.toFixed(0)} on the clock) to parse and reduce, ${(heap / 2 ** 20).toFixed(0)} MiB of heap`);
  assert.ok(ms <= 2000, `${ms} ms`);
  assert.ok(heap <= 200e6, `${heap} bytes`);
  assert.deepEqual(wrong, []);
  await close();
});

test("a thousand records a second leave time between frames", async (t) => {
  const { url } = await started(0, "live", SLOTS, 1000);
  const { page, wrong, close } = await opened(url);
  await untilRecords(page, expected.records);
  const { frames, busy, records } = await page.evaluate(() => new Promise((resolve) => {
    const times = [];
    const from = globalThis.alphorn.summary().records;
    const next = (now) => {
      times.push(now);
      if (now - times[0] < 3000) requestAnimationFrame(next);
      else {
        const gaps = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
        resolve({ frames: times.length / 3, busy: gaps[Math.floor(gaps.length / 2)], records: globalThis.alphorn.summary().records - from });
      }
    };
    requestAnimationFrame(next);
  }));
  t.diagnostic(`${frames.toFixed(0)} frames a second, ${busy.toFixed(1)} ms between two in the middle, ${records} records in 3 s`);
  assert.ok(records > 1000, `${records} records`);
  // Without a graphics processor, beside other work: a third of what a desktop shows.
  assert.ok(busy <= 50, `${busy} ms between frames`);
  assert.deepEqual(wrong, []);
  await close();
});

test("everything is reached and moved with the keyboard", async () => {
  const { url } = await started(0, "file", trace("small"));
  const { page, wrong, close } = await opened(url);
  await untilRecords(page, expected.records);
  await page.waitForFunction(() => !document.getElementById("controls").hidden);
  const reached = [];
  for (let i = 0; i < 60; i += 1) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => {
      const { activeElement } = document;
      if (activeElement.tagName === "SUMMARY") return `summary of ${activeElement.closest("section").id}`;
      return activeElement.id || activeElement.name || activeElement.closest("ol")?.id || activeElement.className || activeElement.tagName;
    });
    if (name === "BODY" || reached[0] === name) break;
    reached.push(name);
  }
  const wanted = ["file", "theme", "back", "play", "forward", "speed", "slider", "stage", "heatmap", "slot-back", "slot-follow", "strip"];
  assert.deepEqual(wanted.filter((name) => !reached.includes(name)), [], reached.join(" "));
  assert.equal(reached.filter((name) => name === "strip").length, 1, "the strip is one stop");
  const summaries = await page.locator("summary:visible").count();
  assert.equal(reached.filter((name) => name.startsWith("summary of ")).length, summaries);
  // Stages by arrows, cells by arrows, slots by arrows.
  await page.locator("input[value=collected]").focus();
  await page.keyboard.press("ArrowLeft");
  assert.ok(await page.locator("input[value=aggregated]").isChecked());
  await page.locator("#heatmap").focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp"]) await page.keyboard.press(key);
  await page.waitForFunction(() => /Committee 1, subcommittee 1/.test(document.getElementById("cell").textContent));
  await page.locator("#strip button[tabindex='0']").focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  await page.waitForFunction((slot) => document.getElementById("slot-shown").textContent === `slot ${slot}`, SLOTS - 3);
  await page.locator("#slot-forward").focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction((slot) => document.getElementById("slot-shown").textContent === `slot ${slot}`, SLOTS - 2);
  await page.locator("#slot-follow").press("Enter");
  await page.waitForFunction(() => document.getElementById("slot-shown").textContent.endsWith("the newest"));
  await page.locator("#theme").press("Enter");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  assert.deepEqual(wrong, []);
  await close();
});

test("every picture has a name and a table, and nothing is wider than a narrow window", async () => {
  const { url } = await started(0, "file", trace("small"));
  for (const width of [420, 900, 1440]) {
    const { page, wrong, close } = await opened(url, { viewport: { width, height: 900 } });
    await untilRecords(page, expected.records);
    await page.waitForFunction(() => !document.getElementById("heatmap").hidden);
    const nameless = await page.evaluate(() => [...document.querySelectorAll("canvas:not([hidden]):not([aria-hidden])")]
      .filter((canvas) => !canvas.getAttribute("aria-label") || canvas.closest("section").querySelector("table") === null)
      .map((canvas) => canvas.id));
    assert.deepEqual(nameless, []);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(over <= 0, `${over} pixels too wide at ${width}`);
    assert.deepEqual(wrong, []);
    await close();
  }
});

test("a trace that is none is told by its line, and the page stays as it is", async () => {
  const { url } = await started(0, "none");
  const { page, wrong, close } = await opened(url);
  const give = (text) => page.setInputFiles("#file", { name: "bad.jsonl", mimeType: "text/plain", buffer: Buffer.from(text) });
  await give(`${handmade([1])}\n{"t":0,"n":"a","k":"slot"}`);
  await page.waitForFunction(() => !document.getElementById("error").hidden);
  assert.match(await page.locator("#error").innerText(), /^bad\.jsonl: line 3: slot\.slot: undefined is no whole number/);
  await give(handmade([1]));
  await page.waitForFunction(() => document.getElementById("error").hidden);
  const other = await opened(`${url}?trace=missing.jsonl`);
  await other.page.waitForFunction(() => !document.getElementById("error").hidden);
  assert.match(await other.page.locator("#error").innerText(), /missing\.jsonl: the server answers 404/);
  assert.ok(other.wrong.every((text) => text.includes("404")), other.wrong.join("\n"));
  assert.deepEqual(wrong, []);
  await other.close();
  await close();
});
