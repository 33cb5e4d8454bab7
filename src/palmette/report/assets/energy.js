// The energy of one iteration by node: idle, computing and sending.
const PARTS = [["idle_j", "idle", "var(--idle)"], ["computing_j", "computing", "var(--computing)"], ["links_j", "sending over links", "var(--links)"]];

function drawEnergy(entry, width, hidden) {
  const tracks = [["predicted", entry.energy], ["measured run", entry.run ? entry.run.energy : null]].filter(([, found]) => found);
  const many = shownFor(entry);
  const names = [...new Set(tracks.flatMap(([, found]) => Object.keys(found.nodes)))].filter((name) => !many || many[name]).slice(0, MAX_ROWS);
  const labelWide = width < 620 ? 12 : 110, barHigh = 18, head = 22;
  const shownParts = PARTS.filter(([key]) => !hidden.has(key));
  const sum = (parts) => shownParts.reduce((total, [key]) => total + (parts ? parts[key] || 0 : 0), 0);
  const most = Math.max(...tracks.flatMap(([, found]) => names.map((name) => sum(found.nodes[name]))), 1e-12);
  const laneHigh = head + tracks.length * (barHigh + 4) + 14, height = names.length * laneHigh + 44;
  const frame = { left: labelWide, right: width - 76, bottom: height - 40 };
  const x = scale(0, most, frame.left, frame.right);
  const drawn = chart("chart-energy", "The energy of one iteration by node: idle, computing, sending.", width, height);
  for (const tick of x.ticks) drawn.append(svg("line", { class: "grid", x1: x.at(tick), x2: x.at(tick), y1: 0, y2: frame.bottom }));
  axes(drawn, x, { ticks: [], at: () => 0 }, frame, joules, String, "joules of one iteration", "");
  names.forEach((name, row) => {
    const top = row * laneHigh + 6;
    drawn.append(svg("rect", { x: 0, y: top, width: 4, height: laneHigh - 14, rx: 2, fill: tierColour(tierOf(entry.cluster, name)) }),
      svg("text", { class: "bold", x: 12, y: top + 12 }, fit(timesName(name, many), width - 40)));
    tracks.forEach(([track, found], k) => {
      const y = top + head + k * (barHigh + 4), parts = found.nodes[name];
      let from = 0;
      if (labelWide > 12) drawn.append(svg("text", { class: "small", x: 12, y: y + 13 }, track));
      for (const [key, text, colour] of shownParts) {
        const value = parts ? parts[key] || 0 : 0;
        if (value > 0) {
          const bar = svg("rect", { x: x.at(from), y, width: Math.max(x.at(from + value) - x.at(from), 1), height: barHigh, fill: colour, opacity: track === "predicted" && tracks.length > 1 ? 0.6 : 1, class: `part ${key}` });
          drawn.append(mark(bar, () => [`${name}, ${track}`, `${text}: ${joules(value)} of ${joules(sum(parts))}`, found.source]));
        }
        from += value;
      }
      const text = parts ? `${joules(sum(parts))}${many && many[name] > 1 ? " each" : ""}` : "not known";
      drawn.append(svg("text", { class: "small", x: x.at(from) + 6, y: y + 13 }, text));
    });
  });
  return drawn;
}
