// Loss against time or energy: one line per run, rings where it was evaluated on held-out data.
function drawLoss(id, label, series, width, xText, xTitle) {
  const points = series.flatMap((each) => each.points);
  const height = 290, frame = { left: 46, right: width - 12, top: 24, bottom: height - 44 };
  const drawn = chart(id, label, width, height);
  const high = Math.max(...points.map((p) => p.x)), low = Math.min(0, ...points.map((p) => p.x));
  const losses = [...points.map((p) => p.y), ...series.flatMap((each) => each.evaluated.map((p) => p.y))];
  const most = Math.max(...losses), least = Math.min(...losses), room = (most - least) * 0.08 || most * 0.1 || 1;
  const x = scale(low, high || 1, frame.left, frame.right), y = scale(Math.max(0, least - room), most + room, frame.bottom, frame.top);
  axes(drawn, x, y, frame, xText, digits, xTitle, "loss");
  const guide = svg("line", { class: "axis", y1: frame.top, y2: frame.bottom, visibility: "hidden" });
  drawn.append(guide);
  for (const each of series) {
    const path = each.points.map((p, k) => `${k ? "L" : "M"}${x.at(p.x).toFixed(1)} ${y.at(p.y).toFixed(1)}`).join("");
    drawn.append(svg("path", { d: path, fill: "none", stroke: each.colour, "stroke-width": 2, "stroke-linejoin": "round", class: "line", "data-run": each.name, "data-points": each.points.length }));
    for (const p of each.evaluated) {
      drawn.append(mark(svg("circle", { cx: x.at(p.x), cy: y.at(p.y), r: 5, fill: "var(--card)", stroke: each.colour, "stroke-width": 2, class: "evaluated" }),
        () => [each.name, `held-out data after iteration ${p.iteration}: loss ${digits(p.y)}${p.accuracy === null ? "" : `, accuracy ${(p.accuracy * 100).toFixed(1)}%`}`]));
    }
    const dots = each.points.length <= 60 ? each.points : each.points.filter((_, k) => k % Math.ceil(each.points.length / 60) === 0);
    for (const p of dots) {
      const dot = svg("circle", { cx: x.at(p.x), cy: y.at(p.y), r: dots.length > 30 ? 2 : 3, fill: each.colour, class: "dot" });
      drawn.append(mark(dot, () => lineFacts(each, p, xText)));
    }
  }
  drawn.addEventListener("pointermove", (event) => {
    const box = drawn.getBoundingClientRect(), px = event.clientX - box.left;
    if (event.target.classList.contains("mark") || !series.length) return;
    if (px < frame.left || px > frame.right) { guide.setAttribute("visibility", "hidden"); hideTip(); return; }
    const near = series.map((each) => [each, each.points.reduce((a, b) => (Math.abs(x.at(b.x) - px) < Math.abs(x.at(a.x) - px) ? b : a))]);
    guide.setAttribute("x1", px); guide.setAttribute("x2", px); guide.setAttribute("visibility", "visible");
    showTip([xTitle, ...near.map(([each, p]) => `${each.name}: loss ${digits(p.y)} at ${xText(p.x)}`)], event.clientX, event.clientY);
  });
  drawn.addEventListener("pointerleave", () => { guide.setAttribute("visibility", "hidden"); hideTip(); });
  return drawn;
}

const lineFacts = (each, p, xText) => [each.name, `iteration ${p.iteration}: loss ${digits(p.y)}`, `at ${xText(p.x)}`];
