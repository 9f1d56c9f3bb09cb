// The state of the page: a pure function of the records, the same for live and for replay.
//
// `reduce(state, record)` gives the next state and leaves the old one as it was; parts that do not
// change are shared. Everything that grows is bounded. The state knows no clock but that of the
// trace, so that a replay gives what the live page showed.

import { append, emptyLog, emptySet, has, insert, replaced } from "./log.js";

/** Slots that are kept; older ones are forgotten. */
export const SLOTS_KEPT = 64;
/** Jobs and sessions that are kept: all that a simulated slot tells of. */
export const JOBS_KEPT = 16384;
export const SESSIONS_KEPT = 256;
/** Faults that are kept, and aggregates of one cell. */
export const FAULTS_KEPT = 512;
export const AGGREGATES_OF_CELL_KEPT = 8;
/** Names that are kept apart: topics, outcomes of jobs, peers, nodes. */
export const NAMES_KEPT = 64;
export const PEERS_KEPT = 256;
export const NODES_KEPT = 16384;
/** Broadcasts that are kept, and receivers of one of them. */
export const BROADCASTS_KEPT = 16;
export const RECEIVERS_KEPT = 16384;
/** Points of a slot's curves, and seconds of traffic. */
export const POINTS_KEPT = 512;
export const SECONDS_KEPT = 120;

/** Kinds that may be told of the whole network, under a name that is no node's. */
const OF_ALL = new Set(["genesis", "fault", "slot", "cells", "finality"]);

/** Under this name goes what is beyond a bound on names. */
export const OTHERS = "(others)";

/** The state before the first record. */
export const INITIAL = Object.freeze({
  records: 0,
  dropped: 0,
  first: null,
  t: null,
  genesis: null,
  node: null,
  nodes: emptySet(),
  counts: {},
  totals: {
    aggregates: 0, aggregatesLate: 0, aggregateVotes: 0, aggregateMs: 0,
    collections: 0, collectionVotes: 0, collectionBytes: 0,
    jobs: 0, jobsOver: 0, jobInputs: 0, jobRunNs: 0, jobWaitNs: 0,
    bytesIn: 0, bytesOut: 0, faults: 0, lagMaxUs: 0,
  },
  slots: [],
  jobs: emptyLog(JOBS_KEPT),
  outcomes: {},
  sessions: emptyLog(SESSIONS_KEPT),
  topics: {},
  seconds: [],
  peers: {},
  finality: { head: null, justified: null, finalised: null, twoThirdsMs: null },
  faults: emptyLog(FAULTS_KEPT),
  broadcasts: [],
});

/** The state after a record. */
export function reduce(state, record) {
  const next = { ...state };
  next.records = state.records + 1;
  next.t = state.t === null ? record.t : Math.max(state.t, record.t);
  next.first = state.first === null ? record.t : Math.min(state.first, record.t);
  next.counts = { ...state.counts, [record.k]: (state.counts[record.k] ?? 0) + 1 };
  if (!OF_ALL.has(record.k) && state.nodes.size < NODES_KEPT && !has(state.nodes, record.n)) {
    next.nodes = insert(state.nodes, record.n);
  }
  REDUCERS[record.k](next, record);
  return next;
}

/** The state after lines were lost between the last record and the next. */
export function lose(state, dropped) {
  return { ...state, dropped: state.dropped + dropped };
}

