// Lines of a trace: what `alphorn_types::trace` writes, with the same bounds.
//
// A record is `{t, n, k, ...fields of the kind}`; unknown fields are ignored, unknown kinds are
// errors. Numbers above 2^53 lose their last digits here; times do so 104 days after genesis.

/** Most bytes of a line, its line end included. */
export const LINE_BYTES_MAX = 64 * 1024;
/** Most bytes of a trace that is read whole. */
export const TRACE_BYTES_MAX = 2 ** 30;
/** Most records of a trace that is read whole. */
export const RECORDS_MAX = 2_000_000;

const CELLS_PER_LINE_MAX = 8192;
const CELLS_MAX = 65536;
const COMMITTEES_MAX = 512;
const SUBCOMMITTEES_MAX = 256;
const PHASES_MAX = 16;

/** A line that is not a record; `line` is its number where there is one. */
export class TraceError extends Error {
  constructor(message, line = null) {
    super(line === null ? message : `line ${line}: ${message}`);
    this.name = "TraceError";
    this.line = line;
  }
}

function whole(min, max) {
  return (value) => {
    if (!Number.isInteger(value) || value < min || value > max) {
      throw new TraceError(`${JSON.stringify(value)} is no whole number from ${min} to ${max}`);
    }
    return value;
  };
}

const u8 = whole(0, 2 ** 8 - 1);
const u16 = whole(0, 2 ** 16 - 1);
const u32 = whole(0, 2 ** 32 - 1);
const u64 = whole(0, 2 ** 64);
const i64 = whole(-(2 ** 63), 2 ** 63);

function text(value) {
  if (typeof value !== "string") throw new TraceError(`${JSON.stringify(value)} is no text`);
  return value;
}

function flag(value) {
  if (typeof value !== "boolean") throw new TraceError(`${JSON.stringify(value)} is not true or false`);
  return value;
}

function optional(read) {
  return (value) => (value === null || value === undefined ? null : read(value));
}

function list(read) {
  return (value) => {
    if (!Array.isArray(value)) throw new TraceError(`${JSON.stringify(value)} is no list`);
    return value.map(read);
  };
}

/** Percentages of cells, as bytes. */
function percents(value) {
  let bytes;
  try {
    const letters = atob(text(value));
    bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
  } catch {
    throw new TraceError("percentages are not base64");
  }
  if (bytes.length > CELLS_PER_LINE_MAX) throw new TraceError(`${bytes.length} cells in a line`);
  const wrong = bytes.find((percent) => percent > 100);
  if (wrong !== undefined) throw new TraceError(`a cell of ${wrong} percent`);
  return bytes;
}

/** Fields of each kind and how they are read. */
const FIELDS = {
  genesis: { scheme: text, validators: u32, committees: u16, subs: u16, slot_ms: u64, offsets_ms: list(u64) },
  slot: { slot: u64, proposer: u32, root: text },
  phase: { slot: u64, phase: text, lag_us: u64 },
  cells: { slot: u64, from: u32, seen: percents, aggregated: percents, collected: percents },
  aggregate: { slot: u64, c: u16, s: u16, votes: u32, ms: u64, late: flag },
  collection: { slot: u64, c: u16, votes: u32, bytes: u64 },
  job: {
    id: u64, kind: text, inputs: u32, t_submit: i64, t_start: i64, t_end: i64,
    predicted_ms: u64, outcome: text, lane: u16,
  },
  session: { id: u64, open: i64, soft: i64, hard: i64 },
  bytes: { topic_kind: text, in: u64, out: u64 },
  peer: { short: text, event: text, score: i64 },
  finality: { head: u64, justified: u64, finalised: u64, two_thirds_ms: optional(u64), two_thirds_slot: optional(u64) },
  fault: { kind: text, detail: text },
  input: { event: u64, what: text, from: optional(u32), kind: text, bytes: u64 },
  output: { event: u64, what: text, to: list(u32), kind: text, amount: u64 },
  broadcast: {
    id: text, kind: u8, slot: u64, header_ns: optional(i64), first_ns: optional(i64),
    done_ns: optional(i64), deliver_ns: optional(i64), bytes: u64, dependent: u32, invalid: u32,
  },
};

/** The same as lists of pairs: they are walked for each record. */
const KINDS = new Map(Object.entries(FIELDS).map(([kind, fields]) => [kind, Object.entries(fields)]));

