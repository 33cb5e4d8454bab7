// One iteration, node by node: the prediction above the measurement.
const KINDS = { forward: "var(--forward)", backward: "var(--backward)", update: "var(--update)", transfer: "var(--transfer)" };
const kindOf = (op) => (op === "send" || op === "receive" ? "transfer" : op === "average" ? "update" : op.split(" ")[0]); // "backward weights" is backward
const MAX_ROWS = 40;

function drawTimeline(entry, width, state) {
  const tracks = [["predicted", entry.timeline], ["measured", entry.run ? entry.run.timeline : null]].filter(([name, ops]) => ops && ops.length && !state.hiddenTracks.has(name));
  const many = shownFor(entry);
  const all = [...new Set(tracks.flatMap(([, ops]) => ops.map((op) => op[0])))].filter((name) => !many || many[name]);
  const order = entry.cluster ? Object.keys(entry.cluster.nodes) : all;
  const rank = (name) => TIERS.indexOf(tierOf(entry.cluster, name)) * 1e6 + order.indexOf(name);
  const nodes = all.sort((a, b) => rank(a) - rank(b)).slice(0, MAX_ROWS);
  const labelWide = width < 620 ? 12 : 82, trackHigh = 24, head = 22;
  const end = Math.max(...tracks.flatMap(([, ops]) => ops.map((op) => op[4])), 1e-12);
  const wide = (width - labelWide - 14) * state.zoom + labelWide + 14;
  const laneHigh = head + tracks.length * trackHigh + 12;
  const height = 28 + nodes.length * laneHigh + 40;
  const x = scale(0, end, labelWide, wide - 14);
  const drawn = chart("chart-timeline", "The operations of one iteration by node, predicted and measured.", wide, height);
  const frame = { left: labelWide, right: wide - 14, bottom: height - 40 };
  for (const tick of x.ticks) drawn.append(svg("line", { class: "grid", x1: x.at(tick), x2: x.at(tick), y1: 18, y2: frame.bottom }));
  axes(drawn, x, { ticks: [], at: () => 0 }, frame, seconds, String, "seconds since the iteration began", "");
  nodes.forEach((name, row) => {
    const top = 24 + row * laneHigh, tier = tierOf(entry.cluster, name);
    if (row) drawn.append(svg("line", { class: "grid", x1: 0, x2: wide, y1: top - 7, y2: top - 7 }));
    drawn.append(svg("rect", { x: 0, y: top, width: 4, height: laneHigh - 14, rx: 2, fill: tierColour(tier) }),
      svg("text", { class: "bold", x: 12, y: top + 11 }, fit(timesName(name, many), width - 40)));
    tracks.forEach(([track, ops], k) => {
      const y = top + head + k * trackHigh;
      if (labelWide > 12) drawn.append(svg("text", { class: "small", x: 12, y: y + 12 }, track));
      for (const op of ops) if (op[0] === name && !state.hiddenKinds.has(kindOf(op[2]))) drawOperation(drawn, op, x, y, track, entry.run);
    });
  });
  if (all.length > nodes.length) drawn.append(svg("text", { class: "small", x: 0, y: height - 4 }, `and ${plural(all.length - nodes.length, "node")} more`));
  return drawn;
}

function drawOperation(drawn, [node, instance, op, start, end, carried], x, y, track, run) {
  const kind = kindOf(op), moves = kind === "transfer";
  const from = x.at(start), wide = Math.max(x.at(end) - from, 1.5);
  const lines = () => [`${op} of ${instance} on ${node}`, `${track}: ${seconds(start)} to ${seconds(end)}, ${seconds(end - start)}`, ...(carried ? [bytes(carried)] : [])];
  const bar = svg("rect", {
    x: from, y: moves ? y + (op === "send" ? 13 : 17.5) : y, width: wide, height: moves ? 3.5 : 12, rx: Math.min(2, wide / 2),
    fill: KINDS[kind], opacity: (track === "predicted" && run ? 0.55 : 1) * (op === "backward weights" ? 0.6 : 1), class: `op ${op} ${track}`,
  });
  drawn.append(mark(bar, lines));
}
