// The page: its state, its sections in order, and redrawing when the state changes.
let data = parsed(document.getElementById("data").textContent);
const page = document.getElementById("page");
const state = {
  entry: 0, phase: 0, zoom: 1, log: true, folded: true, sliders: [], sorted: {},
  hiddenTracks: new Set(), hiddenKinds: new Set(), hiddenRuns: new Set(), hiddenParts: new Set(), hiddenStrategies: new Set(),
};

const flip = (set, name) => () => { set[set.has(name) ? "delete" : "add"](name); render(); };
const runs = () => data.entries.filter((entry) => entry.run);
const runColour = (entry) => `var(--s${runs().indexOf(entry) % 8})`;
const wideOf = (parts = 1) => {
  const box = page.clientWidth - (parseFloat(getComputedStyle(page).paddingLeft) * 2) - (innerWidth <= 760 ? 30 : 46);
  return Math.max(280, innerWidth <= 760 || parts === 1 ? box : (box - 22) / 2);
};
const section = (id, title, note, ...content) =>
  el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), note ? el("p", { class: "note" }, note) : null, ...content);
const boxed = (drawn) => el("div", { class: "chart" }, drawn);
const source = (text) => {
  const kind = (text || "").split(":")[0];
  return el("span", {}, ["measured", "modelled"].includes(kind) ? el("span", { class: `tag ${kind}` }, kind) : null, (text || "not known").replace(/^(measured|modelled):\s*/, ""));
};

function render() {
  const focus = document.activeElement ? document.activeElement.id || document.activeElement.dataset.toggle : null;
  const scrolled = Object.fromEntries([...page.querySelectorAll(".chart > svg, .tablebox > table")].map((each) => [each.id, each.parentNode.scrollLeft]));
  hideTip();
  const entry = data.entries[state.entry] || data.entries[0];
  state.phase = Math.max(0, Math.min(state.phase, entry.phases.length - 1));
  page.replaceChildren(...[
    data.live ? liveSection(entry) : null, summary(entry), picker(), treeSection(entry), timelineSection(entry), lossSection(),
    energySection(entry), paretoSection(), slidersSection(), runsSection(),
  ].filter(Boolean));
  for (const [id, left] of Object.entries(scrolled)) {
    const again = document.getElementById(id);
    if (again && left) again.parentNode.scrollLeft = left;
  }
  if (focus) {
    const again = document.getElementById(focus) || page.querySelector(`[data-toggle="${CSS.escape(focus)}"]`);
    if (again) again.focus({ preventScroll: true });
  }
}

function fact(name, value, of) {
  return el("div", {}, el("div", { class: "of" }, name), el("div", { class: "is" }, value), of ? el("div", { class: "of" }, of) : null);
}

function summary(entry) {
  const { estimate, run } = entry, facts = [];
  if (estimate) facts.push(fact("predicted iteration", seconds(estimate.iteration_s), estimate.iteration_j === null ? "energy not known" : joules(estimate.iteration_j)));
  if (estimate && (estimate.iteration_cost !== null || estimate.iteration_carbon_g !== null))
    facts.push(fact("cost and carbon of it", money(estimate.iteration_cost, estimate.currency), estimate.iteration_carbon_g === null ? "carbon not known" : `${grams(estimate.iteration_carbon_g)} CO2`));
  if (run && run.iteration_s !== null) {
    const off = estimate && estimate.iteration_s && run.emulated ? `${percent(run.iteration_s / estimate.iteration_s - 1)} compared with the prediction` : "median of the run";
    facts.push(fact("measured iteration", seconds(run.iteration_s), off));
  }
  if (estimate && estimate.total_s !== null) facts.push(fact("predicted training", seconds(estimate.total_s), `${plural(estimate.epochs, "epoch")}, ${joules(estimate.total_j)}`));
  else if (estimate && estimate.epoch_s !== null) facts.push(fact("predicted epoch", seconds(estimate.epoch_s), joules(estimate.epoch_j)));
  if (estimate && estimate.first_epoch_s !== null && estimate.first_epoch_s !== estimate.epoch_s) facts.push(fact("predicted first epoch", seconds(estimate.first_epoch_s), joules(estimate.first_epoch_j)));
  if (run) {
    facts.push(fact("trained", plural(run.iterations, "iteration"), run.ended === "done" ? "completed" : run.ended));
    if (run.energy_j !== null) facts.push(fact("energy of the run", joules(run.energy_j), (run.energy_source || "").split(":")[0]));
    if (run.value) facts.push(fact("after the last epoch", run.value.ideal_loss >= run.value.loss ? "ahead" : "behind", run.value.verdict));
    if (run.accuracy !== null) facts.push(fact("accuracy on held-out data", `${(run.accuracy * 100).toFixed(1)}%`));
  }
  const first = data.entries.length > 1 ? speedUps() : [];
  return section("summary", entry.name, `${entry.strategy} for ${entry.model}, batch ${entry.batch}`, ...(facts.length ? [el("div", { class: "facts" }, facts)] : []),
    ...(entry.why ? [el("p", { id: "why" }, entry.why)] : []), ...first);
}

