// While a run is in progress: how far it is, and what each node is doing; polls its server every second.
function liveSection(entry) {
  const live = data.live, run = entry.run;
  const still = run.ended !== "running";
  const head = el("p", { id: "live-state" }, el("span", { class: `pulse${still ? " still" : ""}` }), live.lost ? "The server has stopped; this is its last update." : still ? `The run has ended: ${run.ended}.`
    : run.iterations ? `Running: ${plural(run.iterations, "iteration")}${live.loss === null ? "" : `, loss ${digits(live.loss)}`}, the last ended ${seconds(live.age_s)} ago.` : "The run has not finished its first iteration.");
  const cards = Object.entries(live.nodes).map(([name, node]) => el("div", { class: tierOf(entry.cluster, name), "data-node": name },
    el("b", {}, name), el("div", { class: "doing" }, still ? "done" : node.now || "waiting"),
    node.last ? el("div", { class: "note" }, `last: ${node.last}`) : null,
    node.share === null ? null : el("div", { class: "note" }, `computed for ${Math.round(node.share * 100)}% of the last iteration`)));
  return section("now", "Now", null, head, el("div", { class: "now" }, cards), still ? null : el("p", { class: "note" }, "The current operation is predicted from the plan; the last one is from the trace."));
}

async function listen() {
  try {
    const answer = await fetch("data", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    data = parsed(await answer.text());
  } catch {
    data.live.lost = true;
    render();
    return;
  }
  render();
  if (data.entries[0].run.ended === "running") setTimeout(listen, 1000);
}
