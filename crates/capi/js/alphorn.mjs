// alphorn for browsers and Node: BLS committees, XMSS signatures and proofs over hashes are verified by the C library,
// compiled to WebAssembly. Nothing here computes: bytes are laid into the library's memory, and its answers read.
//
//     import { load } from "./alphorn.mjs";
//     const alphorn = await load();
//
// Bytes are a `Uint8Array`, another view or an `ArrayBuffer`; lists of equal items are an array of them, or all of them one after the
// other. Whatever is wrong is an `AlphornError`, with the library's text and a `code`. All runs on the thread that calls.

const CODES = ["ok", "argument", "decode", "invalid", "refused", "stopped", "io", "incomplete", "internal"];
const SETS = { prod: 1, test: 2, compact: 3 };
const PRESETS = { fast: 1, small: 2 };
const SECRET_KEY_BYTES = 32;
const PUBLIC_KEY_BYTES = 48;
const SIGNATURE_BYTES = 96;
const MESSAGE_BYTES = 32;
/** Of `alphorn_error`: a status, and a text that ends with a zero. */
const ERROR_BYTES = 260;
const U32_MAX = 2 ** 32 - 1;

/** What became of each collection of a committee, by the number that the library gives. */
export const VERDICTS = Object.freeze(["valid", "signers", "decode", "key at infinity", "signature"]);

/** What the library refuses, or cannot do. */
export class AlphornError extends Error {
  /**
   * @param {string} code `argument`: a mistake of the caller. `decode`: the bytes are no key, signature or proof.
   *   `invalid`: it does not hold. `io`: no entropy. `internal`: a fault of the library, please report it.
   * @param {string} message
   * @param {ErrorOptions} [options]
   */
  constructor(code, message, options) {
    super(message, options);
    this.name = "AlphornError";
    this.code = code;
  }
}

function argument(message) {
  return new AlphornError("argument", message);
}

/** Bytes of hexadecimal digits, which may begin with `0x`. */
export function fromHex(text) {
  const digits = String(text).replace(/^0x/, "");
  if (digits.length % 2 !== 0 || /[^0-9a-fA-F]/.test(digits)) throw argument("not an even number of hexadecimal digits");
  return Uint8Array.from({ length: digits.length / 2 }, (_, i) => parseInt(digits.slice(2 * i, 2 * i + 2), 16));
}

/** The bitfield of flags: flag i is bit i mod 8 of byte i / 8. */
export function pack(flags) {
  const bytes = new Uint8Array(Math.ceil(flags.length / 8));
  for (const [i, flag] of [...flags].entries()) if (flag) bytes[i >> 3] |= 1 << (i & 7);
  return bytes;
}

function bytesOf(value, what, size) {
  let bytes;
  if (ArrayBuffer.isView(value)) bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  else if (value instanceof ArrayBuffer) bytes = new Uint8Array(value);
  else throw argument(`${what} must be bytes, not ${value === null ? "null" : typeof value}`);
  if (size !== undefined && bytes.length !== size) throw argument(`length of ${what} = ${bytes.length} bytes, must be ${size}`);
  return bytes;
}

/** Items of one size: an array of them, or all of them one after the other. */
function itemsOf(value, what, size) {
  if (!Array.isArray(value)) {
    const bytes = bytesOf(value, what);
    if (bytes.length % size !== 0) throw argument(`length of ${what} = ${bytes.length} bytes, must be a multiple of ${size}`);
    return bytes;
  }
  const all = new Uint8Array(size * value.length);
  value.forEach((item, i) => all.set(bytesOf(item, `${what}[${i}]`, size), size * i));
  return all;
}

function u32(value, what) {
  if (Number.isInteger(value) && value >= 0 && value <= U32_MAX) return value;
  throw argument(`${what} = ${String(value)}, must be a whole number from 0 to ${U32_MAX}`);
}

function u64(value, what) {
  const isWhole = typeof value === "bigint" || Number.isSafeInteger(value);
  if (isWhole && value >= 0 && BigInt(value) < 1n << 64n) return BigInt(value);
  throw argument(`${what} = ${String(value)}, must be a whole number from 0 to 2^64 - 1`);
}

function named(numbers, name, what) {
  if (Object.hasOwn(numbers, name)) return numbers[name];
  throw argument(`${what} ${JSON.stringify(name)}, must be one of ${Object.keys(numbers).join(", ")}`);
}

// --- The system, as far as the library needs it.

/** Numbers of errors of WASI (preview 1). */
const WASI = { OK: 0, BADF: 8, INVAL: 28, NOSYS: 52 };

