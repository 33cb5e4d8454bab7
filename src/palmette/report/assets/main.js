// The page: what is chosen, the sections in order, and drawing anew when either changes.
let data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const state = {
  entry: 0, phase: 0, zoom: 1, log: true,
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
    data.live ? nowSection(entry) : null, summary(entry), picker(), treeSection(entry), timelineSection(entry), lossSection(),
    energySection(entry), frontSection(), runsSection(),
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
  if (run && run.iteration_s !== null) {
    const off = estimate && estimate.iteration_s && run.emulated ? `${percent(run.iteration_s / estimate.iteration_s - 1)} against the prediction` : "median of the run";
    facts.push(fact("measured iteration", seconds(run.iteration_s), off));
  }
  if (estimate && estimate.total_s !== null) facts.push(fact("whole training, predicted", seconds(estimate.total_s), `${plural(estimate.epochs, "epoch")}, ${joules(estimate.total_j)}`));
  else if (estimate && estimate.epoch_s !== null) facts.push(fact("predicted epoch", seconds(estimate.epoch_s), joules(estimate.epoch_j)));
  if (run) {
    facts.push(fact("trained", plural(run.iterations, "iteration"), run.ended === "done" ? "to its end" : run.ended));
    if (run.energy_j !== null) facts.push(fact("energy of the run", joules(run.energy_j), (run.energy_source || "").split(":")[0]));
    if (run.accuracy !== null) facts.push(fact("accuracy on held-out data", `${(run.accuracy * 100).toFixed(1)}%`));
  }
  const first = data.entries.length > 1 ? speedUps() : [];
  return section("summary", entry.name, `${entry.strategy} for ${entry.model}, batch ${entry.batch}`, ...(facts.length ? [el("div", { class: "facts" }, facts)] : []),
    ...(entry.why ? [el("p", { id: "why" }, entry.why)] : []), ...first);
}

// One line that says which of the given entries is fastest, by what was measured where all were.
function speedUps() {
  const measured = data.entries.every((e) => e.run && e.run.iteration_s);
  const time = (e) => (measured ? e.run.iteration_s : e.estimate ? e.estimate.iteration_s : null);
  const known = data.entries.filter((e) => time(e) && e.model === data.entries[0].model && e.batch === data.entries[0].batch).sort((a, b) => time(a) - time(b));
  if (known.length < 2) return [];
  const [best, worst] = [known[0], known[known.length - 1]];
  if (time(worst) / time(best) < 1.005) return [];
  return [el("p", { id: "speed-up" }, `An iteration of ${best.name} is ${digits(time(worst) / time(best))} times as fast as one of ${worst.name}${measured ? ", measured" : ", predicted"}.`)];
}

function picker() {
  if (data.entries.length < 2) return null;
  return el("div", { class: "bar", role: "group", "aria-label": "Plan or run to show", "data-title": "show" },
    data.entries.map((entry, k) => el("button", { type: "button", id: `entry-${k}`, "aria-pressed": String(k === state.entry), onclick: () => { state.entry = k; state.phase = 0; render(); } }, entry.name)));
}

function treeSection(entry) {
  const phase = entry.phases[state.phase];
  if (!phase) return section("tree", "The tree on the cluster", null, el("p", { class: "empty" }, "The plan was made from tables alone and has no tree; plan again with --profile and --cluster."));
  const phases = entry.phases.length > 1
    ? el("div", { class: "tools", role: "group", "aria-label": "Phase" }, entry.phases.map((each, k) =>
      el("button", { type: "button", id: `phase-${k}`, "aria-pressed": String(k === state.phase), onclick: () => { state.phase = k; render(); } }, `phase ${k + 1}${each.pruning ? `, ${Math.round(each.pruning * 100)}% pruned` : ""}`)))
    : null;
  const agree = { step: "Gradients are averaged in every iteration.", epoch: "Weights are averaged after every epoch.", async: "A parameter server; everyone at their own pace." }[phase.sync];
  const note = `Layers from left to right, tiers from top to bottom. Figures are samples an iteration; dotted lines join replicas, dashed ones carry 8-bit integers, L is the loss. ${agree}`;
  return section("tree", "The tree on the cluster", note, phases, boxed(drawTree(entry, phase, wideOf())),
    folded("As a table", table("instances", [["instance"], ["node", "text"], ["layers"], ["samples"], ["CPU"], ["into", "text"], ["codec", "text"]],
      phase.instances.map((i) => [i.id, i.node, i.layers.join("–"), i.samples, `${Math.round(i.cpu_share * 100)}%`, i.into || "the loss", i.codec])), "instances"));
}

