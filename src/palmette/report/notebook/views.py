"""What a notebook shows of each thing: its facts in a table; of a plan also the tree and one iteration."""

from __future__ import annotations

from functools import singledispatch

from palmette.errors import InputError
from palmette.plan.core.comparison import Comparison
from palmette.report.entry import ReportEntry
from palmette.report.notebook.markup import facts_table, heading, note, table
from palmette.report.notebook.timeline import timeline_svg
from palmette.report.notebook.tree import tree_svg
from palmette.report.plan_view import JsonObject, plan_view
from palmette.spec.cluster import Cluster, Node
from palmette.spec.display import Displayed
from palmette.spec.estimate import Estimate
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.spec.reading import carbon, energy, layer_range, money, rates, size, time


def html_of(shown: Displayed) -> str:
    """A thing as HTML that stands alone."""
    return f"<div>{_body(shown)}</div>"


@singledispatch
def _body(shown: Displayed) -> str:
    """Its facts, unless there is more to show below."""
    return heading(type(shown).__name__) + facts_table(shown.facts())


@_body.register
def _plan(plan: Plan) -> str:
    view = _view(plan)
    parts = [heading(plan.strategy, f" for {plan.model}, batch {plan.batch}")]
    for number, phase in enumerate(plan.phases):
        if len(plan.phases) > 1:
            epochs = "" if phase.epochs is None else f", {phase.epochs} epochs"
            pruned = f", {phase.pruning:.0%} pruned" if phase.pruning else ""
            parts.append(heading(f"phase {number + 1}", f" ({phase.sync}{epochs}{pruned})"))
        parts += [tree_svg(view["phases"][number], view["cluster"])] if view else []
        parts.append(_instances(phase))
    if plan.estimate is not None:
        parts.append(_estimate(plan.estimate))
    if view and view["timeline"]:
        parts += [heading("one iteration", ", as estimated"), timeline_svg(view["timeline"])]
    why = plan.decision.get("why")
    return "".join([*parts, note(why) if isinstance(why, str) else ""])


def _view(plan: Plan) -> JsonObject | None:
    """The plan as its report shows it; None where it does not fit its own cluster."""
    inputs = plan.inputs
    profile, cluster = (inputs.profile, inputs.cluster) if inputs else (None, None)
    try:
        return plan_view(ReportEntry(plan.strategy, "", plan, profile, cluster))
    except InputError:
        return None


def _instances(phase: Phase) -> str:
    rows = [
        (
            each.id,
            layer_range(each.layers),
            each.node,
            f"{each.cpu_share:.0%}",
            each.into or "the loss",
            str(sum(source.samples for source in phase.sources if source.into == each.id) or ""),
        )
        for each in phase.instances
    ]
    return table(("instance", "layers", "node", "CPU", "into", "samples"), rows)


@_body.register
def _estimate(estimate: Estimate) -> str:
    nodes = [
        (
            name,
            time(node.busy_s),
            energy(node.energy_j),
            size(node.sent_bytes),
            size(node.received_bytes),
            size(node.peak_memory_bytes),
        )
        for name, node in (estimate.nodes or {}).items()
    ]
    headings = ("node", "busy", "energy", "sent", "received", "peak memory")
    parts = [facts_table(estimate.facts()), table(headings, nodes) if nodes else ""]
    if estimate.timeline:
        rows = [(o.node, o.instance, o.op, o.start_s, o.end_s, o.bytes) for o in estimate.timeline]
        parts.append(timeline_svg(rows))
    return "".join([*parts, *map(note, estimate.warnings)])


@_body.register
def _comparison(found: Comparison) -> str:
    priced = any(plan.estimate is not None and plan.estimate.iteration_cost is not None for plan in found.plans)
    emits = any(plan.estimate is not None and plan.estimate.iteration_carbon_g is not None for plan in found.plans)
    more = [name for name, known in (("cost", priced), ("carbon", emits)) if known]
    headings = ("strategy", "iteration", "energy", *more, "epoch", "nodes", "planned in")
    rows = []
    for plan in found.plans:
        price = plan.estimate
        nodes = dict.fromkeys(each.node for phase in plan.phases for each in phase.instances)
        costs = (None, None, None) if price is None else (price.iteration_s, price.iteration_j, price.epoch_s)
        paid = [money(price.iteration_cost, price.currency)] if priced and price else []
        paid += [carbon(price.iteration_carbon_g)] if emits and price else []
        row = (time(costs[0]), energy(costs[1]), *paid, time(costs[2]), ", ".join(nodes), time(plan.plan_s))
        rows.append((plan.strategy, *row))
    skipped = [note(f"{name} does not apply: {str(why).splitlines()[0]}") for name, why in found.skipped.items()]
    return "".join([table(headings, rows), *skipped])


@_body.register
def _profile(profile: Profile) -> str:
    nodes = list(profile.nodes)
    rows = [
        (
            layer.name,
            size(layer.parameter_bytes),
            size(layer.output_bytes),
            *(time(profile.nodes[node].forward_s[k] + profile.nodes[node].backward_s[k]) for node in nodes),
        )
        for k, layer in enumerate(profile.layers)
    ]
    said = note("times: a sample forward and backward") if nodes else ""
    return heading(profile.model) + table(("layer", "weights", "output", *nodes), rows) + said


@_body.register
def _cluster(cluster: Cluster) -> str:
    nodes = [(name, *_node(node)) for name, node in cluster.nodes.items()]
    headings = ("node", "tier", "memory", "idle", "busy", "samples", "hardware")
    links = [
        (" – ".join(link.between), rates(*link.rates_bps), time(link.latency_s) if link.latency_s else "")
        for link in cluster.links
    ]
    return table(headings, nodes) + (table(("link", "bandwidth", "latency"), links) if links else "")


def _node(node: Node) -> tuple[str, ...]:
    power, source = node.power, node.source
    return (
        node.tier,
        "" if node.memory_bytes is None else size(node.memory_bytes),
        "" if power is None else f"{power.idle_w:g} W",
        "" if power is None else f"{power.busy_w:g} W",
        "" if source is None else f"{source.samples}{' private' if source.private else ''}",
        node.hardware or "",
    )