/**
 * The imports of the library: entropy, clocks, what it says before it ends. There are no files, arguments or variables.
 * @param {() => DataView} view of its memory
 * @param {Crypto} crypto
 * @param {(text: string) => void} say
 */
function systemOf(view, crypto, say) {
  const empty = (count, bytes) => {
    view().setUint32(count, 0, true);
    view().setUint32(bytes, 0, true);
    return WASI.OK;
  };
  return {
    random_get(at, length) {
      const bytes = new Uint8Array(view().buffer, at, length);
      // So many bytes at most are given out at once.
      for (let from = 0; from < length; from += 65_536) crypto.getRandomValues(bytes.subarray(from, from + 65_536));
      return WASI.OK;
    },
    clock_time_get(clock, _precision, at) {
      if (clock > 1) return WASI.INVAL;
      const ms = clock === 0 ? Date.now() : performance.now();
      view().setBigUint64(at, BigInt(Math.round(ms * 1e6)), true);
      return WASI.OK;
    },
    fd_write(file, pieces, count, written) {
      if (file !== 1 && file !== 2) return WASI.BADF;
      let sum = 0;
      for (let i = 0; i < count; i += 1) {
        const [at, length] = [view().getUint32(pieces + 8 * i, true), view().getUint32(pieces + 8 * i + 4, true)];
        say(new TextDecoder().decode(new Uint8Array(view().buffer, at, length)));
        sum += length;
      }
      view().setUint32(written, sum, true);
      return WASI.OK;
    },
    proc_exit(code) {
      throw new Error(`the library has ended with ${code}`);
    },
    environ_sizes_get: empty,
    environ_get: () => WASI.OK,
    args_sizes_get: empty,
    args_get: () => WASI.OK,
    // No folder is open from the beginning.
    fd_prestat_get: () => WASI.BADF,
    sched_yield: () => WASI.OK,
  };
}

// --- Calls.

/** A module that runs: its memory, its errors, and whether it can go on. */
class Library {
  #exports;
  #said = "";
  #fault = null;

