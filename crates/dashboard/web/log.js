// Lists that only grow at their end, keep the newest items, and share what they have in common.
//
// Appending copies at most one chunk and the list of chunks, so that a state that somebody still
// holds does not change, and a hundred states of a replay cost little more than one.

const CHUNK_ITEMS = 64;

/** The list without items. `itemsMax` is rounded up to whole chunks. */
export function emptyLog(itemsMax) {
  return { chunks: [], tail: [], chunksMax: Math.ceil(itemsMax / CHUNK_ITEMS), dropped: 0 };
}

/** The list with one item more; the oldest chunk goes when there are too many. */
export function append(log, item) {
  const tail = [...log.tail, item];
  if (tail.length < CHUNK_ITEMS) return { ...log, tail };
  const chunks = [...log.chunks, tail];
  const over = chunks.length > log.chunksMax;
  if (over) chunks.shift();
  return { ...log, chunks, tail: [], dropped: log.dropped + (over ? CHUNK_ITEMS : 0) };
}

/** How many items are kept. */
export function sizeOf(log) {
  return log.chunks.length * CHUNK_ITEMS + log.tail.length;
}

/** All items, the oldest first. */
export function itemsOf(log) {
  return log.chunks.flat().concat(log.tail);
}

/** The newest items, the newest first. */
export function newestOf(log, count) {
  const items = [];
  for (let i = log.chunks.length; i >= 0 && items.length < count; i -= 1) {
    const chunk = i === log.chunks.length ? log.tail : log.chunks[i];
    for (let j = chunk.length - 1; j >= 0 && items.length < count; j -= 1) items.push(chunk[j]);
  }
  return items;
}

/** An array with one item replaced, or added with nothing in front of it. */
export function replaced(array, at, item) {
  const copy = array.slice();
  copy[at] = item;
  return copy;
}

const BUCKETS = 256;

/** The set without names. */
export function emptySet() {
  return { buckets: new Array(BUCKETS).fill([]), size: 0 };
}

function bucketOf(name) {
  let hash = 0;
  for (let i = 0; i < name.length; i += 1) hash = (Math.imul(hash, 31) + name.charCodeAt(i)) | 0;
  return hash & (BUCKETS - 1);
}

/** Whether a name is in a set. */
export function has(set, name) {
  return set.buckets[bucketOf(name)].includes(name);
}

/** The set with a name that it did not have; the old set stays as it was. */
export function insert(set, name) {
  const at = bucketOf(name);
  return { buckets: replaced(set.buckets, at, [...set.buckets[at], name]), size: set.size + 1 };
}
