// The page of the book that verifies a proof, in a headless browser: `check.sh` makes it and names its folder.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";

import { launch, open } from "../../../dashboard/tests/page/browser.mjs";

const FOLDER = process.env.ALPHORN_JS;
const TYPES = { ".html": "text/html", ".mjs": "text/javascript", ".json": "application/json", ".wasm": "application/wasm" };

let browser;
let server;
let url;
/** What the server does not give out. */
const hidden = new Set();

before(async () => {
  server = createServer((request, response) => {
    const name = request.url === "/" ? "index.html" : request.url.slice(1);
    const type = TYPES[extname(name)];
    if (type === undefined || name.includes("/") || hidden.has(name)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "content-type": type }).end(readFileSync(join(FOLDER, name)));
  });
  await new Promise((resolve) => { server.listen(0, "127.0.0.1", resolve); });
  url = `http://127.0.0.1:${server.address().port}/`;
  browser = await launch();
});

after(async () => {
  await browser?.close();
  server?.closeAllConnections?.();
  await new Promise((resolve) => { server.close(resolve); });
});

const until = (page, state) => page.waitForFunction((wanted) => document.querySelector("#verdict").dataset.state === wanted, state, { timeout: 60_000 });

test("a proof holds in the browser, and not with one bit changed", async () => {
  const { page, wrong, close } = await open(browser, url);
  await until(page, "valid");
  assert.match(await page.locator("#verdict").innerText(), /^Valid, in \d+ ms$/);
  const { keys } = JSON.parse(readFileSync(join(FOLDER, "merged.json"), "utf8"));
  assert.equal(await page.locator("#signers span").count(), keys.length);
  assert.equal(await page.locator("#count").innerText(), `${await page.locator("#signers .signed").count()} of ${keys.length}`);
  const places = new Set();
  for (let i = 0; i < 5; i += 1) {
    await page.locator("#flip").click();
    await until(page, "refused");
    const detail = await page.locator("#detail").innerText();
    const [, bit] = /^Bit ([\d,]+) of [\d,]+ was flipped: .+\.$/.exec(detail);
    places.add(bit);
    await page.locator("#verify").click();
    await until(page, "valid");
  }
  assert.ok(places.size > 1, "always the same bit");
  assert.deepEqual(wrong, []);
  if (process.env.ALPHORN_SHOTS) {
    await page.screenshot({ path: join(process.env.ALPHORN_SHOTS, "valid.png") });
    await page.locator("#flip").click();
    await until(page, "refused");
    await page.screenshot({ path: join(process.env.ALPHORN_SHOTS, "refused.png") });
  }
  await close();
});

test("the page says what is missing", async () => {
  hidden.add("merged.json");
  const { page, close } = await open(browser, url);
  await until(page, "failed");
  assert.match(await page.locator("#detail").innerText(), /merged\.json: 404.*build\.sh/);
  await close();
  hidden.clear();
});
