// A live trace: server-sent events read by hand.
//
// `EventSource` hides the status of an answer and the comments of a stream, and gives up for good
// on some errors; a node that restarts must be found again. Grammar: WHATWG HTML, section 9.2.

import { parseLine } from "./trace.js";

/** Longest pause between two tries, in milliseconds. */
const RETRY_MAX_MS = 2000;
/** Silence after which a connection is given up: the server sends something every 15 s. */
const SILENCE_MAX_MS = 40_000;
/** Most characters that wait for their line to end. */
const LINE_CHARS_MAX = 128 * 1024;

/** Takes text in pieces and gives whole events `{event, id, data}`. */
export class EventParser {
  #rest = "";
  #event = { event: "message", data: null };
  /** The last id that came, for when the connection is lost. */
  lastId = null;
  /** Milliseconds to wait before the next connection, if the server said so. */
  retryMs = null;

  /** The events that end in this piece. */
  push(piece) {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop();
    if (this.#rest.length > LINE_CHARS_MAX) throw new Error(`a line of more than ${LINE_CHARS_MAX} characters`);
    const events = [];
    for (const line of lines) {
      if (line !== "") this.#field(line);
      else if (this.#event.data !== null) {
        events.push({ ...this.#event, id: this.lastId });
        this.#event = { event: "message", data: null };
      }
    }
    return events;
  }

  #field(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#event.event = value;
    else if (name === "data") this.#event.data = this.#event.data === null ? value : `${this.#event.data}\n${value}`;
    else if (name === "id") this.lastId = value;
    else if (name === "retry" && /^\d{1,6}$/.test(value)) this.retryMs = Number(value);
  }
}

/**
 * Follows a live trace for as long as the page lives. `handler` has `snapshot()` before a state
 * that replaces all that was, `records(list)`, `gap(dropped)`, and `status(isConnected, why)`.
 */
export async function follow(url, first, handler) {
  const parser = { current: new EventParser() };
  let response = first;
  let failures = 0;
  for (;;) {
    try {
      response ??= await connect(url, parser.current.lastId);
      handler.status(true, null);
      failures = 0;
      await drain(response, parser, handler);
      handler.status(false, "the stream ended");
    } catch (error) {
      handler.status(false, error.message);
    }
    response = null;
    const pause = Math.min((parser.current.retryMs ?? 500) * 2 ** failures, RETRY_MAX_MS);
    failures += 1;
    await new Promise((resolve) => { setTimeout(resolve, pause); });
  }
}

async function connect(url, lastId) {
  const headers = { accept: "text/event-stream" };
  if (lastId !== null) headers["last-event-id"] = lastId;
  const response = await fetch(url, { headers, cache: "no-store" });
  if (response.status !== 200) throw new Error(`the server answers ${response.status}`);
  return response;
}

/** Reads a connection to its end. A cut event is forgotten, the last id is kept. */
async function drain(response, parser, handler) {
  const fresh = new EventParser();
  fresh.lastId = parser.current.lastId;
  fresh.retryMs = parser.current.retryMs;
  parser.current = fresh;
  const decoder = new TextDecoder();
  const source = response.body.getReader();
  for (;;) {
    const { done, value } = await within(SILENCE_MAX_MS, source);
    if (done) return;
    dispatch(fresh.push(decoder.decode(value, { stream: true })), handler);
  }
}

/** The next piece, or an error after so much silence. */
async function within(ms, source) {
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing for ${ms / 1000} s`)), ms);
  });
  try {
    return await Promise.race([source.read(), silence]);
  } catch (error) {
    source.cancel().catch(() => {});
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** The record of an event, or null: a newer server may know kinds that this page does not. */
function readable(data) {
  try {
    return parseLine(data);
  } catch {
    return null;
  }
}

/** Gives events to the handler, records in lists; what cannot be read counts as lost. */
export function dispatch(events, handler) {
  let records = [];
  const flush = () => {
    if (records.length > 0) handler.records(records);
    records = [];
  };
  for (const { event, data } of events) {
    if (event === "snapshot") {
      records = [];
      handler.snapshot();
    } else if (event === "gap") {
      flush();
      handler.gap(Number(JSON.parse(data).dropped) || 0);
    } else {
      const record = readable(data);
      if (record !== null) {
        records.push(record);
      } else {
        flush();
        handler.gap(1);
      }
    }
  }
  flush();
}
