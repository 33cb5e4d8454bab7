// Time and energy of every strategy's plan, and their Pareto front.
function drawPareto(pareto, width, state) {
  const points = pareto.points.filter((p) => !state.hiddenStrategies.has(p.strategy));
  const height = Math.max(300, Math.min(430, width * 0.5));
  const frame = { left: 62, right: width - 18, top: 26, bottom: height - 44 };
  const drawn = chart("chart-pareto", "Time against energy of one iteration, one point per strategy; the dashed line is the Pareto front.", width, height);
  if (!points.length) return drawn;
  const span = (key) => {
    const values = points.map((p) => p[key]), least = Math.min(...values), most = Math.max(...values);
    return state.log ? [least / 1.35, most * 1.35] : [0, most * 1.08];
  };
  const x = scale(...span("time_s"), frame.left, frame.right, state.log), y = scale(...span("energy_j"), frame.bottom, frame.top, state.log);
  axes(drawn, x, y, frame, seconds, joules, "time per iteration", "energy per iteration");
  for (const workload of new Set(points.map((p) => p.workload))) {
    const best = frontOf(points.filter((p) => p.workload === workload));
    const path = best.map((p, k) => `${k ? `H${x.at(p.time_s)}V` : `M${x.at(p.time_s)} `}${y.at(p.energy_j)}`).join("");
    drawn.append(svg("path", { d: path, fill: "none", stroke: "var(--bark)", "stroke-width": 1.5, "stroke-dasharray": "5 4", class: "front" }));
  }
  for (const p of points) drawPoint(drawn, pareto, p, x.at(p.time_s), y.at(p.energy_j));
  drawNames(drawn, points, x, y, frame);
  return drawn;
}

function drawPoint(drawn, pareto, p, cx, cy) {
  const colour = strategyColour(pareto, p.strategy);
  const same = pareto.points.filter((q) => q !== p && !q.entry && q.workload === p.workload && q.time_s === p.time_s && q.energy_j === p.energy_j && q.strategy !== p.strategy);
  const lines = () => [p.entry ? `${p.entry} (${p.strategy})` : p.strategy, `${seconds(p.time_s)}, ${joules(p.energy_j)}, ${product(p.time_s * p.energy_j)}`, p.how,
    ...(same.length ? [`the same as ${[...new Set(same.map((q) => q.strategy))].join(", ")}`] : []), ...(pareto.workloads.length > 1 ? [p.workload] : [])];
  const shape = p.measured
    ? svg("path", { d: `M${cx} ${cy - 8}L${cx + 8} ${cy}L${cx} ${cy + 8}L${cx - 8} ${cy}Z`, fill: colour, stroke: "var(--card)", class: "point" })
    : svg("circle", { cx, cy, r: p.entry ? 9 : 5.5, fill: p.entry ? "none" : colour, stroke: colour, "stroke-width": p.entry ? 2.5 : 1, class: "point", "pointer-events": p.entry ? "stroke" : null });
  shape.dataset.strategy = p.strategy;
  drawn.append(mark(shape, lines));
}

// One label per place, where there is space, above the front; strategies with the same cost share it.
function drawNames(drawn, points, x, y, frame) {
  const places = new Map();
  for (const p of points) {
    if (p.measured) continue;
    const key = `${Math.round(x.at(p.time_s) / 8)} ${Math.round(y.at(p.energy_j) / 8)}`;
    if (!places.has(key)) places.set(key, { cx: x.at(p.time_s), cy: y.at(p.energy_j), names: new Set() });
    places.get(key).names.add(p.strategy);
  }
  const taken = [];
  for (const { cx, cy, names } of [...places.values()].sort((a, b) => a.cx - b.cx)) {
    const all = [...names], text = all.length > 2 ? `${all.slice(0, 2).join(", ")} and ${all.length - 2} more` : all.join(", ");
    const wide = measure(text, 12);
    const box = { left: cx + wide + 16 < frame.right ? cx + 13 : cx - 13 - wide, top: cy - 18, wide, high: 15 };
    if (taken.some((t) => t.left < box.left + box.wide && box.left < t.left + t.wide && t.top < box.top + box.high && box.top < t.top + t.high)) continue;
    taken.push(box);
    drawn.append(svg("text", { x: box.left, y: cy - 6, "font-size": 12, "pointer-events": "none" }, text));
  }
}

function frontOf(points) {
  const sorted = [...points].filter((p) => !p.measured).sort((a, b) => a.time_s - b.time_s || a.energy_j - b.energy_j);
  let least = Infinity;
  return sorted.filter((p) => p.energy_j < least && ((least = p.energy_j), true));
}

const strategiesOf = (pareto) => [...new Set(pareto.points.map((p) => p.strategy))];
const strategyColour = (pareto, name) => `var(--s${strategiesOf(pareto).indexOf(name) % 9})`;
