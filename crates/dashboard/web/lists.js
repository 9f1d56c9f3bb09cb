// Peers with their scores, faults, and what else a trace has: tables that are their own picture.

import { fillTable, make, right, setText, show } from "./dom.js";
import * as format from "./format.js";
import { newestOf } from "./log.js";

const PEERS_SHOWN = 64;
const FAULTS_SHOWN = 64;
/** Scores beyond these fill the whole bar. */
const SCORE_MAX = 100;

/** A score as a bar from the middle, to the left below zero. */
function scoreBar(score) {
  const share = Math.min(Math.abs(score), SCORE_MAX) / SCORE_MAX;
  const inner = make("span", { class: score < 0 ? "score below" : "score" });
  inner.style.width = `${share * 50}%`;
  return make("span", { class: "track", "aria-hidden": "true" }, inner);
}

/** Fills the table of peers: the lowest score first. Whose they are is said where several nodes tell of theirs. */
export function drawPeers({ table, state }) {
  const peers = Object.entries(state.peers).sort(([a, one], [b, other]) => one.score - other.score || (a < b ? -1 : 1));
  const isOfSeveral = peers.some(([, peer]) => peer.n !== peers[0][1].n);
  const whose = (words) => (isOfSeveral ? [words] : []);
  const rows = peers.slice(0, PEERS_SHOWN).map(([, peer]) => [
    ...whose(peer.n), format.short(peer.short), peer.event,
    right(String(peer.score).replace("-", "−")), scoreBar(peer.score), right(format.moment(peer.t)),
  ]);
  fillTable(table, [...whose("Of"), "Peer", "Last event", right("Score"), "", right("At")], rows);
}

/** Fills the list of faults: the newest first. */
export function drawFaults({ table, empty, state }) {
  const faults = newestOf(state.faults, FAULTS_SHOWN);
  show(table, faults.length > 0);
  show(empty, faults.length === 0);
  setText(empty, "No faults.");
  const rows = faults.map((fault) => [right(format.moment(fault.t)), fault.kind, fault.n, { text: fault.detail, className: "detail" }]);
  fillTable(table, [right("At"), "Kind", "Node", "Detail"], rows);
}

/** Fills the table of all records by kind, and of the ends of jobs. */
export function drawRecords({ table, outcomes, state }) {
  const kinds = Object.entries(state.counts).sort(([a], [b]) => (a < b ? -1 : 1));
  fillTable(table, ["Kind of record", right("Count")], kinds.map(([kind, number]) => [kind, right(format.count(number))]));
  const ends = Object.entries(state.outcomes).sort(([a], [b]) => (a < b ? -1 : 1));
  show(outcomes, ends.length > 0);
  fillTable(outcomes, ["End of jobs", right("Count")], ends.map(([end, number]) => [end, right(format.count(number))]));
}