/** Each gets a fresh copy of the state whose parts it replaces and never changes. */
const REDUCERS = {
  genesis(next, r) {
    const { scheme, validators, committees, subs, slot_ms: slotMs, offsets_ms: offsetsMs } = r;
    next.node = r.n;
    next.genesis = { scheme, validators, committees, subs, slotMs, offsetsMs };
  },

  slot(next, r) {
    withSlot(next, r, (slot) => ({ ...slot, t: r.t, proposer: r.proposer, root: r.root || slot.root }));
  },

  phase(next, r) {
    withSlot(next, r, (slot) => {
      const old = own(slot.phases, r.phase);
      const worse = old === undefined || r.lag_us > old.lagUs;
      const phase = worse ? { t: r.t, lagUs: r.lag_us, node: r.n } : old;
      return bounded(slot.phases, r.phase, 16)
        ? { ...slot, phases: { ...slot.phases, [r.phase]: phase } }
        : slot;
    });
    total(next, { lagMaxUs: Math.max(next.totals.lagMaxUs, r.lag_us) });
  },

  cells(next, r) {
    withSlot(next, r, (slot) => {
      const cells = {
        seen: overlay(slot.cells?.seen, r.from, r.seen),
        aggregated: overlay(slot.cells?.aggregated, r.from, r.aggregated),
        collected: overlay(slot.cells?.collected, r.from, r.collected),
      };
      const count = cellCount(next, cells);
      const point = { t: r.t, seen: mean(cells.seen, count), aggregated: mean(cells.aggregated, count), collected: mean(cells.collected, count) };
      return { ...slot, cells, points: append(slot.points, point) };
    });
  },

  aggregate(next, r) {
    withSlot(next, r, (slot) => {
      const row = slot.aggregates[r.c] ?? [];
      const old = row[r.s] ?? { count: 0, late: 0, votes: 0, newest: [] };
      const one = { n: r.n, t: r.t, votes: r.votes, ms: r.ms, late: r.late };
      const cell = {
        count: old.count + 1,
        late: old.late + (r.late ? 1 : 0),
        votes: Math.max(old.votes, r.votes),
        newest: [one, ...old.newest].slice(0, AGGREGATES_OF_CELL_KEPT),
      };
      return {
        ...slot,
        aggregates: replaced(slot.aggregates, r.c, replaced(row, r.s, cell)),
        aggregateCount: slot.aggregateCount + 1,
        aggregateLate: slot.aggregateLate + (r.late ? 1 : 0),
      };
    });
    const { aggregates, aggregatesLate, aggregateVotes, aggregateMs } = next.totals;
    total(next, {
      aggregates: aggregates + 1,
      aggregatesLate: aggregatesLate + (r.late ? 1 : 0),
      aggregateVotes: aggregateVotes + r.votes,
      aggregateMs: aggregateMs + r.ms,
    });
  },

  collection(next, r) {
    withSlot(next, r, (slot) => {
      const old = slot.collections[r.c] ?? { count: 0, votes: 0, bytes: 0, t: r.t };
      const collection = {
        count: old.count + 1,
        votes: Math.max(old.votes, r.votes),
        bytes: old.bytes + r.bytes,
        t: old.t,
      };
      return {
        ...slot,
        collections: replaced(slot.collections, r.c, collection),
        collectionCount: slot.collectionCount + 1,
      };
    });
    const { collections, collectionVotes, collectionBytes } = next.totals;
    total(next, {
      collections: collections + 1,
      collectionVotes: collectionVotes + r.votes,
      collectionBytes: collectionBytes + r.bytes,
    });
  },

  job(next, r) {
    const over = isOver(r);
    const { id, kind, inputs, outcome, lane, n } = r;
    const job = {
      n, id, kind, inputs, outcome, lane, over,
      submit: r.t_submit, start: r.t_start, end: r.t_end, predicted: r.t_start + r.predicted_ms * 1e6,
    };
    next.jobs = append(next.jobs, job);
    next.outcomes = counted(next.outcomes, outcome);
    const { jobs, jobsOver, jobInputs, jobRunNs, jobWaitNs } = next.totals;
    total(next, {
      jobs: jobs + 1,
      jobsOver: jobsOver + (over ? 1 : 0),
      jobInputs: jobInputs + inputs,
      jobRunNs: jobRunNs + (r.t_end - r.t_start),
      jobWaitNs: jobWaitNs + (r.t_start - r.t_submit),
    });
  },

  session(next, r) {
    next.sessions = append(next.sessions, { n: r.n, id: r.id, open: r.open, soft: r.soft, hard: r.hard });
  },

  bytes(next, r) {
    const name = bounded(next.topics, r.topic_kind, NAMES_KEPT) ? r.topic_kind : OTHERS;
    const old = own(next.topics, name) ?? { in: 0, out: 0 };
    next.topics = { ...next.topics, [name]: { in: old.in + r.in, out: old.out + r.out } };
    next.seconds = secondsWith(next.seconds, Math.floor(r.t / 1e9), name, r);
    const { bytesIn, bytesOut } = next.totals;
    total(next, { bytesIn: bytesIn + r.in, bytesOut: bytesOut + r.out });
  },

  peer(next, r) {
    // A peer that is told of again moves to the end: the front is who was silent longest.
    // Two nodes may be connected to one.
    const name = `${r.n}\u0000${r.short}`;
    const { [name]: _, ...others } = next.peers;
    const [oldest, ...newer] = Object.entries(others);
    const kept = oldest !== undefined && newer.length + 1 >= PEERS_KEPT ? Object.fromEntries(newer) : others;
    next.peers = { ...kept, [name]: { n: r.n, short: r.short, t: r.t, event: r.event, score: r.score } };
  },

  finality(next, r) {
    const old = next.finality;
    next.finality = {
      head: Math.max(old.head ?? 0, r.head),
      justified: Math.max(old.justified ?? 0, r.justified),
      finalised: Math.max(old.finalised ?? 0, r.finalised),
      twoThirdsMs: r.two_thirds_ms ?? old.twoThirdsMs,
    };
    withSlot(next, { slot: r.head }, (slot) => ({ ...slot, isHead: true }));
    if (r.two_thirds_ms === null) return;
    // They vote before the slot has a block that could be the head.
    withSlot(next, { slot: r.two_thirds_slot ?? r.head }, (slot) => ({ ...slot, twoThirdsMs: r.two_thirds_ms }));
  },

  fault(next, r) {
    next.faults = append(next.faults, { n: r.n, t: r.t, kind: r.kind, detail: r.detail });
    total(next, { faults: next.totals.faults + 1 });
  },

  // What single nodes of a simulation were told and did: counted by kind, not drawn.
  input() {},
  output() {},

  broadcast(next, r) {
    const at = next.broadcasts.findIndex((one) => one.id === r.id);
    const old = at < 0 ? newBroadcast(r) : next.broadcasts[at];
    const from = [old.from, r.header_ns, r.first_ns].filter((ns) => ns !== null);
    const one = {
      ...old,
      receivers: old.receivers + 1,
      bytes: old.bytes + r.bytes,
      dependent: old.dependent + r.dependent,
      invalid: old.invalid + r.invalid,
      from: from.length === 0 ? null : Math.min(...from),
      delivered: r.deliver_ns === null ? old.delivered : append(old.delivered, r.deliver_ns),
    };
    next.broadcasts = at < 0
      ? [...next.broadcasts, one].slice(-BROADCASTS_KEPT)
      : replaced(next.broadcasts, at, one);
  },
};