function timelineSection(entry) {
  const measured = entry.run && entry.run.timeline && entry.run.timeline.length;
  if (!entry.timeline && !measured) return section("timeline", "One iteration", null, el("p", { class: "empty" }, "The plan carries no profile and no run is given, so there is no timeline. Give --profile and --cluster, or a run's folder."));
  const note = `Computing as thick bars, sending and receiving as thin lines under them.${measured ? ` Measured: iteration ${entry.run.shown}, the one of median length${entry.timeline ? "; above it, fainter, what was predicted" : ""}.` : " Predicted; give a run's folder to see what was measured under it."}`;
  const tools = el("div", { class: "tools" },
    Object.entries(KINDS).map(([kind, colour]) => toggle(!state.hiddenKinds.has(kind), kind === "update" ? "average, update" : kind === "transfer" ? "send, receive" : kind, colour, flip(state.hiddenKinds, kind), `kind-${kind}`)),
    entry.timeline && measured ? ["predicted", "measured"].map((track) => toggle(!state.hiddenTracks.has(track), track, null, flip(state.hiddenTracks, track), `track-${track}`)) : null,
    el("span", { class: "gap" }),
    [["−", "Show more time", 0.5], ["+", "Show less time, larger", 2]].map(([sign, label, factor]) =>
      el("button", { type: "button", class: "square", id: `zoom-${factor}`, "aria-label": label, onclick: () => { state.zoom = Math.min(64, Math.max(1, state.zoom * factor)); render(); } }, sign)));
  const rows = [...(entry.timeline || []).map((op) => ["predicted", op]), ...(measured ? entry.run.timeline.map((op) => ["measured", op]) : [])];
  return section("timeline", "One iteration", note, tools, boxed(drawTimeline(entry, wideOf(), state)),
    folded("As a table", table("operations", [["node"], ["instance", "text"], ["operation", "text"], ["", "text"], ["start"], ["end"], ["bytes"]],
      rows.slice(0, 2000).map(([track, op]) => [op[0], op[1], op[2], track, seconds(op[3]), seconds(op[4]), op[5] ? op[5].toLocaleString("en") : ""])), "operations"));
}

function lossSection() {
  if (!runs().length) return section("loss", "Loss", null, el("p", { class: "empty" }, "No run among what was given: palmette run trains by a plan and leaves a folder for this page."));
  const seen = runs().filter((entry) => !state.hiddenRuns.has(entry.name));
  const series = (key) => seen.map((entry) => {
    const pick = (rows) => rows.map((p) => ({ x: p[key], y: p[2], iteration: p[3], accuracy: p[4] ?? null })).filter((p) => p.x !== null && p.y !== null);
    return { name: entry.name, colour: runColour(entry), points: pick(entry.run.loss), judged: pick(entry.run.judged) };
  }).filter((each) => each.points.length);
  const legend = el("div", { class: "tools", role: "group", "aria-label": "Runs" },
    runs().map((entry) => toggle(!state.hiddenRuns.has(entry.name), entry.name, runColour(entry), flip(state.hiddenRuns, entry.name), `run-${entry.name}`)));
  const half = wideOf(2), empty = (why) => el("p", { class: "empty" }, why);
  const overTime = series(0), overEnergy = series(1);
  return section("loss", "Loss", "Against the time of the cluster (of the emulated clock, on a testbed) and against the energy spent so far. Rings: on held-out data.", legend,
    el("div", { class: "pair" },
      el("div", {}, el("h3", {}, "against time"), overTime.length ? boxed(drawLines("chart-loss-time", "Loss against time, a line a run.", overTime, half, seconds, "time")) : empty("Nothing to draw yet.")),
      el("div", {}, el("h3", {}, "against energy"), overEnergy.length ? boxed(drawLines("chart-loss-energy", "Loss against energy, a line a run.", overEnergy, half, joules, "energy")) : empty("The energy of these runs is not known: the cluster file gives no power for a node."))),
    folded("As a table", table("losses", [["run"], ["iteration"], ["loss"], ["time"], ["energy"]],
      seen.flatMap((entry) => entry.run.loss.slice(-400).map((p) => [entry.name, p[3], digits(p[2]), seconds(p[0]), joules(p[1])]))), "losses"));
}