// One line: which entry is fastest, measured if all were, else predicted.
function speedUps() {
  const measured = data.entries.every((e) => e.run && e.run.iteration_s);
  const time = (e) => (measured ? e.run.iteration_s : e.estimate ? e.estimate.iteration_s : null);
  const known = data.entries.filter((e) => time(e) && e.model === data.entries[0].model && e.batch === data.entries[0].batch).sort((a, b) => time(a) - time(b));
  if (known.length < 2) return [];
  const [best, worst] = [known[0], known[known.length - 1]];
  if (time(worst) / time(best) < 1.005) return [];
  return [el("p", { id: "speed-up" }, `${measured ? "Measured" : "Predicted"}: ${best.name} is ${digits(time(worst) / time(best))} times as fast per iteration as ${worst.name}.`)];
}

function picker() {
  if (data.entries.length < 2) return null;
  return el("div", { class: "bar", role: "group", "aria-label": "Plan or run to show", "data-title": "show" },
    data.entries.map((entry, k) => el("button", { type: "button", id: `entry-${k}`, "aria-pressed": String(k === state.entry), onclick: () => { state.entry = k; state.phase = 0; render(); } }, entry.name)));
}

function treeSection(entry) {
  const phase = entry.phases[state.phase];
  if (!phase) return section("tree", "Instance tree on the cluster", null, el("p", { class: "empty" }, "This plan was made from tables alone and has no instance tree; plan again with --profile and --cluster."));
  const phases = entry.phases.length > 1
    ? el("div", { class: "tools", role: "group", "aria-label": "Phase" }, entry.phases.map((each, k) =>
      el("button", { type: "button", id: `phase-${k}`, "aria-pressed": String(k === state.phase), onclick: () => { state.phase = k; render(); } }, `phase ${k + 1}${each.pruning ? `, ${Math.round(each.pruning * 100)}% pruned` : ""}`)))
    : null;
  const agree = { step: "Gradients are averaged in every iteration.", epoch: "Weights are averaged after every epoch.", async: "Workers update a parameter server, each at its own speed." }[phase.sync];
  const note = `Layers from left to right, tiers from top to bottom. Numbers are samples per iteration; dotted lines connect replicas of the same layers, dashed lines carry int8, L is the loss. ${agree}`;
  const equal = foldsNodes(entry, phase) ? el("div", { class: "tools" }, toggle(state.folded, "equal nodes folded", null, () => { state.folded = !state.folded; render(); }, "folded")) : null;
  return section("tree", "Instance tree on the cluster", note, phases, equal, boxed(drawTree(entry, phase, wideOf())),
    folded("As a table", table("instances", [["instance"], ["node", "text"], ["layers"], ["samples"], ["CPU"], ["into", "text"], ["codec", "text"]],
      phase.instances.map((i) => [i.id, i.node, i.layers.join("–"), i.samples, `${Math.round(i.cpu_share * 100)}%`, i.into || "the loss", i.codec])), "instances"));
}