function must(holds, message) {
  if (!holds) throw new TraceError(message);
}

/** What must hold between fields. */
const CHECKS = {
  genesis(r) {
    must(r.committees <= COMMITTEES_MAX, `${r.committees} committees`);
    must(r.subs <= SUBCOMMITTEES_MAX, `${r.subs} subcommittees`);
    must(r.committees * r.subs <= CELLS_MAX, `${r.committees * r.subs} cells`);
    must(r.offsets_ms.length <= PHASES_MAX, `${r.offsets_ms.length} phases`);
    const ascends = r.offsets_ms.every((ms, i) => ms <= r.slot_ms && (i === 0 || r.offsets_ms[i - 1] <= ms));
    must(ascends, "offsets_ms do not ascend within the slot");
  },
  cells(r) {
    const cells = r.seen.length;
    must(r.aggregated.length === cells && r.collected.length === cells, "cells of different lengths");
    must(r.from + cells <= CELLS_MAX, `cells up to ${r.from + cells}`);
  },
  aggregate(r) {
    must(r.c < COMMITTEES_MAX && r.s < SUBCOMMITTEES_MAX, `cell ${r.c}/${r.s}`);
  },
  collection(r) {
    must(r.c < COMMITTEES_MAX, `committee ${r.c}`);
  },
  job(r) {
    must(r.t_submit <= r.t_start && r.t_start <= r.t_end, "a job that ends before it starts");
  },
  session(r) {
    must(r.open <= r.soft && r.soft <= r.hard, "a session that closes before it opens");
  },
};

/** The record of a value that was read from JSON. */
function read(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new TraceError("no object");
  const fields = KINDS.get(value.k);
  if (fields === undefined) throw new TraceError(`unknown kind ${JSON.stringify(value.k)}`);
  const record = { t: i64(value.t), n: text(value.n), k: value.k };
  for (const [field, readField] of fields) {
    try {
      record[field] = readField(value[field]);
    } catch (error) {
      throw new TraceError(`${value.k}.${field}: ${error.message}`);
    }
  }
  CHECKS[value.k]?.(record);
  return record;
}

/** The record of a line. */
export function parseLine(line) {
  // A character has at most three bytes for each of its UTF-16 units; count only where it matters.
  if (line.length * 3 > LINE_BYTES_MAX && new TextEncoder().encode(line).length >= LINE_BYTES_MAX) {
    throw new TraceError(`more than ${LINE_BYTES_MAX} bytes`);
  }
  let value;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new TraceError(error.message);
  }
  return read(value);
}

/** Reads text in pieces and gives the records of its whole lines; errors name the line. */
export class LineReader {
  #rest = "";
  #line = 0;
  #records = 0;

  /** The records of the lines that end in this piece. */
  push(piece) {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop();
    if (this.#rest.length > LINE_BYTES_MAX) {
      throw new TraceError(`more than ${LINE_BYTES_MAX} bytes`, this.#line + 1);
    }
    return this.#parse(lines);
  }

  /** The record of a last line without an end. */
  finish() {
    const rest = this.#rest;
    this.#rest = "";
    return this.#parse([rest]);
  }

  #parse(lines) {
    const records = [];
    for (const line of lines) {
      this.#line += 1;
      if (line.trim() === "") continue;
      try {
        records.push(parseLine(line));
      } catch (error) {
        throw new TraceError(error.message, this.#line);
      }
    }
    this.#records += records.length;
    if (this.#records > RECORDS_MAX) throw new TraceError(`more than ${RECORDS_MAX} records`, this.#line);
    return records;
  }
}

/** All records of a stream of bytes. */
export async function readStream(stream) {
  const reader = new LineReader();
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const source = stream.getReader();
  const records = [];
  let bytes = 0;
  const take = (piece) => {
    for (const record of piece) records.push(record);
  };
  for (;;) {
    const { done, value } = await source.read();
    if (done) break;
    bytes += value.length;
    if (bytes > TRACE_BYTES_MAX) throw new TraceError(`more than ${TRACE_BYTES_MAX} bytes`);
    take(reader.push(decoder.decode(value, { stream: true })));
  }
  take(reader.push(decoder.decode()));
  take(reader.finish());
  return records;
}