function energySection(entry) {
  const tracks = [["predicted", entry.energy], ["measured run", entry.run ? entry.run.energy : null]].filter(([, found]) => found);
  if (!tracks.length) return section("energy", "Energy by node", null, el("p", { class: "empty" }, "Not known: the power of a node that takes part is not in the cluster file."));
  const tools = el("div", { class: "tools" }, PARTS.map(([key, text, colour]) => toggle(!state.hiddenParts.has(key), text, colour, flip(state.hiddenParts, key), `part-${key}`)));
  const whence = el("p", { class: "note", id: "energy-source" }, tracks.flatMap(([track, found], k) => [k ? el("br") : null, `${track}: `, source(found.source)]));
  const cells = (found, name) => found.nodes[name] || {};
  return section("energy", "Energy by node", null, whence, tools, boxed(drawEnergy(entry, wideOf(), state.hiddenParts)),
    folded("As a table", table("joules", [["node"], ["", "text"], ...PARTS.map(([, text]) => [text]), ["all"]],
      tracks.flatMap(([track, found]) => Object.keys(found.nodes).map((name) => [name, track, ...PARTS.map(([key]) => joules(cells(found, name)[key] ?? null)), joules(PARTS.reduce((sum, [key]) => sum + (cells(found, name)[key] || 0), 0))]))), "joules"));
}

function frontSection() {
  const front = data.front;
  if (!front) return null;
  const tools = el("div", { class: "tools" },
    strategiesOf(front).map((name) => toggle(!state.hiddenStrategies.has(name), name, strategyColour(front, name), flip(state.hiddenStrategies, name), `strategy-${name}`)),
    el("span", { class: "gap" }),
    toggle(state.log, "logarithmic", null, () => { state.log = !state.log; render(); }, "log"));
  const positive = front.points.every((p) => p.time_s > 0 && p.energy_j > 0);
  const rows = front.rows;
  return section("front", "Time and energy of all strategies", "Every strategy that applies, planned for time and for energy. What nothing beats in both is on the dashed line; rings are the plans of this page, diamonds what was measured.",
    front.points.length ? tools : null,
    front.points.length ? boxed(drawFront(front, wideOf(), { ...state, log: state.log && positive })) : el("p", { class: "empty" }, "No energies are known, so there is no front."),
    table("strategies", [["strategy"], ["planned for", "text"], ["iteration"], ["energy"], ["energy × time"], ["nodes", "text"], ["front", "text"], ...(front.worlds.length > 1 ? [["training", "text"]] : [])],
      rows.map((row) => [row.strategy, row.goal, seconds(row.time_s), joules(row.energy_j), row.energy_j === null ? "–" : product(row.time_s * row.energy_j), row.nodes, row.front ? "on it" : "", row.world].slice(0, front.worlds.length > 1 ? 8 : 7)), -1),
    front.skipped.length ? folded(`${plural(front.skipped.length, "strategy").replace("strategys", "strategies")} left out`, table("skipped", [["strategy"], ["why", "wide text"]], front.skipped), "skipped") : null);
}

function runsSection() {
  const rows = data.entries.map((entry) => {
    const { estimate, run } = entry;
    const off = estimate && run && run.iteration_s && estimate.iteration_s && run.emulated ? percent(run.iteration_s / estimate.iteration_s - 1) : "–";
    return [entry.name, entry.kind, entry.strategy, entry.model, entry.batch, seconds(estimate ? estimate.iteration_s : null), seconds(run ? run.iteration_s : null), off,
      joules(estimate ? estimate.iteration_j : null), run ? run.iterations : "–", joules(run ? run.energy_j : null), run ? run.ended : "–"];
  });
  return section("numbers", "The numbers", null, table("entries", [["name"], ["", "text"], ["strategy", "text"], ["model", "text"], ["batch"], ["predicted"], ["measured"], ["error"], ["energy an iteration"], ["iterations"], ["energy of the run"], ["ended", "text"]], rows, state.entry));
}

let pending = 0;
addEventListener("resize", () => { cancelAnimationFrame(pending); pending = requestAnimationFrame(render); });
render();
if (data.live) listen();
