// The library for JavaScript, in Node: `tests/check.sh` builds it and names its folder.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const FOLDER = process.env.ALPHORN_JS;
if (!FOLDER) throw new Error("ALPHORN_JS must name the folder of install.sh: tests/check.sh sets it");
const VECTORS = fileURLToPath(new URL("../../../../vectors/", import.meta.url));
const { AlphornError, fromHex, load, pack, VERDICTS } = await import(pathToFileURL(join(FOLDER, "alphorn.mjs")).href);

const vector = (name) => JSON.parse(readFileSync(join(VECTORS, name), "utf8"));
const text = (string) => new TextEncoder().encode(string);
const flipped = (bytes, at, mask = 1) => Uint8Array.from(bytes, (byte, i) => (i === at ? byte ^ mask : byte));
const refusal = (code, message = /./) => (error) => {
  assert.ok(error instanceof AlphornError, String(error.stack));
  assert.equal(error.code, code, error.message);
  assert.match(error.message, message);
  return true;
};

let alphorn;
before(async () => { alphorn = await load(); });

test("bytes and bits are what they are elsewhere", () => {
  assert.deepEqual([...fromHex("0x00fFa1")], [0, 255, 161]);
  for (const wrong of ["abc", "0xgg", "0x1"]) assert.throws(() => fromHex(wrong), refusal("argument", /hexadecimal/));
  assert.deepEqual([...pack([1, 0, 1, 0, 0, 0, 0, 0, true])], [5, 1]);
  assert.deepEqual([...pack([])], []);
  assert.match(alphorn.version, /^\d+\.\d+\.\d+$/);
});

/** Keys, proofs of possession and votes of validators. */
function validators(count, message) {
  const secrets = Array.from({ length: count }, (_, i) => alphorn.bls.interopSecretKey(i));
  return {
    keys: secrets.map((secret) => alphorn.bls.publicKey(secret)),
    proofs: secrets.map((secret) => alphorn.bls.prove(secret)),
    votes: secrets.map((secret) => alphorn.bls.sign(secret, message)),
  };
}

test("single signatures hold, and are those of the known answers", () => {
  const known = vector("bls/sign/sign_key0_message1.json");
  const signed = alphorn.bls.sign(fromHex(known.input.privkey), fromHex(known.input.message));
  assert.deepEqual(signed, fromHex(known.output));
  const secret = alphorn.bls.interopSecretKey(3);
  const key = alphorn.bls.publicKey(secret);
  const vote = alphorn.bls.sign(secret, text("head"));
  assert.equal(alphorn.bls.verify(key, text("head"), vote), true);
  assert.equal(alphorn.bls.verify(key, text("tail"), vote), false);
  assert.equal(alphorn.bls.verify(key, text("head"), flipped(vote, 50)), false);
  assert.throws(() => alphorn.bls.verify(key.subarray(1), text("head"), vote), refusal("argument", /length of public key = 47 bytes, must be 48/));
  assert.throws(() => alphorn.bls.publicKey(new Uint8Array(32)), refusal("decode"));
  assert.throws(() => alphorn.bls.aggregate([]), refusal("argument"));
  for (const wrong of [-1, 1.5, 2 ** 53, 1n << 64n, "7"]) assert.throws(() => alphorn.bls.interopSecretKey(wrong), refusal("argument", /validator/));
});

