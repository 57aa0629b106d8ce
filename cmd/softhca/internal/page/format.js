// Words and numbers for people.

function hex(v, digits) { return v.toString(16).padStart(digits, "0"); }

function count(n, what) { return n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s"); }

// plain is count without commas, as one searches for it.
function plain(n, what) { return n + " " + what + (n === 1 ? "" : "s"); }

// duration returns nanoseconds in a unit that fits.
function duration(ns) {
  const a = Math.abs(ns);
  if (a >= 1e9) return trim(ns / 1e9) + " s";
  if (a >= 1e6) return trim(ns / 1e6) + " ms";
  if (a >= 1e3) return trim(ns / 1e3) + " µs";
  return trim(ns) + " ns";
}

function trim(v) {
  const a = Math.abs(v);
  return String(Number(v.toFixed(a >= 100 ? 0 : a >= 10 ? 1 : 2)));
}

// seconds returns a time since the first packet as the list has it.
function seconds(ns) { return (ns / 1e9).toFixed(6); }

// amount returns bytes in a unit that fits.
function amount(n) {
  for (const [unit, size] of [["GiB", 1 << 30], ["MiB", 1 << 20], ["KiB", 1 << 10]]) {
    if (n >= size) return trim(n / size) + " " + unit;
  }
  return count(n, "byte");
}

// rate returns bits per second in a unit that fits.
function rate(bits) {
  for (const [unit, size] of [["Gb/s", 1e9], ["Mb/s", 1e6], ["kb/s", 1e3]]) {
    if (bits >= size) return trim(bits / size) + " " + unit;
  }
  return trim(bits) + " b/s";
}

// step returns a round number for about so many ticks in a span.
function step(span, ticks) {
  const raw = span / Math.max(1, ticks), power = 10 ** Math.floor(Math.log10(raw));
  for (const f of [1, 2, 5]) if (f * power >= raw) return f * power;
  return 10 * power;
}

// tick returns a time on an axis, with the digits that tell it from the next one.
function tick(ns, by) {
  const [unit, size] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]].find(([, size]) => Math.abs(ns) >= size) ?? ["ns", 1];
  return (ns / size).toFixed(Math.max(0, -Math.floor(Math.log10(by / size) + 1e-9))) + " " + unit;
}

// make returns an element with a class and children, of which strings become text.
function make(tag, name, ...children) {
  const e = document.createElement(tag);
  if (name) e.className = name;
  e.append(...children);
  return e;
}

// byId returns an element of the page.
function byId(id) { return document.getElementById(id); }

// color returns a color of the style.
function color(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }
