"""A plan as its page shows it: the tree, its estimate, and its energy by node."""

from __future__ import annotations

from typing import Any

from palmette.cost.check import check
from palmette.cost.estimate import DECLARED, evaluator, summary
from palmette.cost.evaluate import Evaluator, NodePrice
from palmette.cost.operations import samples_by_instance
from palmette.errors import Fault, InputError
from palmette.report.entry import ReportEntry
from palmette.spec.cluster import Cluster, Link
from palmette.spec.estimate import Estimate
from palmette.spec.plan import Phase

JsonObject = dict[str, Any]
MAX_OPERATIONS = 3000


def plan_view(entry: ReportEntry) -> JsonObject:
    """A plan as the page shows it.

    Raises:
        InputError: the plan cannot be executed on its cluster; holds every fault.
    """
    plan = entry.plan
    why = plan.decision.get("why")
    return {
        "name": entry.name,
        "kind": "plan" if entry.run is None else "run",
        "strategy": plan.strategy,
        "model": plan.model,
        "batch": plan.batch,
        "why": why if isinstance(why, str) else None,
        "layers": [layer.name for layer in entry.profile.layers] if entry.profile else [],
        "cluster": None if entry.cluster is None else cluster_view(entry.cluster),
        "phases": [_phase_view(phase) for phase in plan.phases],
        "run": None,
        **_price_view(entry),
    }


def cluster_view(cluster: Cluster) -> JsonObject:
    """Nodes and links."""
    nodes = {
        name: {
            "tier": node.tier,
            "hardware": node.hardware,
            "memory_bytes": node.memory_bytes,
            "idle_w": node.power.idle_w if node.power else None,
            "busy_w": node.power.busy_w if node.power else None,
            "cpu_share": node.limits.cpu_share,
            "samples": node.source.samples if node.source else None,
            "private": node.source.private if node.source else False,
        }
        for name, node in cluster.nodes.items()
    }
    return {"nodes": nodes, "links": [_link_view(link) for link in cluster.links]}


def _link_view(link: Link) -> JsonObject:
    """A link with what plans count on in either direction: the mean where it varies, and what TCP reaches."""
    up_bps, down_bps = link.rates_bps
    kept = {"between", "latency_s", "jitter_s", "energy_j_per_bit", "loss_share", "duplex"}
    varies = link.bandwidth_trace is not None
    return link.model_dump(mode="json", include=kept) | {"up_bps": up_bps, "down_bps": down_bps, "varies": varies}


def _phase_view(phase: Phase) -> JsonObject:
    samples = samples_by_instance(phase)
    return {
        "sync": phase.sync,
        "server": phase.meeting_node if not phase.sync_kind.one_model else None,
        "pruning": phase.pruning,
        "ahead": phase.ahead,
        "sources": [
            s.model_dump(include={"node", "samples", "epoch_samples", "into", "delivery"}) for s in phase.sources
        ],
        "instances": [
            i.model_dump(include={"id", "layers", "node", "cpu_share", "into", "codec", "recompute"})
            | {"samples": many}
            for i, many in zip(phase.instances, samples, strict=True)
        ],
    }


def evaluator_of(entry: ReportEntry) -> Evaluator | None:
    """The evaluator of an entry's plan; None where profile, cluster or tree are not known.

    Raises:
        InputError: the plan cannot be executed on its cluster; holds every fault.
    """
    if entry.profile is None or entry.cluster is None or not entry.plan.phases:
        return None
    prices = evaluator(entry.profile, entry.cluster)
    wrong = check(entry.plan, prices)
    if wrong:
        raise InputError(Fault(fault.field, fault.value, fault.expected, entry.file) for fault in wrong)
    return prices


def _price_view(entry: ReportEntry) -> JsonObject:
    prices = evaluator_of(entry)
    if prices is None:
        return {"estimate": _figures(entry.plan.estimate), "timeline": None, "energy": None}
    asked = entry.plan.asked
    estimate = summary(entry.plan, prices, timeline=True, epochs=asked.epochs if asked else None)
    timeline = [
        [done.node, done.instance, f"{done.op} {done.half or ''}".strip(), done.start_s, done.end_s, done.bytes]
        for done in (estimate.timeline or ())[:MAX_OPERATIONS]
    ]
    price = prices.price(entry.plan.phases[0])
    return {
        "estimate": _figures(estimate),
        "timeline": timeline,
        "energy": energy_view(price.nodes, price.iteration_s, prices, DECLARED),
    }


def _figures(estimate: Estimate | None) -> JsonObject | None:
    wanted = {"iteration_s", "iteration_j", "epoch_s", "epoch_j", "epochs", "total_s", "total_j"}
    wanted |= {"epoch_iterations", "first_epoch_s", "first_epoch_j", "first_epoch_bytes", "epoch_bytes", "total_bytes"}
    parts = ("iteration", "epoch", "first_epoch", "total")
    wanted |= {"currency", *(f"{part}_{what}" for part in parts for what in ("cost", "carbon_g"))}
    return None if estimate is None else estimate.model_dump(include=wanted)


def energy_view(nodes: dict[str, NodePrice], time_s: float, prices: Evaluator, source: str) -> JsonObject | None:
    """Joules of each node: idle, computing above idle, and sending; None where a power is not known."""
    parts: JsonObject = {}
    for name, price in nodes.items():
        power = prices.cluster.nodes[name].power
        if power is None:
            return None
        parts[name] = {
            "idle_j": power.idle_w * time_s,
            "computing_j": (power.busy_w - power.idle_w) * price.effort_s,
            "links_j": price.sending_j,
        }
    return {"nodes": parts, "source": source}
