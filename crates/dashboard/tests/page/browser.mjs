// A browser and servers of the page, for its tests.

import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
/** The server of synthetic traces: `cargo build -p alphorn-dashboard --example page`. */
export const PAGE = join(TARGET, "debug", "examples", "page");
/** The program, whose simulations make traces. */
export const PROGRAM = join(TARGET, "debug", "alphorn");

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

/** The browser that `CHROMIUM_PATH` names, else the first in the path. */
function browserPath() {
  if (process.env.CHROMIUM_PATH) return process.env.CHROMIUM_PATH;
  const folders = (process.env.PATH ?? "").split(delimiter);
  const found = NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  if (found === undefined) throw new Error("no Chromium in the path: set CHROMIUM_PATH, or ALPHORN_NO_BROWSER=1 to do without");
  return found;
}

/** A headless browser. The flag lets a test read the size of the heap. */
export function launch() {
  return chromium.launch({ executablePath: browserPath(), args: ["--js-flags=--expose-gc", "--enable-precise-memory-info", "--disable-gpu"] });
}

/** Starts the page; gives its address and how to stop it. */
export async function serve(port, ...source) {
  const child = spawn(PAGE, ["serve", String(port), ...source.map(String)], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => { child.once("exit", resolve); });
  const failed = ended.then((code) => { throw new Error(`the page server ended with ${code}`); });
  failed.catch(() => {});
  const [url] = await Promise.race([once(createInterface({ input: child.stdout }), "line"), failed]);
  return {
    url,
    port: new URL(url).port,
    async stop() {
      child.stdin.end();
      await ended;
    },
  };
}

function once(emitter, event) {
  return new Promise((resolve) => { emitter.once(event, (...values) => resolve(values)); });
}

/** A page that remembers what it must not do: errors, and requests to others. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const wrong = [];
  const origin = new URL(url).origin;
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrong.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => wrong.push(`exception: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`)) wrong.push(`request of ${request.url()}`);
  });
  await page.goto(url);
  return { page, wrong, close: () => context.close() };
}

/** The name of the state that the page shows. */
export function fingerprintOf(page) {
  return page.evaluate(() => globalThis.alphorn.fingerprint());
}

/** Waits until the page has so many records. */
export function untilRecords(page, records, timeout = 10_000) {
  return page.waitForFunction((wanted) => globalThis.alphorn?.summary().records >= wanted, records, { timeout });
}
