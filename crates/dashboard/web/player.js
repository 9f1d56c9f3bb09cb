// A recorded trace and a place in it.
//
// States are kept every so many records, so that a jump reduces few records. They share what they
// have in common, which is almost all of them.

import { INITIAL, reduce } from "./reducer.js";

/** Records between two kept states. */
export const STRIDE = 1024;

/** A trace that can be looked at from any of its records on. */
export class Player {
  #records;
  #states = [INITIAL];
  #index = 0;
  #state = INITIAL;

  /** A trace at its end. */
  constructor(records) {
    this.#records = records;
    this.seek(records.length);
  }

  /** Number of records. */
  get length() {
    return this.#records.length;
  }

  /** How many records are behind. */
  get index() {
    return this.#index;
  }

  /** The state after the records that are behind. */
  get state() {
    return this.#state;
  }

  /** First and last instant, in nanoseconds from genesis. */
  get span() {
    const end = this.#timeAt(this.length - 1);
    return { from: this.#timeAt(0), to: end };
  }

  /** The instant of the place, in nanoseconds from genesis. */
  get time() {
    return this.#index === 0 ? this.span.from : this.#timeAt(this.#index - 1);
  }

  #timeAt(index) {
    return this.#records.at(index)?.t ?? 0;
  }

  /** Goes to a number of records, within the trace. */
  seek(index) {
    const wanted = Math.max(0, Math.min(index, this.length));
    const stride = Math.min(Math.floor(wanted / STRIDE), this.#states.length - 1);
    if (wanted < this.#index || stride * STRIDE > this.#index) {
      this.#index = stride * STRIDE;
      this.#state = this.#states[stride];
    }
    while (this.#index < wanted) {
      this.#state = reduce(this.#state, this.#records[this.#index]);
      this.#index += 1;
      if (this.#index === this.#states.length * STRIDE) this.#states.push(this.#state);
    }
    return this.#state;
  }

  /** Goes to an instant: all records up to it are behind. Records are in the order of time. */
  seekTime(ns) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#records[middle].t <= ns) low = middle + 1;
      else high = middle;
    }
    return this.seek(low);
  }
}

/** Records in the order of time; equal times keep theirs. Most traces are in order already. */
export function ordered(records) {
  const isSorted = records.every((record, i) => i === 0 || records[i - 1].t <= record.t);
  return isSorted ? records : [...records].sort((a, b) => a.t - b.t);
}
