"""How much an iteration varies with links whose bandwidth is a trace, and when planning again pays."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.moments import moments
from palmette.plan.auto.links import LinkThreshold
from palmette.plan.auto.objective import PlanObjective
from palmette.spec.plan import Plan
from palmette.spec.reading import time


def describe_varying(chosen: Plan, objective: PlanObjective, thresholds: Sequence[LinkThreshold]) -> str:
    """What is said about moments; nothing where no link varies."""
    cluster = objective.task.cluster
    if not cluster.varies:
        return ""
    found = moments(chosen.phases[0], objective.task.evaluator)
    least, most = time(found["iteration_s_0.1"]), time(found["iteration_s_0.9"])
    said = [f"As links vary, an iteration takes {least} to {most} in eight of ten moments."]
    traces = {link.between: link.bandwidth_trace for link in cluster.links}
    for each in thresholds:
        trace = traces.get(each.between)
        if trace is None:
            continue
        share, period_s = trace.periods(*each.rates_bps, above=each.direction == "above")
        if share:
            ends = f"{each.between[0]} and {each.between[1]}"
            beyond = f"The link between {ends} is {each.direction} that for {share:.0%} of the time"
            said.append(f"{beyond}, {time(period_s)} at a time: planning again pays if a change takes less.")
    if len(said) == 1:
        said.append("No link leaves the range in which this plan is the best; planning again does not pay.")
    return " ".join(said)