function timelineSection(entry) {
  const measured = entry.run && entry.run.timeline && entry.run.timeline.length;
  if (!entry.timeline && !measured) return section("timeline", "Timeline of one iteration", null, el("p", { class: "empty" }, "No timeline: the plan contains no profile, and no run was given. Pass --profile and --cluster, or a run's folder."));
  const note = `Thick bars compute; thin lines below them send and receive.${measured ? ` Measured: iteration ${entry.run.shown}, of median duration${entry.timeline ? "; the fainter row above it is the prediction" : ""}.` : " Predicted; add a run's folder to see the measured timeline below it."}`;
  const tools = el("div", { class: "tools" },
    Object.entries(KINDS).map(([kind, colour]) => toggle(!state.hiddenKinds.has(kind), kind === "update" ? "average, update" : kind === "transfer" ? "send, receive" : kind, colour, flip(state.hiddenKinds, kind), `kind-${kind}`)),
    entry.timeline && measured ? ["predicted", "measured"].map((track) => toggle(!state.hiddenTracks.has(track), track, null, flip(state.hiddenTracks, track), `track-${track}`)) : null,
    el("span", { class: "gap" }),
    [["−", "Zoom out", 0.5], ["+", "Zoom in", 2]].map(([sign, label, factor]) =>
      el("button", { type: "button", class: "square", id: `zoom-${factor}`, "aria-label": label, onclick: () => { state.zoom = Math.min(64, Math.max(1, state.zoom * factor)); render(); } }, sign)));
  const rows = [...(entry.timeline || []).map((op) => ["predicted", op]), ...(measured ? entry.run.timeline.map((op) => ["measured", op]) : [])];
  return section("timeline", "Timeline of one iteration", note, tools, boxed(drawTimeline(entry, wideOf(), state)),
    folded("As a table", table("operations", [["node"], ["instance", "text"], ["operation", "text"], ["", "text"], ["start"], ["end"], ["bytes"]],
      rows.slice(0, 2000).map(([track, op]) => [op[0], op[1], op[2], track, seconds(op[3]), seconds(op[4]), op[5] ? op[5].toLocaleString("en") : ""])), "operations"));
}

function lossSection() {
  if (!runs().length) return section("loss", "Loss", null, el("p", { class: "empty" }, "No run was given. palmette run executes a plan and writes a folder that this page can show."));
  const seen = runs().filter((entry) => !state.hiddenRuns.has(entry.name));
  const series = (key) => seen.map((entry) => {
    const pick = (rows) => rows.map((p) => ({ x: p[key], y: p[2], iteration: p[3], accuracy: p[4] ?? null })).filter((p) => p.x !== null && p.y !== null);
    return { name: entry.name, colour: runColour(entry), points: pick(entry.run.loss), evaluated: pick(entry.run.evaluated) };
  }).filter((each) => each.points.length);
  const legend = el("div", { class: "tools", role: "group", "aria-label": "Runs" },
    runs().map((entry) => toggle(!state.hiddenRuns.has(entry.name), entry.name, runColour(entry), flip(state.hiddenRuns, entry.name), `run-${entry.name}`)));
  const half = wideOf(2), empty = (why) => el("p", { class: "empty" }, why);
  const overTime = series(0), overEnergy = series(1);
  return section("loss", "Loss", "Over time (emulated time on a testbed) and over the energy used so far. Rings: evaluated on held-out data.", legend,
    el("div", { class: "pair" },
      el("div", {}, el("h3", {}, "over time"), overTime.length ? boxed(drawLoss("chart-loss-time", "Loss over time, one line per run.", overTime, half, seconds, "time")) : empty("No data yet.")),
      el("div", {}, el("h3", {}, "over energy"), overEnergy.length ? boxed(drawLoss("chart-loss-energy", "Loss over energy, one line per run.", overEnergy, half, joules, "energy")) : empty("Energy not known: the cluster file gives no power for a node."))),
    folded("As a table", table("losses", [["run"], ["iteration"], ["loss"], ["time"], ["energy"]],
      seen.flatMap((entry) => entry.run.loss.slice(-400).map((p) => [entry.name, p[3], digits(p[2]), seconds(p[0]), joules(p[1])]))), "losses"));
}

