// The cluster, tier by tier, with its links; on it the instance tree, its layers from left to right.
const TIERS = ["cloud", "edge", "device"];
const tierOf = (cluster, name) => (cluster && cluster.nodes[name] ? cluster.nodes[name].tier : "unknown");
const tierColour = (tier) => (TIERS.includes(tier) ? `var(--${tier})` : "var(--faint)");
const tierFill = (tier) => (TIERS.includes(tier) ? `var(--${tier}-fill)` : "var(--hover)");
const MAX_LANES = 24;
const LABELLED_NODES = 12;
const PASSING_LINKS = 2;

// Nodes that are equal in what they are, in their links and in what they do; the first stands for all of them.
const FOLDED_FROM = 9;
function equalNodes(entry, phase) {
  const names = entry.cluster ? Object.keys(entry.cluster.nodes) : [];
  const groups = new Map();
  const role = (name) => [...phase.instances.filter((i) => i.node === name).map((i) => [i.layers, i.cpu_share, i.codec, i.into && phase.instances.find((other) => other.id === i.into).node === name]),
    phase.sources.filter((s) => s.node === name).map((s) => [s.delivery, phase.instances.find((i) => i.id === s.into).node === name]), phase.server === name];
  const links = (name) => entry.cluster.links.filter((link) => link.between.includes(name)).map((link) => [tierOf(entry.cluster, link.between.find((end) => end !== name)), ...(link.between[0] === name ? [link.up_bps, link.down_bps] : [link.down_bps, link.up_bps]), link.latency_s]).map(String).sort();
  for (const name of names) {
    const key = JSON.stringify([{ ...entry.cluster.nodes[name], samples: null }, role(name), links(name)]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(name);
  }
  return [...groups.values()];
}
const foldsNodes = (entry, phase) => entry.cluster && Object.keys(entry.cluster.nodes).length >= FOLDED_FROM && equalNodes(entry, phase).some((group) => group.length > 1);

// How many nodes each of those that are shown stands for, by name; null where all are shown.
function shownFor(entry) {
  const phase = entry.phases[Math.min(state.phase, entry.phases.length - 1)];
  if (!phase || !state.folded || !foldsNodes(entry, phase)) return null;
  return byName(equalNodes(entry, phase).map((group) => [group[0], group.length]));
}
const timesName = (name, many) => (many && many[name] > 1 ? `${many[name]} × ${name}` : name);

// The entry and the phase with one node for each group of equal ones, and how many each stands for.
function foldedView(entry, phase) {
  const stands = byName(), many = byName();
  for (const group of equalNodes(entry, phase)) {
    for (const name of group) stands[name] = group[0];
    many[group[0]] = group.length;
  }
  const links = new Map();
  for (const link of entry.cluster.links) {
    const between = link.between.map((name) => stands[name]), key = [...between].sort().join("\n");
    if (between[0] === between[1]) continue;
    if (links.has(key)) links.get(key).many += 1;
    else links.set(key, { ...link, between, many: 1 });
  }
  const nodes = byName(Object.entries(entry.cluster.nodes).filter(([name]) => stands[name] === name));
  const kept = phase.instances.filter((i) => stands[i.node] === i.node);
  const ids = new Set(kept.map((i) => i.id));
  return [{ ...entry, cluster: { nodes, links: [...links.values()] }, many },
    { ...phase, instances: kept.map((i) => (i.into && !ids.has(i.into) ? { ...i, into: null, elsewhere: i.into } : i)), sources: phase.sources.filter((s) => stands[s.node] === s.node && ids.has(s.into)) }];
}

// Nodes in the order of the picture: cloud on top, then edge, then devices, those of one server side by side; unused
// nodes are dropped first.
function lanesOf(entry, phase) {
  const used = new Set([...phase.sources.map((s) => s.node), ...phase.instances.map((i) => i.node), ...(phase.server ? [phase.server] : [])]);
  const all = entry.cluster ? Object.keys(entry.cluster.nodes) : [...used];
  const order = (name) => TIERS.indexOf(tierOf(entry.cluster, name));
  const wanted = [...all.filter((name) => used.has(name)), ...all.filter((name) => !used.has(name))].slice(0, MAX_LANES);
  const above = byName();
  for (const { between } of entry.cluster ? entry.cluster.links : []) {
    const [upper, lower] = [...between].sort((a, b) => order(a) - order(b));
    if (order(upper) < order(lower)) above[lower] = Math.min(above[lower] ?? Infinity, all.indexOf(upper));
  }
  const place = (a, b) => order(a) - order(b) || (above[a] ?? -1) - (above[b] ?? -1) || all.indexOf(a) - all.indexOf(b);
  return { names: wanted.sort(place), left: all.length - wanted.length };
}

// Instances of a node with overlapping layers are stacked.
function packed(instances) {
  const rows = [];
  for (const each of [...instances].sort((a, b) => a.layers[0] - b.layers[0])) {
    const row = rows.find((taken) => taken.every((other) => other.layers[1] < each.layers[0]));
    if (row) row.push(each);
    else rows.push([each]);
  }
  return rows;
}

function drawTree(entry, phase, width) {
  if (state.folded && foldsNodes(entry, phase)) [entry, phase] = foldedView(entry, phase);
  const narrow = width < 620;
  const { names, left } = lanesOf(entry, phase);
  const depth = Math.max(...phase.instances.map((i) => i.layers[1]));
  const alike = names.length > LABELLED_NODES || passing(entry, names) > PASSING_LINKS ? equalLinks(entry, names) : null;
  const step = narrow ? 6 : 10;
  const boxWide = narrow ? 92 : 148, gutter = alike ? (alike.length + 1) * step : narrow ? 26 : 40, feedWide = narrow ? 52 : 78;
  const start = gutter + boxWide + feedWide, end = width - (narrow ? 34 : 62), cell = (end - start) / depth;
  const barHigh = 26, rowHigh = 38, gap = narrow ? 34 : 40;
  const lane = byName();
  let y = 40;
  for (const name of names) {
    const rows = packed(phase.instances.filter((i) => i.node === name));
    const high = Math.max(1, rows.length) * rowHigh;
    lane[name] = { top: y, high, mid: y + high / 2, rows };
    y += high + gap;
  }
  const height = y - gap + 18;
  const drawn = chart("chart-tree", "The cluster with its links, and the instance tree on it.", width, height);
  drawLayers(drawn, entry, depth, start, cell, height);
  if (alike) drawEqualLinks(drawn, alike, lane, gutter, step, boxWide + feedWide);
  else drawLinks(drawn, entry, names, lane, gutter, boxWide, narrow);
  const at = byName();
  for (const name of names) {
    const { top, mid, high, rows } = lane[name];
    drawn.append(svg("line", { class: "axis", x1: gutter + boxWide, x2: end, y1: mid, y2: mid, "stroke-width": 2 }));
    drawNode(drawn, entry, phase, name, gutter, mid, boxWide, Math.min(high, 46));
    rows.forEach((row, k) => row.forEach((i) => {
      const box = { x: start + (i.layers[0] - 1) * cell + 3, y: top + k * rowHigh + (rowHigh - barHigh) / 2, wide: (i.layers[1] - i.layers[0] + 1) * cell - 6 };
      at[i.id] = { ...box, mid: box.y + barHigh / 2, right: box.x + box.wide, instance: i };
    }));
  }
  drawReplicas(drawn, phase, at, start, cell);
  drawFlows(drawn, phase, at, lane, gutter + boxWide + 16);
  for (const place of Object.values(at)) drawInstance(drawn, entry, place, barHigh, depth);
  if (left) drawn.append(svg("text", { class: "small", x: gutter, y: height - 2 }, `and ${plural(left, "node")} not shown`));
  return drawn;
}

function drawLayers(drawn, entry, depth, start, cell, height) {
  const every = Math.max(1, Math.ceil(26 / cell));
  for (let k = 1; k <= depth; k += 1) {
    const x = start + (k - 0.5) * cell;
    const name = entry.layers[k - 1] || `layer ${k}`;
    const text = cell >= 46 ? fit(name, cell - 4, 11.5) : (k - 1) % every === 0 ? String(k) : "";
    if (text) drawn.append(svg("text", { class: "small", x, y: 16, "text-anchor": "middle" }, text));
    if (k > 1 && cell > 8) drawn.append(svg("line", { class: "grid", x1: x - cell / 2, x2: x - cell / 2, y1: 26, y2: height - 16, "stroke-dasharray": "2 5" }));
  }
}

const linkRate = (link) => (link.up_bps === link.down_bps ? rate(link.up_bps) : `${rate(link.up_bps)} up, ${rate(link.down_bps)} down`);
const linkFacts = (link) => [`${linkRate(link)}${link.duplex === "half" ? ", half duplex" : ""}`,
  ...(link.varies ? ["it varies: that is the mean"] : []),
  ...(link.loss_share ? [`as TCP reaches it with ${digits(link.loss_share * 100)}% of packets lost`] : []),
  ...(link.latency_s ? [`latency ${seconds(link.latency_s)}${link.jitter_s ? `, jitter ${seconds(link.jitter_s)}` : ""}`] : []),
  ...(link.energy_j_per_bit ? [`${digits(link.energy_j_per_bit * 1e9)} nJ/bit`] : [])];
const linkLines = (link) => [`${link.between[0]} – ${link.between[1]}`, ...linkFacts(link),
  ...(link.up_bps === link.down_bps ? [] : [`up is from ${link.between[0]} to ${link.between[1]}`])];

function drawLinks(drawn, entry, names, lane, gutter, boxWide, narrow) {
  const links = (entry.cluster ? entry.cluster.links : []).filter((link) => link.between.every((name) => lane[name]));
  const below = byName();
  let level = 0;
  for (const link of links) {
    const [a, b] = [...link.between].sort((p, q) => lane[p].mid - lane[q].mid);
    const near = Math.abs(names.indexOf(a) - names.indexOf(b)) === 1;
    const x = gutter + (narrow ? 22 : 34);
    const y1 = lane[a].mid, y2 = lane[b].mid;
    const bend = gutter - (narrow ? 4 : 8) - 4 * (level % 5);
    if (!near) level += 1;
    const path = near ? `M${x} ${y1}V${y2}` : `M${gutter} ${y1}C${bend - 14} ${y1} ${bend - 14} ${y2} ${gutter} ${y2}`;
    drawn.append(svg("path", { d: path, fill: "none", stroke: "var(--faint)", "stroke-width": 2 }),
      mark(svg("path", { d: path, fill: "none", stroke: "transparent", "stroke-width": 16, class: "link" }), () => linkLines(link)));
    if (near) drawn.append(svg("text", { class: "small", x: x + 8, y: (y1 + y2) / 2 + 4 }, linkRate(link)));
    else (below[b] = below[b] || []).push(`${a}: ${linkRate(link)}`);
  }
  // A link that passes other nodes is named where it ends, below the lower node.
  for (const [name, texts] of Object.entries(below)) {
    labelBelow(drawn, lane[name], gutter, [texts.length > 1 ? `${texts[0]}, +${texts.length - 1}` : texts[0]], boxWide + (narrow ? 6 : 40));
  }
}

function labelBelow(drawn, place, x, texts, wide) {
  const bottom = place.mid + Math.min(place.high, 46) / 2;
  texts.forEach((text, k) => drawn.append(svg("text", { class: "small linked", x: x + 2, y: bottom + 14 + 13 * k }, fit(text, wide, 11.5))));
}

// How many links pass a node on their way in the picture.
const passing = (entry, names) => (entry.cluster ? entry.cluster.links : [])
  .map((link) => link.between.map((name) => names.indexOf(name))).filter(([a, b]) => a >= 0 && b >= 0 && Math.abs(a - b) > 1).length;

// Equal links of one node to others below it, in the order of the picture; the lowest node first, so that its are inmost.
function equalLinks(entry, names) {
  const alike = new Map(), place = (name) => names.indexOf(name);
  for (const link of entry.cluster ? entry.cluster.links : []) {
    if (!link.between.every((name) => names.includes(name))) continue;
    const [upper, lower] = [...link.between].sort((a, b) => place(a) - place(b));
    const key = JSON.stringify([upper, linkFacts(link)]);
    if (!alike.has(key)) alike.set(key, { upper, links: [] });
    alike.get(key).links.push([link, lower]);
  }
  return [...alike.values()].sort((a, b) => place(b.upper) - place(a.upper));
}

// Many links: equal ones share a line on the left, with a dot where one of them leaves it, and one label.
//
//     ┌─●── edge-1
//     │     3 links of 20 Mbit/s
//     ├─●── phone-1
//     └─●── phone-2
function drawEqualLinks(drawn, alike, lane, gutter, step, wide) {
  const below = byName();
  alike.forEach(({ upper, links }, k) => {
    const x = gutter - (k + 1) * step, top = lane[upper].mid, ends = links.map(([, lower]) => lane[lower].mid);
    const [link] = links[0], count = links.reduce((sum, [one]) => sum + (one.many || 1), 0), many = plural(count, "link");
    const trunk = `M${gutter} ${top}H${x}V${Math.max(...ends)}`;
    const stubs = ends.map((y) => `M${x} ${y}H${gutter}`);
    const wires = svg("path", { class: "wire", d: [trunk, ...stubs].join(""), fill: "none", "stroke-width": 1.5 });
    const whole = mark(svg("path", { d: trunk, fill: "none", stroke: "transparent", "stroke-width": step, class: "alike" }),
      () => [`${upper}: ${many}`, ...linkFacts(link), `to ${links.map(([, lower]) => lower).join(", ")}`]);
    const each = links.map(([one], n) => mark(svg("path", { d: stubs[n], stroke: "transparent", "stroke-width": 18, class: "link" }), () => linkLines(one)));
    const dots = [top, ...ends].map((y) => svg("circle", { class: "joint", cx: x, cy: y, r: 2.5, "pointer-events": "none" }));
    drawn.append(svg("g", { class: "wires" }, wires, whole, each, dots));
    (below[upper] = below[upper] || []).push(count > 1 ? `${many} of ${linkRate(link)}` : `${links[0][1]}: ${linkRate(link)}`);
  });
  for (const [name, texts] of Object.entries(below)) {
    const shown = texts.length > 2 ? [texts[0], `${texts[1]}, +${texts.length - 2}`] : texts;
    labelBelow(drawn, lane[name], gutter, shown, wide);
  }
}

function drawNode(drawn, entry, phase, name, x, mid, wide, high) {
  const tier = tierOf(entry.cluster, name), known = entry.cluster ? entry.cluster.nodes[name] : null;
  const idle = !phase.instances.some((i) => i.node === name) && !phase.sources.some((s) => s.node === name) && phase.server !== name;
  const many = entry.many && entry.many[name] > 1 ? entry.many[name] : 0;
  const lines = () => [many ? `${name} and ${many - 1} like it: ${tier}` : `${name}: ${tier}`, ...(known ? nodeFacts(known) : []), ...(idle ? ["not used by this plan"] : [])];
  const box = svg("rect", { x, y: mid - high / 2, width: wide, height: high, rx: 9, fill: tierFill(tier), stroke: tierColour(tier), "stroke-width": 1.5, class: "node" });
  drawn.append(svg("rect", { x, y: mid - high / 2, width: wide, height: high, rx: 9, fill: "var(--card)" }));
  const group = svg("g", { opacity: idle ? 0.55 : 1 }, mark(box, lines),
    svg("text", { class: "bold", x: x + wide / 2, y: mid - 2, "text-anchor": "middle", "pointer-events": "none" }, fit(timesName(name, entry.many), wide - 12)),
    svg("text", { class: "small", x: x + wide / 2, y: mid + 14, "text-anchor": "middle", "pointer-events": "none" }, tier));
  drawn.append(group);
}

function nodeFacts(node) {
  const facts = [];
  if (node.hardware) facts.push(node.hardware);
  if (node.memory_bytes) facts.push(`memory ${bytes(node.memory_bytes)}`);
  if (node.idle_w !== null) facts.push(`${digits(node.idle_w)} W idle, ${digits(node.busy_w)} W busy`);
  if (node.cpu_share < 1) facts.push(`may use ${Math.round(node.cpu_share * 100)}% of its CPU`);
  if (node.samples) facts.push(`owns ${node.samples.toLocaleString("en")} samples${node.private ? ", private" : ""}`);
  return facts;
}

function drawReplicas(drawn, phase, at, start, cell) {
  if (phase.sync === "async") return;
  const places = Object.values(at);
  for (let k = 0; k < places.length; k += 1) {
    for (let other = k + 1; other < places.length; other += 1) {
      const [a, b] = [places[k].instance, places[other].instance];
      const first = Math.max(a.layers[0], b.layers[0]), last = Math.min(a.layers[1], b.layers[1]);
      if (first > last || a.node === b.node) continue;
      const between = places.some((p) => p !== places[k] && p !== places[other] && p.instance.layers[0] <= last && p.instance.layers[1] >= first
        && (p.mid - places[k].mid) * (p.mid - places[other].mid) < 0);
      if (between) continue;
      const x = start + ((first - 1 + last) / 2) * cell + ((k + other) % 3) * 5;
      drawn.append(svg("path", { d: `M${x} ${places[k].mid}V${places[other].mid}`, stroke: "var(--bark)", "stroke-width": 2, "stroke-dasharray": "1 5", "stroke-linecap": "round" }));
    }
  }
}

function drawFlows(drawn, phase, at, lane, feedX) {
  const curve = (x1, y1, x2, y2) => {
    const bend = Math.max(14, Math.min(46, Math.abs(x2 - x1) / 2));
    return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  };
  const thin = phase.instances.length > 2 * LABELLED_NODES ? 1 : 0;
  for (const i of phase.instances) {
    if (i.into && at[i.into] && at[i.id]) {
      const a = at[i.id], b = at[i.into];
      drawn.append(svg("path", { d: curve(a.right, a.mid, b.x, b.mid), fill: "none", stroke: "var(--soft)", "stroke-width": (i.codec === "none" ? 2 : 2.5) - thin, "stroke-dasharray": i.codec === "none" ? null : "7 4" }));
    }
  }
  phase.sources.forEach((source) => {
    const place = at[source.into], home = lane[source.node];
    if (!place || !home) return;
    const lines = () => [`${plural(source.samples, "sample")} per iteration`, `from ${source.node} into ${source.into}`,
      ...(source.delivery === "once" ? ["sent once, and kept"] : []),
      ...(source.epoch_samples ? [`${source.epoch_samples.toLocaleString("en")} per epoch`] : [])];
    drawn.append(svg("path", { d: curve(feedX, home.mid, place.x, place.mid), fill: "none", stroke: "var(--device)", "stroke-width": 2 }),
      mark(svg("circle", { cx: feedX, cy: home.mid, r: 6, fill: "var(--device)", class: "source" }), lines));
    const text = String(source.samples);
    const x = place.x - 7, y = place.mid - 6;
    drawn.append(svg("text", { class: "small", x, y, "text-anchor": "end" }, text));
  });
}

function drawInstance(drawn, entry, place, high, depth) {
  const i = place.instance, tier = tierOf(entry.cluster, i.node);
  const [first, last] = i.layers;
  const names = first === last ? entry.layers[first - 1] || `layer ${first}` : `${entry.layers[first - 1] || first} – ${entry.layers[last - 1] || last}`;
  const lines = () => [`${i.id} on ${i.node}`, `layers ${first} to ${last}: ${names}`, `${plural(i.samples, "sample")} per iteration`,
    ...(i.cpu_share < 1 ? [`${Math.round(i.cpu_share * 100)}% of the CPU`] : []),
    ...(i.recompute ? ["recomputes its activations"] : []),
    i.into ? `into ${i.into}${i.codec === "none" ? "" : `, sent as ${i.codec}`}` : "computes the loss"];
  const wide = Math.max(place.wide, 3);
  drawn.append(mark(svg("rect", { x: place.x, y: place.y, width: wide, height: high, rx: Math.min(7, wide / 2), fill: tierFill(tier), stroke: tierColour(tier), "stroke-width": 1.5, class: "instance" }), lines));
  const text = [`${i.id} · ${i.samples}`, String(i.samples)].find((each) => measure(each) < wide - 6);
  if (text) drawn.append(svg("text", { x: place.x + wide / 2, y: place.mid + 4.5, "text-anchor": "middle", "pointer-events": "none" }, text));
  if (!i.into && !i.elsewhere && last === depth) {
    const x = place.right + 17;
    drawn.append(svg("path", { d: `M${place.right} ${place.mid}H${x - 9}`, stroke: "var(--bark)", "stroke-width": 2 }),
      svg("circle", { cx: x, cy: place.mid, r: 9, fill: "var(--bark)" }),
      svg("text", { x, y: place.mid + 4, "text-anchor": "middle", "font-size": 11, "pointer-events": "none", style: "fill:var(--paper)" }, "L"));
  }
}
