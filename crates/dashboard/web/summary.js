// The figures of a state, as the page shows them and as tests compare them; and its fingerprint.

import { itemsOf, sizeOf } from "./log.js";

/** The newest slot with cells, else the newest slot, else null. */
export function shownSlot(state, wanted = null) {
  if (wanted !== null) return state.slots.find((one) => one.slot === wanted) ?? null;
  return state.slots.findLast((one) => one.cells !== null) ?? state.slots.at(-1) ?? null;
}

/** Mean percentages of a slot, or null before anything is known of its cells. */
export function coverage(slot) {
  if (slot === null || sizeOf(slot.points) === 0) return null;
  const items = slot.points.tail.length > 0 ? slot.points.tail : slot.points.chunks.at(-1);
  const { seen, aggregated, collected } = items.at(-1);
  return { seen, aggregated, collected };
}

/** The value below which so much of a sorted list lies (nearest rank). */
export function quantile(sorted, share) {
  if (sorted.length === 0) return null;
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

/** Figures of one broadcast; times in milliseconds from its first byte anywhere. */
export function broadcastFigures(one) {
  const from = one.from ?? 0;
  const delivered = itemsOf(one.delivered).map((ns) => (ns - from) / 1e6).sort((a, b) => a - b);
  return {
    receivers: one.receivers,
    delivered: delivered.length + one.delivered.dropped,
    p50: quantile(delivered, 0.5),
    p95: quantile(delivered, 0.95),
    max: delivered.at(-1) ?? null,
    bytesMean: one.receivers === 0 ? 0 : one.bytes / one.receivers,
    dependent: one.dependent,
    invalid: one.invalid,
    times: delivered,
  };
}

/** All figures that the page shows as numbers, in plain JSON. */
export function summary(state) {
  const slot = shownSlot(state);
  const topics = Object.entries(state.topics).map(([kind, sum]) => [kind, { ...sum }]);
  return {
    records: state.records,
    dropped: state.dropped,
    nodes: state.nodes.size,
    slots: state.counts.slot ?? 0,
    slot: state.slots.at(-1)?.slot ?? null,
    coverage: coverage(slot),
    finality: { ...state.finality },
    totals: { ...state.totals },
    outcomes: { ...state.outcomes },
    bytes: Object.fromEntries(topics.sort(([a], [b]) => (a < b ? -1 : 1))),
    peers: Object.keys(state.peers).length,
    broadcasts: state.broadcasts.map((one) => {
      const { times: _, ...figures } = broadcastFigures(one);
      return { id: one.id, ...figures };
    }),
  };
}

/**
 * A short name of a state: two states of one name show the same page. FNV-1a over its JSON with
 * sorted keys; lists of records are written as lists, however they are kept.
 */
export function fingerprint(state) {
  let hash = 0x811c9dc5;
  const add = (text) => {
    for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  };
  const walk = (value) => {
    if (value === null || typeof value !== "object") add(JSON.stringify(value) ?? "none");
    else if (value instanceof Uint8Array) add(`bytes ${value.join()}`);
    else if (Array.isArray(value)) for (let i = 0; i < value.length; i += 1) { walk(value[i]); add(","); }
    else if (Object.hasOwn(value, "chunksMax")) walk(itemsOf(value));
    else for (const key of Object.keys(value).sort()) { add(`${key}:`); walk(value[key]); add(";"); }
  };
  walk(state);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
