// Sliders for bandwidths and epochs: the page has the prices of a grid, and adds up epochs itself.
const EPOCHS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const QUANTITIES = [["time", seconds], ["energy", joules], ["cost", money], ["carbon", grams]];

function slidersSection() {
  const found = data.pareto ? data.pareto.sliders.map((grid, k) => [grid, k]).filter(([grid]) => grid) : [];
  if (!found.length) return null;
  return section("sliders", "If links and epochs were different", "Each plan as it is, kept at other bandwidths and for other numbers of epochs; palmette what-if also plans again.",
    ...found.map(([grid, k]) => slidersOf(grid, k)));
}

function slidersOf(grid, k) {
  const nearest = EPOCHS.reduce((best, each, at) => (Math.abs(each - grid.epochs) < Math.abs(EPOCHS[best] - grid.epochs) ? at : best), 0);
  const at = (state.sliders[k] ||= { links: grid.links.map(() => grid.middle), epochs: nearest, quantity: 0 });
  const bars = el("div", { class: "chart" });
  const draw = () => bars.replaceChildren(drawBars(grid, at, k, wideOf()));
  const known = QUANTITIES.map(([name], q) => [name, q]).filter(([, q]) => grid.plans.some((plan) => plan.spent.some((each) => each && each[0][q] !== null)));
  const tools = el("div", { class: "tools", role: "group", "aria-label": "What the bars show" }, known.map(([name, q]) =>
    el("button", { type: "button", id: `sliders-${k}-${name}`, "aria-pressed": String(q === at.quantity), onclick: () => { at.quantity = q; render(); } }, name)));
  draw();
  return el("div", {}, data.pareto.workloads.length > 1 ? el("h3", {}, data.pareto.workloads[k]) : null,
    el("div", { class: "sliders" },
      ...grid.links.map((link, n) => slider(`slider-${k}-${n}`, link.name, link.rates, at.links[n], (value) => { at.links[n] = value; draw(); })),
      slider(`slider-${k}-epochs`, "epochs", EPOCHS.map(String), at.epochs, (value) => { at.epochs = value; draw(); })),
    tools, bars);
}

function slider(id, name, texts, value, act) {
  const told = el("output", { for: id }, texts[value]);
  const input = el("input", { type: "range", id, min: 0, max: texts.length - 1, step: 1, value, "aria-valuetext": texts[value] });
  input.addEventListener("input", () => {
    told.textContent = texts[input.value];
    input.setAttribute("aria-valuetext", texts[input.value]);
    act(Number(input.value));
  });
  return el("label", { for: id }, el("span", {}, name), input, told);
}

const named = (plan) => (plan.goal ? `${plan.strategy} (${plan.goal})` : plan.strategy);

// The plans, best first: a plan that may not run there, or whose quantity is not known, has no bar.
function drawBars(grid, at, k, width) {
  const point = at.links.reduce((sum, each) => sum * grid.links[0].rates.length + each, 0);
  const many = EPOCHS[at.epochs], [name, text] = QUANTITIES[at.quantity];
  const rows = grid.plans.map((plan) => {
    const spent = plan.spent[point];
    const [first, later] = spent ? [spent[0][at.quantity], spent[1][at.quantity]] : [null, null];
    return { plan, value: first === null || later === null ? null : first + (many - 1) * later };
  }).sort((a, b) => (a.value ?? Infinity) - (b.value ?? Infinity));
  const high = 26, label = Math.min(130, width / 3), most = Math.max(...rows.map((row) => row.value ?? 0)) || 1;
  const drawn = chart(`chart-sliders-${k}`, `The ${name} of ${plural(many, "epoch")}, a bar per strategy.`, width, rows.length * high + 6);
  rows.forEach((row, n) => {
    const y = n * high + 4, wide = row.value === null ? 0 : Math.max(2, (row.value / most) * (width - label - 96));
    const told = row.value === null ? "–" : text(row.value, grid.currency);
    drawn.append(svg("text", { x: label - 8, y: y + 14, "text-anchor": "end" }, fit(named(row.plan), label - 10)),
      mark(svg("rect", { x: label, y, width: wide, height: high - 8, rx: 4, fill: strategyColour(data.pareto, row.plan.strategy), class: "bar" }), () => [named(row.plan), `${told} for ${plural(many, "epoch")}`]),
      svg("text", { class: "small", x: label + wide + 8, y: y + 14 }, told));
  });
  return drawn;
}
