// Numbers as people read them. Units are always shown.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const NO_VALUE = "–";

/** A whole number with separators. */
export function count(value) {
  return value === null || value === undefined ? NO_VALUE : WHOLE.format(value);
}

/** A percentage; 100 only if it is all. */
export function percent(value) {
  if (value === null || value === undefined) return NO_VALUE;
  const rounded = value > 0 && value < 100 ? Math.min(99.9, Math.max(0.1, value)).toFixed(1) : value.toFixed(0);
  return `${rounded} %`;
}

/** A number with three digits and its unit, from a ladder of units. */
function scaled(value, base, units) {
  let at = 0;
  let size = Math.abs(value);
  while (size >= base && at < units.length - 1) {
    size /= base;
    at += 1;
  }
  const digits = at === 0 && Number.isInteger(value) ? 0 : size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)} ${units[at]}`;
}

/** Bytes in powers of 1024. */
export function bytes(value) {
  return value === null ? NO_VALUE : scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

/** A duration in milliseconds. */
export function milliseconds(value) {
  if (value === null || value === undefined) return NO_VALUE;
  if (Math.abs(value) >= 10_000) return `${(value / 1000).toFixed(2)} s`;
  return `${value.toFixed(Number.isInteger(value) || Math.abs(value) >= 100 ? 0 : 1)} ms`;
}

/** A duration in microseconds. */
export function microseconds(value) {
  return value === null || value === undefined ? NO_VALUE : scaled(value, 1000, ["µs", "ms", "s"]);
}

/** An instant, from nanoseconds after genesis. */
export function instant(ns) {
  return ns === null || ns === undefined ? NO_VALUE : `${(ns / 1e9).toFixed(3).replace("-", "−")} s`;
}

/** The same of something that happened, which may have been while the network waited for slot 0. */
export function moment(ns) {
  return ns < 0 ? "before genesis" : instant(ns);
}

/** A number that tells a session from others of its time: its last digits. */
export function session(id) {
  const digits = String(id);
  return digits.length > 5 ? `…${digits.slice(-4)}` : digits;
}

/** The start of a root or another long name. */
export function short(name) {
  return name.length > 12 ? `${name.slice(0, 10)}…` : name || NO_VALUE;
}

/** Round steps of an axis from 0 to `max`, about so many. */
export function ticks(max, wanted) {
  if (!(max > 0)) return [0];
  const raw = max / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const steps = [];
  for (let i = 0; i * step <= max * (1 + 1e-9); i += 1) steps.push(i * step);
  return steps;
}
