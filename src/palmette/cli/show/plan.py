"""Tables for people: what a plan decides and costs."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from palmette.cli.show.console import carbon, console, energy, money, size, time
from palmette.spec.codec import PLAIN
from palmette.spec.estimate import Estimate
from palmette.spec.plan import Phase, Plan
from palmette.spec.sync import Turns


def show_plan(plan: Plan) -> None:
    """Print a plan: its tree and what it costs."""
    out = console()
    out.print(Text.assemble((plan.strategy, "bold"), f" for {plan.model}, batch {plan.batch}"))
    for number, phase in enumerate(plan.phases, 1):
        label = f"phase {number}" if len(plan.phases) > 1 else "the tree"
        out.print(_tree(phase, f"{label} ({', '.join(_sync(phase))})"))
    if plan.estimate is not None:
        show_estimate(plan.estimate)
    if isinstance(plan.decision.get("why"), str):
        out.print(Text(plan.decision["why"]))


def _sync(phase: Phase) -> list[str]:
    """How the replicas of a phase synchronise."""
    parts: list[str] = [phase.sync if phase.every is None else f"{phase.sync} {phase.every} steps"]
    parts += [f"{phase.clients} of {phase.roots} clients in a round"] if phase.draws_clients else []
    parts += ["secure aggregation"] if phase.secure_aggregation else []
    parts += [] if phase.turns is None else [_turns(phase.turns)]
    parts += [] if phase.outer is None else [f"outer optimizer: {phase.outer.shown}"]
    parts += [f"weights averaged at {phase.server}"] if phase.server and phase.sync_kind.averages_weights else []
    parts += [] if phase.meet is None else [f"gradients averaged at {phase.meet}"]
    parts += [f"{phase.exchanged} as {phase.exchange}"] if phase.exchange.kind.lossy else []
    parts += ["gradients sent during backward"] if phase.overlap else []
    parts += ["samples sent ahead"] if phase.ahead else []
    parts += ["samples sent as tensors"] if phase.input_as == "tensor" else []
    return parts + (["batch norm over the whole batch"] if phase.batch_norm == "whole" else [])


def _turns(turns: Turns) -> str:
    delay = f", each during {turns.delay} steps" if turns.delay else ""
    return f"{turns.fragments} parts of the network exchanged in turns{delay}"


def _tree(phase: Phase, label: str) -> Tree:
    tree = Tree(label)

    def add_instances(branch: Tree, into: str | None) -> None:
        for instance in phase.instances:
            if instance.into == into:
                first, last = instance.layers
                share = "" if instance.cpu_share == 1 else f", {instance.cpu_share:.0%} CPU"
                codec = "" if instance.codec == PLAIN else f", {instance.codec}"
                again = ", recomputes" if instance.recompute else ""
                layers = f"layers {first}–{last}" if first < last else f"layer {first}"
                node = (instance.node, "bold")
                item = branch.add(Text.assemble(f"{instance.id}: {layers} on ", node, f"{share}{codec}{again}"))
                for source in phase.sources:
                    if source.into == instance.id:
                        kept = ", sent once" if source.delivery == "once" else ""
                        item.add(Text.assemble((f"{source.samples} samples from ", "dim"), source.node, (kept, "dim")))
                add_instances(item, instance.id)

    add_instances(tree, None)
    return tree


def show_estimate(estimate: Estimate) -> None:
    """Print an estimate: the whole, and each node's part of an iteration."""
    out = console()
    parts = {name: text for name, text in estimate.facts().items() if name != "frozen"}
    out.print("; ".join(f"{name}: {text}" for name, text in parts.items()))
    table = Table("node", box=None, pad_edge=False)
    nodes = estimate.nodes or {}
    priced = any(node.cost is not None for node in nodes.values())
    emits = any(node.carbon_g is not None for node in nodes.values())
    more = [*(["cost"] if priced else []), *(["carbon"] if emits else [])]
    for heading in ("busy", "energy", *more, "sent", "received", "peak memory"):
        table.add_column(heading, justify="right")
    for name, node in nodes.items():
        table.add_row(
            name,
            time(node.busy_s),
            energy(node.energy_j),
            *([money(node.cost, estimate.currency)] if priced else []),
            *([carbon(node.carbon_g)] if emits else []),
            size(node.sent_bytes),
            size(node.received_bytes),
            size(node.peak_memory_bytes),
        )
    out.print(table)
    if estimate.frozen_bytes is not None and estimate.saved_bytes is not None:
        saved = f"{size(estimate.saved_bytes)} less to send in an epoch than if all were trained"
        out.print(f"{size(estimate.frozen_bytes)} of weights are frozen: {saved}")
    for warning in estimate.warnings:
        out.print(Text(f"note: {warning}"))
    if estimate.energy_source:
        out.print(f"energy {estimate.energy_source}", style="dim")
    if estimate.timeline:
        show_timeline(estimate)


def show_timeline(estimate: Estimate) -> None:
    """Print every operation of an iteration with its start and end."""
    table = Table("node", "instance", "op", box=None, pad_edge=False)
    for heading in ("start", "end", "bytes"):
        table.add_column(heading, justify="right")
    for operation in estimate.timeline or ():
        start, end = f"{operation.start_s:.6f} s", f"{operation.end_s:.6f} s"
        carried = f"{operation.bytes:.0f}" if operation.bytes else ""
        table.add_row(operation.node, operation.instance, operation.op, start, end, carried)
    console().print(table)