function energySection(entry) {
  const tracks = [["predicted", entry.energy], ["measured run", entry.run ? entry.run.energy : null]].filter(([, found]) => found);
  if (!tracks.length) return section("energy", "Energy by node", null, el("p", { class: "empty" }, "Energy not known: the cluster file gives no power for a node of the plan."));
  const tools = el("div", { class: "tools" }, PARTS.map(([key, text, colour]) => toggle(!state.hiddenParts.has(key), text, colour, flip(state.hiddenParts, key), `part-${key}`)));
  const whence = el("p", { class: "note", id: "energy-source" }, tracks.flatMap(([track, found], k) => [k ? el("br") : null, `${track}: `, source(found.source)]));
  const cells = (found, name) => found.nodes[name] || byName();
  return section("energy", "Energy by node", null, whence, tools, boxed(drawEnergy(entry, wideOf(), state.hiddenParts)),
    folded("As a table", table("joules", [["node"], ["", "text"], ...PARTS.map(([, text]) => [text]), ["all"]],
      tracks.flatMap(([track, found]) => Object.keys(found.nodes).map((name) => [name, track, ...PARTS.map(([key]) => joules(cells(found, name)[key] ?? null)), joules(PARTS.reduce((sum, [key]) => sum + (cells(found, name)[key] || 0), 0))]))), "joules"));
}

function paretoSection() {
  const pareto = data.pareto;
  if (!pareto) return null;
  const tools = el("div", { class: "tools" },
    strategiesOf(pareto).map((name) => toggle(!state.hiddenStrategies.has(name), name, strategyColour(pareto, name), flip(state.hiddenStrategies, name), `strategy-${name}`)),
    el("span", { class: "gap" }),
    toggle(state.log, "logarithmic", null, () => { state.log = !state.log; render(); }, "log"));
  const positive = pareto.points.every((p) => p.time_s > 0 && p.energy_j > 0);
  const rows = pareto.rows, known = (key) => rows.some((row) => row[key] !== null);
  const columns = [[["strategy"], (row) => row.strategy], [["planned for", "text"], (row) => row.goal], [["iteration"], (row) => seconds(row.time_s)],
    [["energy"], (row) => joules(row.energy_j)], [["energy × time"], (row) => row.energy_j === null ? "–" : product(row.time_s * row.energy_j)],
    known("cost") && [["cost"], (row) => money(row.cost, pareto.currency)], known("carbon_g") && [["carbon"], (row) => grams(row.carbon_g)],
    [["nodes", "text"], (row) => row.nodes], [["Pareto front", "text"], (row) => row.on_front ? "yes" : ""],
    pareto.workloads.length > 1 && [["workload", "text"], (row) => row.workload]].filter(Boolean);
  return section("pareto", "Time and energy of all strategies", "Every applicable strategy, planned for time, for energy and, where they are known, for money and for carbon. The dashed line is the Pareto front; rings are the plans on this page, diamonds are measured runs.",
    pareto.points.length ? tools : null,
    pareto.points.length ? boxed(drawPareto(pareto, wideOf(), { ...state, log: state.log && positive })) : el("p", { class: "empty" }, "Energy not known, so there is no Pareto front."),
    table("strategies", columns.map(([head]) => head), rows.map((row) => columns.map(([, cell]) => cell(row))), -1),
    pareto.skipped.length ? folded(`${plural(pareto.skipped.length, "strategy").replace("strategys", "strategies")} skipped`, table("skipped", [["strategy"], ["why", "wide text"]], pareto.skipped), "skipped") : null);
}

function runsSection() {
  const rows = data.entries.map((entry) => {
    const { estimate, run } = entry;
    const off = estimate && run && run.iteration_s && estimate.iteration_s && run.emulated ? percent(run.iteration_s / estimate.iteration_s - 1) : "–";
    return [entry.name, entry.kind, entry.strategy, entry.model, entry.batch, seconds(estimate ? estimate.iteration_s : null), seconds(run ? run.iteration_s : null), off,
      joules(estimate ? estimate.iteration_j : null), run ? run.iterations : "–", joules(run ? run.energy_j : null), run ? run.ended : "–"];
  });
  return section("numbers", "All numbers", null, table("entries", [["name"], ["", "text"], ["strategy", "text"], ["model", "text"], ["batch"], ["predicted"], ["measured"], ["error"], ["energy per iteration"], ["iterations"], ["energy of the run"], ["ended", "text"]], rows, state.entry));
}

let pending = 0;
addEventListener("resize", () => { cancelAnimationFrame(pending); pending = requestAnimationFrame(render); });
render();
if (data.live) listen();
