// The last 64 slots: which have a head, are justified, are finalised.

import { fillTable, make, right, setText } from "./dom.js";
import * as format from "./format.js";
import { coverage } from "./summary.js";

/** Slots of the strip. */
export const STRIP_SLOTS = 64;

/** What a slot is: each word says more than the one before. */
export function rankOf(state, entry, slot) {
  const { justified, finalised } = state.finality;
  // Who should propose is known from the start of a slot on, whether a block comes or not.
  if (entry === null || (entry.root === "" && !entry.isHead)) return "empty";
  if (finalised !== null && slot <= finalised) return "finalised";
  if (justified !== null && slot <= justified) return "justified";
  return entry.isHead ? "head" : "proposed";
}

/** The strip: buttons that choose a slot. Arrow keys move, one button is in the order of tabs. */
export class FinalityStrip {
  #list;
  #table;
  #buttons = [];
  #slots = [];
  #choose;

  constructor({ list, table, choose }) {
    this.#list = list;
    this.#table = table;
    this.#choose = choose;
    for (let i = 0; i < STRIP_SLOTS; i += 1) {
      const button = make("button", { type: "button", tabindex: "-1" });
      button.addEventListener("click", () => this.#choose(this.#slots[i]));
      this.#buttons.push(button);
      list.append(make("li", {}, button));
    }
    list.addEventListener("keydown", (event) => this.#key(event));
  }

  #key(event) {
    const at = this.#buttons.indexOf(event.target);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: STRIP_SLOTS - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    this.#buttons[Math.max(0, Math.min(to, STRIP_SLOTS - 1))].focus();
  }

  /** Draws the strip with one slot chosen. */
  draw(state, chosen, isTableOpen) {
    const newest = Math.max(state.slots.at(-1)?.slot ?? 0, state.finality.head ?? 0);
    const from = Math.max(0, newest - STRIP_SLOTS + 1);
    const entries = new Map(state.slots.map((one) => [one.slot, one]));
    this.#slots = this.#buttons.map((_, i) => from + i);
    const focusable = this.#slots.includes(chosen) ? chosen : Math.max(from, newest);
    this.#buttons.forEach((button, i) => {
      const slot = from + i;
      const entry = entries.get(slot) ?? null;
      const isFuture = slot > newest || state.slots.length === 0;
      const rank = isFuture ? "future" : rankOf(state, entry, slot);
      const label = isFuture ? "" : `slot ${slot}: ${rank}`;
      if (button.className !== rank) button.className = rank;
      if (button.title !== label) {
        button.title = label;
        button.setAttribute("aria-label", label || "no slot yet");
      }
      button.setAttribute("aria-pressed", String(slot === chosen));
      button.tabIndex = slot === focusable ? 0 : -1;
      button.disabled = isFuture;
      setText(button, slot % 8 === 0 && !isFuture ? String(slot) : "");
    });
    if (isTableOpen) this.#fill(state);
  }

  #fill(state) {
    const rows = [...state.slots].reverse().map((entry) => {
      const votes = coverage(entry);
      return [
        right(format.count(entry.slot)), rankOf(state, entry, entry.slot), right(format.count(entry.proposer)),
        format.short(entry.root), right(format.percent(votes?.collected ?? null)), right(format.milliseconds(entry.twoThirdsMs)),
        right(format.count(entry.aggregateCount)), right(format.count(entry.aggregateLate)), right(format.count(entry.collectionCount)),
      ];
    });
    const names = ["Collected", "To two thirds", "Aggregates", "Late", "Collections"];
    fillTable(this.#table, [right("Slot"), "State", right("Proposer"), "Root", ...names.map(right)], rows);
  }
}
