// Numbers as a reader sees them. What is not known is a dash.

export const UNKNOWN = "–";

const known = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));
const SIZES = ["bytes", "KB", "MB", "GB", "TB", "PB"];
const SHORT = [[1e9, "G"], [1e6, "M"], [1e4, "k", 1e3]];

/** A whole number with its thousands apart. */
export function count(value) {
  return known(value) ? Math.round(value).toLocaleString("en") : UNKNOWN;
}

/** A number with three digits: 12.3 k, 1.2 M. */
export function brief(value) {
  if (!known(value)) return UNKNOWN;
  const found = SHORT.find(([least]) => Math.abs(value) >= least);
  if (!found) return Math.abs(value) < 10 && value % 1 ? value.toFixed(1) : count(value);
  const [least, unit, by = least] = found;
  return `${Number((value / by).toPrecision(3))} ${unit}`;
}

/** A size, in powers of 1024, as the command line shows it. */
export function size(value) {
  if (!known(value)) return UNKNOWN;
  let [left, unit] = [Number(value), 0];
  while (Math.abs(left) >= 1024 && unit < SIZES.length - 1) [left, unit] = [left / 1024, unit + 1];
  return unit ? `${left < 100 ? left.toFixed(1) : Math.round(left)} ${SIZES[unit]}` : `${count(left)} bytes`;
}

/** Milliseconds, from what can be told apart up to days. */
export function length(ms) {
  if (!known(ms)) return UNKNOWN;
  if (Number(ms) === 0) return "0 ms";
  if (ms < 1) return `${Number(ms).toFixed(2)} ms`;
  if (ms < 2e3) return ms < 10 ? `${Number(ms).toFixed(1)} ms` : `${count(ms)} ms`;
  const seconds = Math.round(ms / 1e3);
  if (seconds < 120) return `${ms < 1e4 ? Number((ms / 1e3).toFixed(1)) : seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

/** A time of day. */
export function clock(ms) {
  return known(ms) ? new Date(ms).toLocaleTimeString("en-GB") : UNKNOWN;
}

/** A day and its time. */
export function moment(ms) {
  if (!known(ms)) return UNKNOWN;
  const at = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

/** The value that a share of the values does not exceed. */
export function percentile(values, share) {
  const ordered = [...values].sort((a, b) => a - b);
  return ordered.length ? ordered[Math.min(ordered.length - 1, Math.floor(share * ordered.length))] : null;
}

export const sum = (values) => values.reduce((total, value) => total + value, 0);
export const most = (values, least = 0) => values.reduce((found, value) => Math.max(found, value), least);
