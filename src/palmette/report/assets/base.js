// DOM helpers, numbers with units, the tooltip, and charts that a keyboard can step through.
const NS = "http://www.w3.org/2000/svg";

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// Objects whose keys are names that people gave: a node may be called constructor, which every other object knows.
const byName = (pairs = []) => Object.assign(Object.create(null), Object.fromEntries(pairs));
const parsed = (text) => JSON.parse(text, (key, value) => (value && typeof value === "object" && !Array.isArray(value) ? byName(Object.entries(value)) : value));

const el = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => put(document.createElementNS(NS, tag), attributes, children);

// Three significant digits; powers of ten only below a thousandth and from a million.
function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toPrecision(3).replace("e+", "e").replace("-", "−");
  const text = size >= 100 ? value.toFixed(0) : value.toPrecision(3);
  const plain = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return plain.replace("-", "−");
}

function scaled(value, steps) {
  if (value === null || value === undefined) return "–";
  const [unit, size] = steps.find(([, least]) => Math.abs(value) >= least * 0.9995) || steps[steps.length - 1];
  return `${digits(value / size)} ${unit}`;
}

const seconds = (value) =>
  value ? (value >= 7200 ? `${digits(value / 3600)} h` : value >= 120 ? `${digits(value / 60)} min`
    : scaled(value, [["s", 1], ["ms", 1e-3], ["µs", 1e-6]])) : value === 0 ? "0 s" : "–";
const grams = (value) => value === 0 ? "0 g" : scaled(value, [["t", 1e6], ["kg", 1e3], ["g", 1], ["mg", 1e-3], ["µg", 1e-6]]);
// As spec/reading.py has it.
const money = (value, currency) => {
  if (value === null || value === undefined) return "–";
  if (value <= 0 || value >= 1) return `${value.toFixed(2)} ${currency}`;
  const places = Math.max(2, 2 - Math.floor(Math.log10(value)));
  return places <= 6 ? `${value.toFixed(places)} ${currency}` : `${Number((value * 1e6).toPrecision(3))} µ${currency}`;
};
const joules = (value) => value === 0 ? "0 J" : scaled(value, [["MJ", 1e6], ["kJ", 1e3], ["J", 1], ["mJ", 1e-3], ["µJ", 1e-6]]);
const product = (value) => value === 0 ? "0 J·s" : scaled(value, [["MJ·s", 1e6], ["kJ·s", 1e3], ["J·s", 1], ["mJ·s", 1e-3], ["µJ·s", 1e-6]]);
const bytes = (value) => value === 0 ? "0 B" : scaled(value, [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024], ["B", 1]]);
const rate = (value) => scaled(value, [["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3], ["bit/s", 1]]);
const percent = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value * 100).toFixed(1)}%`;
const plural = (many, word) => `${many} ${word}${many === 1 ? "" : "s"}`;

const clip = (text, most) => (text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text);
const measure = (() => {
  const brush = document.createElement("canvas").getContext("2d");
  return (text, size = 13) => {
    brush.font = `${size}px system-ui, sans-serif`;
    return brush.measureText(text).width;
  };
})();

function fit(text, width, size = 13) {
  if (measure(text, size) <= width) return text;
  let many = text.length;
  while (many > 1 && measure(clip(text, many), size) > width) many -= 1;
  return clip(text, many);
}

const tip = document.getElementById("tip");
const said = document.getElementById("said");

function showTip(lines, x, y) {
  tip.replaceChildren(el("b", {}, lines[0]), ...lines.slice(1).map((line) => el("div", {}, line)));
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - box.width - 6))}px`;
  tip.style.top = `${y + box.height + 22 > innerHeight ? Math.max(6, y - box.height - 12) : y + 16}px`;
  tip.style.visibility = "visible";
}

function hideTip() {
  tip.style.visibility = "hidden";
}

// A part of a chart with a tooltip; `lines` are computed when it is shown.
function mark(node, lines) {
  node.classList.add("mark");
  node.tooltip = lines;
  for (const kind of ["pointermove", "pointerdown"]) node.addEventListener(kind, (event) => showTip(lines(), event.clientX, event.clientY));
  node.addEventListener("pointerleave", hideTip);
  return node;
}

// A chart: one tab stop; arrow keys go from mark to mark.
function chart(id, label, width, height) {
  const drawn = svg("svg", {
    id, width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "group",
    "aria-roledescription": "chart", "aria-label": `${label} Arrow keys step through its parts.`,
  });
  let at = -1;
  const leave = () => {
    drawn.querySelectorAll(".mark.at").forEach((each) => each.classList.remove("at"));
    hideTip();
  };
  drawn.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const marks = [...drawn.querySelectorAll(".mark")];
    if (event.key === "Escape") leave();
    if (!step || !marks.length) return;
    event.preventDefault();
    leave();
    at = (at + step + marks.length) % marks.length;
    const found = marks[at];
    found.classList.add("at");
    found.scrollIntoView({ block: "nearest", inline: "nearest" });
    const box = found.getBoundingClientRect();
    const lines = found.tooltip();
    showTip(lines, box.left + box.width / 2, box.top + box.height / 2);
    said.textContent = lines.join(". ");
  });
  drawn.addEventListener("blur", leave);
  return drawn;
}