/** Whether a job took longer than was predicted. */
export function isOver(r) {
  return r.t_end - r.t_start > r.predicted_ms * 1e6;
}

function newBroadcast({ id, kind, slot }) {
  return {
    id, kind, slot, receivers: 0, bytes: 0, dependent: 0, invalid: 0, from: null,
    delivered: emptyLog(RECEIVERS_KEPT),
  };
}

function total(next, changed) {
  next.totals = { ...next.totals, ...changed };
}

/** What a table has under a name that comes from outside, and may be that of a method. */
function own(table, name) {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** Whether a name may be added to a table of at most so many. */
function bounded(table, name, namesMax) {
  return Object.hasOwn(table, name) || Object.keys(table).length < namesMax;
}

function counted(table, name) {
  const key = bounded(table, name, NAMES_KEPT) ? name : OTHERS;
  return { ...table, [key]: (own(table, key) ?? 0) + 1 };
}

/** A table of percentages with some of them replaced, never lower than before: nodes see differently much. */
function overlay(old, from, part) {
  const length = Math.max(old?.length ?? 0, from + part.length);
  const cells = new Uint8Array(length);
  if (old) cells.set(old);
  for (let i = 0; i < part.length; i += 1) cells[from + i] = Math.max(cells[from + i], part[i]);
  return cells;
}

function cellCount(state, cells) {
  const { committees = 0, subs = 0 } = state.genesis ?? {};
  return committees * subs || cells.seen.length;
}

/** Mean percentage; cells that nobody told of have none. */
function mean(cells, count) {
  let sum = 0;
  for (const percent of cells) sum += percent;
  return count === 0 ? 0 : sum / count;
}

function newSlot(slot) {
  return {
    slot, t: null, proposer: null, root: "", isHead: false, twoThirdsMs: null,
    phases: {}, cells: null, points: emptyLog(POINTS_KEPT),
    aggregates: [], aggregateCount: 0, aggregateLate: 0, collections: [], collectionCount: 0,
  };
}

/** Replaces the entry of a slot; slots that are older than all that are kept are passed over. */
function withSlot(next, { slot }, change) {
  const { slots } = next;
  let at = slots.length;
  while (at > 0 && slots[at - 1].slot > slot) at -= 1;
  if (at > 0 && slots[at - 1].slot === slot) {
    next.slots = replaced(slots, at - 1, change(slots[at - 1]));
  } else if (at > 0 || slots.length < SLOTS_KEPT) {
    next.slots = [...slots.slice(0, at), change(newSlot(slot)), ...slots.slice(at)].slice(-SLOTS_KEPT);
  }
}

/** Traffic by second and topic; late lines go to their own second while it is kept. */
function secondsWith(seconds, second, name, r) {
  const at = seconds.findIndex((one) => one.second === second);
  const old = at < 0 ? { second, topics: {} } : seconds[at];
  const sum = own(old.topics, name) ?? { in: 0, out: 0 };
  const one = { second, topics: { ...old.topics, [name]: { in: sum.in + r.in, out: sum.out + r.out } } };
  if (at >= 0) return replaced(seconds, at, one);
  return [...seconds, one].sort((a, b) => a.second - b.second).slice(-SECONDS_KEPT);
}
