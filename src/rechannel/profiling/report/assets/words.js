// Numbers and elements as a reader sees them.

const DAY = 8.64e13; // ns
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** An amount in two units. count: of the small one; base: how many of these the large one has. */
function inTwo(count, base, large, small) {
  const rest = count % base ? ` ${count % base} ${small}` : "";
  return `${Math.floor(count / base).toLocaleString("en")} ${large}${rest}`;
}

/** A length of time, ns, with three digits: 1.25 s, 340 ms, 90 s, 2 min 5 s. The words of `model/words.py` are the same. */
function duration(ns) {
  const seconds = Math.round(ns / 1e9);
  if (seconds * 1e9 >= DAY) return inTwo(Math.round(ns / 3.6e12), 24, "d", "h");
  if (seconds >= 120) {
    return seconds < 3600 ? inTwo(seconds, 60, "min", "s") : inTwo(Math.floor(seconds / 60), 60, "h", "min");
  }
  const [size, unit] = UNITS.find(([least]) => ns >= least) || [1e9, "s"];
  return `${Number((ns / size).toPrecision(3))} ${unit}`;
}

/** A time on the axis whose ticks are `step` ns apart: as many digits as tell them apart. */
function tick(ns, step) {
  if (step >= DAY) return `${Math.round(ns / DAY).toLocaleString("en")} d`;
  if (ns >= 6e10 || step >= 6e10) {
    const seconds = Math.floor(ns / 1e9 + 1e-6);
    const clock = [Math.floor((seconds % 3600) / 60), seconds % 60].map((n) => String(n).padStart(2, "0"));
    const digits = step < 1e9 ? ((ns / 1e9) % 1).toFixed(Math.ceil(-Math.log10(step / 1e9) - 1e-9)).slice(1) : "";
    return `${Math.floor(seconds / 3600)}:${clock.join(":")}${digits}`;
  }
  const [size, unit] = step >= 1e7 ? [1e9, "s"] : step >= 1e4 ? [1e6, "ms"] : [1e3, "µs"];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(ns / size).toFixed(digits)} ${unit}`;
}

/** A share, in percent. */
function percent(share) {
  const value = 100 * share;
  if (value === 0) return "0 %";
  if (value < 0.1) return "< 0.1 %";
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

/** A count with its noun. */
function numbered(count, one, more = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : more}`;
}

/** An element with attributes and children; strings become text, never markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") made.style.cssText = value;
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** A swatch in the colour of a kind. */
function swatch(kind) {
  return element("span", { class: "swatch", style: `background:${kind.colour}`, "aria-hidden": "true" });
}

/** The element of the page with an id. */
function byId(id) {
  return document.getElementById(id);
}
