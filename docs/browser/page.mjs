// Verifies the proof of the page, and the proof with one bit changed.

import { AlphornError, fromHex, load } from "./alphorn.mjs";

const at = (id) => document.getElementById(id);
const whole = (number) => number.toLocaleString("en");

function show(state, verdict, detail) {
  at("verdict").dataset.state = state;
  at("verdict").textContent = verdict;
  at("detail").textContent = detail;
}

/** Lets the browser draw what was changed. */
const drawn = () => new Promise((resolve) => { requestAnimationFrame(() => setTimeout(resolve)); });

async function fetched(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return response;
}

function describe({ keys, slot, message, set }, signers, proof) {
  at("keys").textContent = `${keys.length} keys of the set ${set}`;
  const flags = keys.map((_, i) => (signers[i >> 3] >> (i & 7)) & 1);
  at("count").textContent = `${flags.reduce((sum, flag) => sum + flag, 0)} of ${flags.length}`;
  at("signers").replaceChildren(...flags.map((flag) => {
    const square = document.createElement("span");
    if (flag) square.className = "signed";
    return square;
  }));
  at("slot").textContent = slot;
  at("message").textContent = message;
  at("proof").textContent = `${whole(proof.length)} bytes, merged of two proofs`;
}

async function start() {
  const [binary, vector] = await Promise.all([
    fetched("alphorn.wasm").then((response) => response.arrayBuffer()), fetched("merged.json").then((response) => response.json()),
  ]);
  const [message, signers, proof] = [vector.message, vector.signers, vector.proof].map(fromHex);
  describe(vector, signers, proof);
  const alphorn = await load(binary);
  at("library").textContent = `alphorn ${alphorn.version} as WebAssembly, ${whole(binary.byteLength)} bytes before packing`;
  const members = alphorn.members(vector.set, vector.keys.map(fromHex), { preset: vector.preset, number: vector.number });
  let isFirst = true;

  async function verify(bytes, what) {
    for (const id of ["verify", "flip"]) at(id).disabled = true;
    show("busy", "Verifying…", `${what}.`);
    await drawn();
    const from = performance.now();
    const ms = () => `${(performance.now() - from).toFixed(0)} ms`;
    try {
      members.verify(vector.slot, message, signers, bytes);
      const more = isFirst ? " The circuits were made meanwhile: verify it again." : "";
      show("valid", `Valid, in ${ms()}`, `${what}.${more}`);
    } catch (error) {
      if (!(error instanceof AlphornError) || error.code === "internal") throw error;
      show("refused", `Refused, in ${ms()}`, `${what}: ${error.message}.`);
    }
    isFirst = false;
    for (const id of ["verify", "flip"]) at(id).disabled = false;
  }

  const guarded = (run) => () => run().catch(failed);
  at("verify").addEventListener("click", guarded(() => verify(proof, "The proof as it was made")));
  at("flip").addEventListener("click", guarded(() => {
    const bit = crypto.getRandomValues(new Uint32Array(1))[0] % (8 * proof.length);
    const changed = proof.slice();
    changed[bit >> 3] ^= 1 << (bit & 7);
    return verify(changed, `Bit ${whole(bit)} of ${whole(8 * proof.length)} was flipped`);
  }));
  await verify(proof, "The proof as it was made");
}

function failed(error) {
  show("failed", "This did not work", `${error.message}. docs/browser/build.sh puts the library and the proof into the folder of this page.`);
}

start().catch(failed);