const toggle = (pressed, label, colour, act, name) =>
  el("button", { type: "button", "aria-pressed": String(pressed), "data-toggle": name || label, onclick: act },
    colour ? swatch(colour) : null, label);

function swatch(colour) {
  const made = el("span", { class: "swatch", "aria-hidden": "true" });
  made.style.background = colour;
  return made;
}

// A table; a click on a heading sorts by its column, a second one the other way round.
function table(id, headings, rows, chosen) {
  const cell = (tag, value, kind) => el(tag, { class: kind || null }, value);
  const [column, sign] = state.sorted[id] || [null, 1];
  const heading = ([text, kind], k) => el("th", { class: kind || null, scope: "col", "aria-sort": k === column ? (sign > 0 ? "ascending" : "descending") : null },
    text ? el("button", { type: "button", class: "sort", id: `sort-${id}-${k}`, onclick: () => { state.sorted[id] = [k, k === column ? -sign : 1]; render(); } }, text) : "");
  const order = rows.map((row, number) => [row, number]);
  if (column !== null) order.sort(([a], [b]) => sign * compareCells(a[column], b[column]));
  return el("div", { class: "tablebox", tabindex: 0, role: "region", "aria-label": `${id.replaceAll("-", " ")} as a table` },
    el("table", { id },
      el("thead", {}, el("tr", {}, headings.map(heading))),
      el("tbody", {}, order.map(([row, number]) =>
        el("tr", { class: number === chosen ? "chosen" : null }, row.map((value, k) => cell("td", value ?? "–", headings[k][1])))))));
}

// Quantities by their size, whatever their unit, and before texts; texts by the alphabet.
const UNITS = { h: 3600, min: 60, s: 1, ms: 1e-3, "µs": 1e-6, G: 1e9, M: 1e6, k: 1e3, m: 1e-3, "µ": 1e-6, GiB: 2 ** 30, MiB: 2 ** 20, KiB: 1024 };
function sizeOf(cell) {
  const found = /^([+−-]?[\d.,]+(?:e[+-]?\d+)?)\s*(\S*)/.exec(String(cell ?? ""));
  if (!found) return null;
  const unit = found[2], prefix = /^[GMkmµ](?=[A-Za-z])/.exec(unit);
  return Number(found[1].replace("−", "-").replaceAll(",", "")) * (UNITS[unit] || (prefix ? UNITS[prefix[0]] : 1));
}
function compareCells(a, b) {
  const [one, other] = [sizeOf(a), sizeOf(b)];
  if (one !== null && other !== null) return one - other;
  return one !== null ? -1 : other !== null ? 1 : String(a ?? "").localeCompare(String(b ?? ""));
}

const folded = (title, content, key) =>
  el("details", { open: shown.has(key), ontoggle: (event) => shown[event.target.open ? "add" : "delete"](key) },
    el("summary", {}, title), content);
const shown = new Set();

// Ticks at round numbers, on a linear or a logarithmic scale.
function scale(low, high, from, to, log) {
  if (log) {
    const [a, b] = [Math.log10(low), Math.log10(high)];
    const at = (value) => from + ((Math.log10(value) - a) / (b - a || 1)) * (to - from);
    const decades = Math.round(b - a);
    const steps = decades <= 1 ? [1, 2, 3, 5] : decades <= 3 ? [1, 3] : [1];
    const every = Math.max(1, Math.ceil(decades / 7));
    const ticks = [];
    for (let power = Math.floor(a); power <= b; power += every) {
      for (const step of steps) {
        const tick = step * 10 ** power;
        if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
      }
    }
    return { at, ticks };
  }
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / 5));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => span / each <= 6);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9) + 1e-300; k += 1) ticks.push(k * step);
  return { at: (value) => from + ((value - low) / span) * (to - from), ticks };
}

function axes(drawn, x, y, frame, xText, yText, xTitle, yTitle) {
  for (const tick of y.ticks) {
    const at = y.at(tick);
    drawn.append(svg("line", { class: "grid", x1: frame.left, x2: frame.right, y1: at, y2: at }),
      svg("text", { class: "small", x: frame.left - 8, y: at + 4, "text-anchor": "end" }, yText(tick)));
  }
  let last = -Infinity;
  for (const tick of x.ticks) {
    const text = xText(tick), half = measure(text, 11.5) / 2, at = Math.max(half, x.at(tick));
    if (at - half < last + 8) continue;
    last = at + half;
    drawn.append(svg("line", { class: "axis", x1: at, x2: at, y1: frame.bottom, y2: frame.bottom + 4 }),
      svg("text", { class: "small", x: at, y: frame.bottom + 18, "text-anchor": "middle" }, text));
  }
  drawn.append(svg("line", { class: "axis", x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom }),
    svg("text", { class: "small", x: frame.right, y: frame.bottom + 36, "text-anchor": "end" }, xTitle),
    svg("text", { class: "small", x: 0, y: 12 }, yTitle));
}