test("collections of committees have each its verdict", () => {
  const { keys, proofs, votes } = validators(12, text("head"));
  const registry = alphorn.registry(keys, proofs);
  // Committee 1 is the validators 11, 10, 9.
  const committees = registry.committees([9, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 10, 9]);
  registry.free();
  assert.deepEqual([committees.size(0), committees.size(1), committees.size(2)], [9, 3, 0]);
  const good = { committee: 1, signers: pack([1, 0, 1]), message: text("head"), signature: alphorn.bls.aggregate([votes[11], votes[9]]) };
  const twice = { ...good, signers: Uint8Array.of(0b100, 0b010), signature: alphorn.bls.aggregate([votes[10], votes[10], votes[9]]) };
  const cases = [
    [good, "valid"],
    [twice, "valid"],
    [{ ...good, message: text("tail") }, "signature"],
    [{ ...good, signers: pack([1, 1]) }, "signature"],
    [{ ...good, signers: pack([0, 0, 0]) }, "key at infinity"],
    [{ ...good, signers: Uint8Array.of(0b1101) }, "signers"],
    [{ ...good, signers: new Uint8Array(0) }, "signers"],
    [{ ...good, signers: new Uint8Array(5) }, "signers"],
    [{ ...good, committee: 2 }, "signers"],
    [{ ...good, signature: new Uint8Array(96) }, "decode"],
    [good, "valid"],
  ];
  assert.deepEqual(committees.verify(cases.map(([collection]) => collection)), cases.map(([, verdict]) => verdict));
  for (const [collection, verdict] of cases) assert.deepEqual(committees.verify([collection]), [verdict]);
  // Each byte of the sum, with one bit of it changed.
  for (let at = 0; at < 96; at += 1) {
    const [verdict] = committees.verify([{ ...good, signature: flipped(good.signature, at, 1 << (at % 8)) }]);
    assert.ok(VERDICTS.includes(verdict) && verdict !== "valid", `byte ${at}: ${verdict}`);
  }
  assert.deepEqual(committees.verify([]), []);
  assert.deepEqual(committees.verify([good]), ["valid"]);
  assert.throws(() => committees.verify([{ ...good, signature: new Uint8Array(95) }]), refusal("argument", /signature of collection 0 = 95 bytes/));
  committees.free();
  committees.free();
  assert.throws(() => committees.verify([good]), refusal("argument", /was freed/));
});

test("keys that are not proven, not keys or twice there are refused", () => {
  const { keys, proofs } = validators(3, text(""));
  assert.throws(() => alphorn.registry(keys, [proofs[0], proofs[2], proofs[1]]), refusal("invalid"));
  assert.throws(() => alphorn.registry(keys, proofs.slice(1)), refusal("argument", /2 proofs of possession for 3 keys/));
  assert.throws(() => alphorn.registryProven([keys[0], flipped(keys[1], 0, 0x80)]), refusal("decode"));
  assert.throws(() => alphorn.registryProven([keys[0], keys[1], keys[0]]), refusal("argument"));
  assert.throws(() => alphorn.registryProven([keys[0], keys[1].subarray(1)]), refusal("argument", /keys\[1\] = 47 bytes/));
  assert.throws(() => alphorn.registryProven("0x00"), refusal("argument", /must be bytes, not string/));
  const registry = alphorn.registryProven(Buffer.concat(keys));
  assert.throws(() => registry.committees([3], [0, 1, 3]), refusal("argument"));
  assert.throws(() => registry.committees([4]), refusal("argument"));
  assert.throws(() => registry.committees([3], [0, 1, -1]), refusal("argument", /members\[2\] = -1/));
  assert.equal(registry.committees([2, 1]).size(1), 1);
});

test("XMSS signatures hold or not, as the specification says", () => {
  for (const set of ["prod", "test"]) {
    const { valid, mutated } = vector(`xmss/lean-${set}.json`);
    const { publicKey, signature } = alphorn.xmssBytes(set);
    const all = [...valid, ...mutated].map((one) => ({
      vote: { publicKey: fromHex(one.pk), index: one.slot, message: fromHex(one.message), signature: fromHex(one.sig) }, expect: one.expect,
    }));
    // What has another length, or a slot that is none, does not come to the library.
    const whole = all.filter(({ vote }) => vote.signature.length === signature && vote.publicKey.length === publicKey && vote.index < 2 ** 32);
    assert.ok(whole.length > valid.length, `${whole.length} of ${set}`);
    const verdicts = alphorn.verifyXmss(set, whole.map(({ vote }) => vote));
    assert.deepEqual(verdicts, whole.map(({ expect }) => expect), set);
    const [{ vote }] = all;
    assert.throws(() => alphorn.verifyXmss(set, [{ ...vote, signature: vote.signature.subarray(1) }]), refusal("argument", /signature of vote 0/));
    // One bit in each region of a signature.
    for (let at = 0; at < signature; at += 97) {
      assert.deepEqual(alphorn.verifyXmss(set, [{ ...vote, signature: flipped(vote.signature, at) }, vote]), [false, true], `byte ${at}`);
    }
  }
  assert.throws(() => alphorn.verifyXmss("large", []), refusal("argument", /set "large", must be one of prod, test, compact/));
});

/** A proof that is kept, and what its verifier must know. */
function proofOf(name) {
  const { set, preset, number, keys, slot, message, signers, proof } = vector(`proofs/${name}.json`);
  const members = alphorn.members(set, keys.map(fromHex), { preset, number });
  return { set, keys: keys.map(fromHex), members, statement: [slot, fromHex(message), fromHex(signers), fromHex(proof)] };
}