  static async start(module) {
    // A global of browsers and of Node 19 and later.
    const crypto = globalThis.crypto ?? (await import("node:crypto")).webcrypto;
    const library = new Library();
    const system = systemOf(() => library.#view(), crypto, (text) => { library.#said = (library.#said + text).slice(-2000); });
    const imports = {};
    for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
      if (kind !== "function" || from !== "wasi_snapshot_preview1") throw argument(`not alphorn's module: it asks for ${from}.${name}`);
      (imports[from] ??= {})[name] = system[name] ?? (() => WASI.NOSYS);
    }
    const instance = await WebAssembly.instantiate(module, imports);
    library.#exports = instance.exports;
    if (typeof library.#exports.alphorn_version !== "function") throw argument("not alphorn's module: it has no alphorn_version");
    library.call("__wasm_call_ctors");
    return library;
  }

  #view() {
    return new DataView(this.#exports.memory.buffer);
  }

  /** Calls a function. One that does not come back leaves its memory in an unknown state: nothing is called after it. */
  call(name, ...values) {
    if (this.#fault !== null) throw new AlphornError("internal", "a fault of the library has ended it earlier: load it anew", { cause: this.#fault });
    try {
      return this.#exports[name](...values);
    } catch (cause) {
      this.#fault = cause;
      throw new AlphornError("internal", `a fault of the library: ${this.#said.trim() || cause.message}`, { cause });
    }
  }

  /** Runs `f` with memory that is wiped and freed behind it. */
  during(f) {
    const taken = [];
    const take = (length) => {
      const at = this.call("malloc", Math.max(length, 1)) >>> 0;
      if (at === 0) throw new AlphornError("argument", `no memory for ${length} bytes`);
      taken.push([at, length]);
      return at;
    };
    const room = {
      take,
      /** A copy of bytes. */
      lay: (bytes) => {
        const at = take(bytes.length);
        new Uint8Array(this.#exports.memory.buffer, at, bytes.length).set(bytes);
        return at;
      },
      /** A copy of numbers of 32 bits. */
      layNumbers: (numbers) => {
        const at = take(4 * numbers.length);
        numbers.forEach((number, i) => this.#view().setUint32(at + 4 * i, number, true));
        return at;
      },
      read: (at, length) => new Uint8Array(this.#exports.memory.buffer, at, length).slice(),
    };
    try {
      return f(room);
    } finally {
      if (this.#fault === null) {
        for (const [at, length] of taken) {
          new Uint8Array(this.#exports.memory.buffer, at, length).fill(0);
          this.call("free", at);
        }
      }
    }
  }

  /** A call that returns a status; those in `fine` are no errors. */
  status(room, name, values, fine = [0]) {
    const error = room.take(ERROR_BYTES);
    const status = this.call(name, ...values, error);
    if (!fine.includes(status)) throw this.#error(error);
    return status;
  }

  /** A call that returns a handle. */
  object(room, name, values) {
    const error = room.take(ERROR_BYTES);
    const handle = this.call(name, ...values, error) >>> 0;
    if (handle === 0) throw this.#error(error);
    return handle;
  }

  #error(at) {
    const bytes = new Uint8Array(this.#exports.memory.buffer, at + 4, ERROR_BYTES - 4);
    const text = new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
    return new AlphornError(CODES[this.#view().getUint32(at, true)] ?? "internal", text);
  }

  /** A text that ends with a zero. */
  text(at) {
    const bytes = new Uint8Array(this.#exports.memory.buffer, at >>> 0);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }

  get memoryBytes() {
    return this.#exports.memory.buffer.byteLength;
  }

  /** Frees a handle; nothing after a fault, when all memory goes with the library. */
  free(name, handle) {
    if (this.#fault === null) this.call(name, handle);
  }
}

/** Frees what nobody has freed and nobody can use any more. */
const forgotten = new FinalizationRegistry(({ library, freeing, handle }) => library.free(freeing, handle));

/** An object of the library. */
class Held {
  #handle;
  #freeing;
  /** @protected */
  library;

  constructor(library, handle, freeing) {
    this.library = library;
    this.#handle = handle;
    this.#freeing = freeing;
    forgotten.register(this, { library, freeing, handle }, this);
  }

  /** @protected */
  get handle() {
    if (this.#handle === 0) throw argument(`this ${this.constructor.name} was freed`);
    return this.#handle;
  }

  /** Frees its memory at once; without that, whenever the engine finds that nobody uses it. */
  free() {
    if (this.#handle === 0) return;
    forgotten.unregister(this);
    this.library.free(this.#freeing, this.#handle);
    this.#handle = 0;
  }
}

// --- What is there.

/** The BLS keys of all validators, in the order of their indices. */
class Registry extends Held {
  /**
   * Committees of the given sizes. `members` are indices of the registry, committee after committee; without them the
   * committees are the registry's keys in their order.
   * @param {number[]} sizes
   * @param {ArrayLike<number>} [members]
   * @throws {AlphornError} `argument` for an index or sizes that do not fit
   */
  committees(sizes, members) {
    return this.library.during((room) => {
      const laid = (numbers, what) => room.layNumbers(Array.from(numbers, (number, i) => u32(number, `${what}[${i}]`)));
      const given = members === undefined ? [0, 0] : [laid(members, "members"), members.length];
      const values = [this.handle, ...given, laid(sizes, "sizes"), sizes.length];
      return new Committees(this.library, this.library.object(room, "alphorn_committees_new", values), "alphorn_committees_free");
    });
  }
}

/** Committees whose collections are verified. */
class Committees extends Held {
  /** Members of a committee; 0 if there is no such committee. */
  size(committee) {
    return this.library.call("alphorn_committees_size", this.handle, u32(committee, "committee")) >>> 0;
  }

  /**
   * Verifies collections in one test, and looks for the bad ones only if it fails: one of `VERDICTS` for each.
   *
   * A collection has a `committee`, a number; its `signers`, one to four planes of ⌈n/8⌉ bytes, of which bit i of plane j is bit j of how
   * often position i signed (`pack` makes one plane); the `message`; and the `signature`, 96 bytes, the sum of theirs.
   * @param {{ committee: number, signers: Uint8Array, message: Uint8Array, signature: Uint8Array }[]} collections
   * @returns {string[]}
   */
  verify(collections) {
    return this.library.during((room) => {
      const numbers = collections.flatMap(({ committee, signers, message, signature }, i) => {
        const [who, what] = [bytesOf(signers, `signers of collection ${i}`), bytesOf(message, `message of collection ${i}`)];
        const sum = bytesOf(signature, `signature of collection ${i}`, SIGNATURE_BYTES);
        return [u32(committee, `committee of collection ${i}`), room.lay(who), who.length, room.lay(what), what.length, room.lay(sum)];
      });
      const verdicts = room.take(collections.length);
      const values = [this.handle, room.layNumbers(numbers), collections.length, verdicts];
      this.library.status(room, "alphorn_committees_verify", values, [0, CODES.indexOf("invalid")]);
      return Array.from(room.read(verdicts, collections.length), (verdict) => VERDICTS[verdict]);
    });
  }
}

/** The XMSS keys of a committee, with the commitment to them that provers and verifiers share. */
class Members extends Held {
  /**
   * Returns if the proof, merged or not, shows that exactly the signers signed the message in the slot. The first merged
   * proof takes longer: the circuits of its statement are made once.
   * @param {number} slot
   * @param {Uint8Array} message 32 bytes
   * @param {Uint8Array} signers a bitfield over the keys
   * @param {Uint8Array} proof
   * @throws {AlphornError} `invalid` if it does not hold, `decode` for bytes that are no proof, `argument` for what does not fit
   */
  verify(slot, message, signers, proof) {
    this.library.during((room) => {
      const [who, bytes] = [bytesOf(signers, "signers"), bytesOf(proof, "proof")];
      const what = room.lay(bytesOf(message, "message", MESSAGE_BYTES));
      const values = [this.handle, u32(slot, "slot"), what, room.lay(who), who.length, room.lay(bytes), bytes.length];
      this.library.status(room, "alphorn_proof_verify", values);
    });
  }
}

/** The library, loaded. */
class Alphorn {
  #library;
  #context;

  constructor(library) {
    this.#library = library;
    const handle = library.during((room) => library.object(room, "alphorn_context_new", [1]));
    this.#context = new Held(library, handle, "alphorn_context_free");
  }

  /** The version of the library. */
  get version() {
    return this.#library.text(this.#library.call("alphorn_version"));
  }

  /** Bytes of memory that the library has taken: as many as it needed at once, and never fewer. */
  get memoryBytes() {
    return this.#library.memoryBytes;
  }

  /** BLS keys and signatures: what a program needs to try committees, and to verify single votes. */
  bls = Object.freeze({
    /** The secret key of a validator that everyone can compute: for tests and devnets. */
    interopSecretKey: (validator) => this.#written("alphorn_bls_interop_secret_key", SECRET_KEY_BYTES, () => [u64(validator, "validator")]),
    /** The public key of a secret key. */
    publicKey: (secretKey) => this.#written("alphorn_bls_public_key", PUBLIC_KEY_BYTES, (room) => [room.lay(bytesOf(secretKey, "secret key", SECRET_KEY_BYTES))]),
    /** Signs a message of any length. */
    sign: (secretKey, message) => this.#written("alphorn_bls_sign", SIGNATURE_BYTES, (room) => {
      const bytes = bytesOf(message, "message");
      return [room.lay(bytesOf(secretKey, "secret key", SECRET_KEY_BYTES)), room.lay(bytes), bytes.length];
    }),
    /** The sum of signatures, of one at least. */
    aggregate: (signatures) => this.#written("alphorn_bls_aggregate", SIGNATURE_BYTES, (room) => {
      const bytes = itemsOf(signatures, "signatures", SIGNATURE_BYTES);
      return [room.lay(bytes), bytes.length / SIGNATURE_BYTES];
    }),
    /** The proof of possession of a secret key. */
    prove: (secretKey) => this.#written("alphorn_bls_pop_prove", SIGNATURE_BYTES, (room) => [room.lay(bytesOf(secretKey, "secret key", SECRET_KEY_BYTES))]),
    /** Whether a signature holds; one that does not decode does not. */
    verify: (publicKey, message, signature) => this.#library.during((room) => {
      const bytes = bytesOf(message, "message");
      const key = room.lay(bytesOf(publicKey, "public key", PUBLIC_KEY_BYTES));
      const values = [key, room.lay(bytes), bytes.length, room.lay(bytesOf(signature, "signature", SIGNATURE_BYTES))];
      return this.#library.status(room, "alphorn_bls_verify", values, [0, CODES.indexOf("invalid")]) === 0;
    }),
  });

  /** What a call writes: so many bytes behind its inputs. */
  #written(name, bytes, inputs) {
    return this.#library.during((room) => {
      const given = inputs(room);
      const out = room.take(bytes);
      this.#library.status(room, name, [...given, out]);
      return room.read(out, bytes);
    });
  }

  /**
   * Decodes every key, refuses duplicates, and verifies every proof of possession.
   * @param keys 48 bytes each
   * @param proofs of possession, 96 bytes each
   * @throws {AlphornError} `decode` for the first key that does not decode, `invalid` for the first whose proof does not hold
   */
  registry(keys, proofs) {
    const [all, proven] = [itemsOf(keys, "keys", PUBLIC_KEY_BYTES), itemsOf(proofs, "proofs", SIGNATURE_BYTES)];
    const count = all.length / PUBLIC_KEY_BYTES;
    if (proven.length !== count * SIGNATURE_BYTES) throw argument(`${proven.length / SIGNATURE_BYTES} proofs of possession for ${count} keys`);
    return this.#registry("alphorn_bls_registry_new", (room) => [room.lay(all), room.lay(proven), count]);
  }

  /** The same of keys whose proofs of possession were verified before: a key that never was lets its owner forge collections. */
  registryProven(keys) {
    const all = itemsOf(keys, "keys", PUBLIC_KEY_BYTES);
    return this.#registry("alphorn_bls_registry_proven", (room) => [room.lay(all), all.length / PUBLIC_KEY_BYTES]);
  }

  #registry(name, inputs) {
    return this.#library.during((room) => {
      const handle = this.#library.object(room, name, [this.#context.handle, ...inputs(room)]);
      return new Registry(this.#library, handle, "alphorn_bls_registry_free");
    });
  }

  /** Bytes of a public key and of a signature of a set: `prod`, `test` or `compact`. */
  xmssBytes(set) {
    const number = named(SETS, set, "set");
    const bytes = (of) => this.#library.call(`alphorn_xmss_${of}_bytes`, number) >>> 0;
    return { publicKey: bytes("public_key"), signature: bytes("signature") };
  }

  /**
   * Whether each signature of a one-time key holds; one that does not decode does not. A vote has the `publicKey`, the `index` (the slot,
   * for votes), the `message`, 32 bytes, and the `signature`.
   * @param {string} set `prod`, `test` or `compact`
   * @param {{ publicKey: Uint8Array, index: number, message: Uint8Array, signature: Uint8Array }[]} votes
   * @returns {boolean[]}
   */
  verifyXmss(set, votes) {
    const size = this.xmssBytes(set);
    return this.#library.during((room) => {
      const numbers = votes.flatMap(({ publicKey, index, message, signature }, i) => {
        const laid = (bytes, what, length) => room.lay(bytesOf(bytes, `${what} of vote ${i}`, length));
        return [
          laid(publicKey, "public key", size.publicKey), u32(index, `index of vote ${i}`),
          laid(message, "message", MESSAGE_BYTES), laid(signature, "signature", size.signature),
        ];
      });
      const verdicts = room.take(votes.length);
      const values = [this.#context.handle, SETS[set], room.layNumbers(numbers), votes.length, verdicts];
      this.#library.status(room, "alphorn_xmss_verify", values, [0, CODES.indexOf("invalid")]);
      return Array.from(room.read(verdicts, votes.length), (verdict) => verdict === 0);
    });
  }

  /**
   * The committee of XMSS keys, in the order of their positions, over which proofs are verified.
   * @param {string} set `prod`, `test` or `compact`
   * @param keys public keys
   * @param {{ preset?: string, number?: number }} [options] `preset`: `fast` (by default) or `small`; `number`: which committee of the
   *   epoch it is, 0 by default: a proof for one is none for another
   * @throws {AlphornError} `decode` for a key that does not decode
   */
  members(set, keys, { preset = "fast", number = 0 } = {}) {
    const all = itemsOf(keys, "public keys", this.xmssBytes(set).publicKey);
    return this.#library.during((room) => {
      const count = all.length / this.xmssBytes(set).publicKey;
      const values = [this.#context.handle, SETS[set], named(PRESETS, preset, "preset"), room.lay(all), count, u32(number, "number")];
      return new Members(this.#library, this.#library.object(room, "alphorn_members_new", values), "alphorn_members_free");
    });
  }
}

async function compiled(source) {
  if (source instanceof WebAssembly.Module) return source;
  if (ArrayBuffer.isView(source) || source instanceof ArrayBuffer) return WebAssembly.compile(source);
  const url = new URL(source ?? "alphorn.wasm", import.meta.url);
  if (url.protocol === "file:") return WebAssembly.compile(await (await import("node:fs/promises")).readFile(url));
  const response = await fetch(url);
  if (!response.ok) throw new AlphornError("io", `${url}: ${response.status} ${response.statusText}`);
  return WebAssembly.compile(await response.arrayBuffer());
}

/**
 * Loads the library: `alphorn.wasm` in the folder of this file, or the address, bytes or `WebAssembly.Module` that is given. Each call makes one of
 * its own, with memory of its own; after a fault of the library only a new one goes on.
 * @param {URL | string | BufferSource | WebAssembly.Module} [source]
 * @returns {Promise<Alphorn>}
 */
export async function load(source) {
  return new Alphorn(await Library.start(await compiled(source)));
}