for (const name of ["leaf", "merged"]) {
  test(`a ${name} proof holds, and no other statement or bytes do`, (t) => {
    const { set, keys, members, statement } = proofOf(name);
    const [slot, message, signers, proof] = statement;
    members.verify(...statement);
    assert.throws(() => members.verify(slot + 1, message, signers, proof), refusal("invalid"));
    assert.throws(() => members.verify(slot, flipped(message, 31), signers, proof), refusal("invalid"));
    assert.throws(() => members.verify(slot, message, flipped(signers, 1, 0x40), proof), refusal("invalid"));
    assert.throws(() => members.verify(slot, message, Uint8Array.of(1), proof), refusal("argument"));
    assert.throws(() => members.verify(slot, message.subarray(1), signers, proof), refusal("argument", /message = 31 bytes, must be 32/));
    assert.throws(() => members.verify(slot, message, signers, new Uint8Array(0)), refusal("decode"));
    const other = alphorn.members(set, keys, { number: 1 });
    assert.throws(() => other.verify(...statement), refusal("invalid"));

    // One bit in each region: all of the header, and samples of what stands behind it.
    const places = [...Array(96).keys()];
    for (let at = 96; at < proof.length; at += Math.floor(proof.length / 100)) places.push(at);
    for (const at of [...places, proof.length - 1]) {
      assert.throws(() => members.verify(slot, message, signers, flipped(proof, at, 1 << (at % 8))), (error) => {
        assert.ok(["invalid", "decode"].includes(error.code), `byte ${at}: ${error.stack}`);
        return true;
      });
    }
    for (const length of [1, 50, 100, proof.length - 4, proof.length - 1]) {
      assert.throws(() => members.verify(slot, message, signers, proof.subarray(0, length)), refusal("decode"));
    }
    assert.throws(() => members.verify(slot, message, signers, Buffer.concat([proof, proof])), refusal("decode"));
    const times = Array.from({ length: 9 }, () => {
      const from = performance.now();
      members.verify(...statement);
      return performance.now() - from;
    });
    t.diagnostic(`verified in ${times.sort((a, b) => a - b)[4].toFixed(0)} ms, the middle of ${times.length} times`);
    members.free();
  });
}

test("memory does not grow with what is verified, and two libraries have nothing in common", async () => {
  const other = await load();
  const { members, statement } = proofOf("leaf");
  members.verify(...statement);
  const before = alphorn.memoryBytes;
  for (let i = 0; i < 50; i += 1) members.verify(...statement);
  assert.equal(alphorn.memoryBytes, before);
  assert.ok(other.memoryBytes < before);
  assert.deepEqual(other.bls.interopSecretKey(1), alphorn.bls.interopSecretKey(1));
});

/** A module with functions of these names, parameters and instructions, each of which returns a number. */
function moduleOf(functions) {
  const list = (items) => [items.length, ...items.flat()];
  // A length of two groups of seven bits.
  const section = (id, bytes) => [id, (bytes.length & 0x7f) | 0x80, bytes.length >> 7, ...bytes];
  const name = (string) => list([...text(string)]);
  const type = (parameters) => [0x60, ...list(Array(parameters).fill(0x7f)), 1, 0x7f];
  const body = (code) => list([0, ...code, 0x0b]);
  return Uint8Array.from([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, list(functions.map(([, parameters]) => type(parameters)))),
    ...section(3, list(functions.map((_, i) => [i]))),
    ...section(5, [1, 0, 1]),
    ...section(7, list([[...name("memory"), 2, 0], ...functions.map(([string], i) => [...name(string), 0, i])])),
    ...section(10, list(functions.map(([, , code]) => body(code)))),
  ]);
}

test("after a fault nothing is called any more", async () => {
  const [constant, unreachable] = [[0x41, 16], [0x00]];
  const faulty = moduleOf([
    ["__wasm_call_ctors", 0, constant], ["malloc", 1, constant], ["free", 1, constant], ["alphorn_context_new", 2, constant],
    ["alphorn_version", 0, constant], ["alphorn_xmss_public_key_bytes", 1, unreachable], ["alphorn_xmss_signature_bytes", 1, constant],
  ]);
  const library = await load(faulty);
  assert.equal(library.version, "");
  assert.throws(() => library.xmssBytes("prod"), refusal("internal", /a fault of the library: unreachable/));
  assert.throws(() => library.version, refusal("internal", /load it anew/));
  await assert.rejects(load(moduleOf([["__wasm_call_ctors", 0, constant]])), refusal("argument", /no alphorn_version/));
});
