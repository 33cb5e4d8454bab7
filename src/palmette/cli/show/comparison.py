"""A comparison of strategies as people see it: best first, and why some do not apply; and as JSON."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from palmette.cli.options import reason_of
from palmette.cli.show.console import console, energy, joule_seconds, time
from palmette.cost.estimate import evaluator
from palmette.plan.core.comparison import Comparison, is_lossy, small_norm_parts
from palmette.plan.core.strategy import HORIZON_EPOCHS
from palmette.spec.estimate import Estimate
from palmette.spec.plan import Plan

_FIRST = ("first epoch",)
_SLOWLY = 1.02


def comparison_json(found: Comparison) -> dict[str, Any]:
    """The comparison as FORMATS has it."""
    rows: list[dict[str, Any]] = [
        plan.model_dump(mode="json", include={"strategy", "estimate", "decision", "plan_s"})
        | {"nodes": nodes_of(plan), "edp_js": _edp_js(plan), "note": note_of(plan)}
        for plan in found.plans
    ]
    rows += [{"strategy": name, "skipped": reason_of(reason)} for name, reason in found.skipped.items()]
    return {"strategies": rows}


def show_comparison(found: Comparison) -> None:
    """Print plans beside one another, best first, and why the others were left out."""
    table = Table("strategy", box=None, pad_edge=False)
    estimates = [plan.estimate for plan in found.plans if plan.estimate is not None]
    first = any(map(_begins_slowly, estimates))
    for heading in ("iteration", "energy", "energy × time", *_FIRST[:first], "total time", "total energy"):
        table.add_column(heading, justify="right")
    table.add_column("nodes")
    table.add_column("planned in", justify="right")
    notes = any(map(note_of, found.plans))
    if notes:
        table.add_column("note")
    for plan in found.plans:
        estimate = plan.estimate
        assert estimate is not None, "only plans with a price are compared"
        table.add_row(
            plan.strategy,
            time(estimate.iteration_s),
            energy(estimate.iteration_j),
            joule_seconds(_edp_js(plan)),
            *([time(estimate.first_epoch_s)] if first else []),
            *_total(plan),
            ", ".join(nodes_of(plan)),
            time(plan.plan_s),
            *([note_of(plan) or ""] if notes else []),
        )
    out = console()
    out.print(table)
    if any(plan.estimate is not None and plan.estimate.total_s is None for plan in found.plans):
        later = f"a later epoch; the order counts {HORIZON_EPOCHS} epochs" if first else "one epoch"
        out.print(f"total: of {later} where the number of epochs is open", style="dim")
    for name, reason in found.skipped.items():
        out.print(f"{name} does not apply: {reason_of(reason).splitlines()[0]}", style="dim", soft_wrap=True)


def _begins_slowly(estimate: Estimate) -> bool:
    """Whether the first epoch of a plan takes so much longer than later ones that it has to stand apart."""
    first_s, later_s = estimate.first_epoch_s, estimate.epoch_s
    return first_s is not None and later_s is not None and first_s > later_s * _SLOWLY


def _total(plan: Plan) -> tuple[str, str]:
    """Time and energy of the whole training, or of an epoch where their number is open."""
    estimate = plan.estimate
    assert estimate is not None, "only plans with a price are compared"
    if estimate.total_s is not None:
        return time(estimate.total_s), energy(estimate.total_j)
    return f"{time(estimate.epoch_s)}/epoch", "–" if estimate.epoch_j is None else f"{energy(estimate.epoch_j)}/epoch"


def _edp_js(plan: Plan) -> float | None:
    """Energy-delay product of an iteration."""
    estimate = plan.estimate
    return None if estimate is None or estimate.iteration_j is None else estimate.iteration_j * estimate.iteration_s


def note_of(plan: Plan) -> str | None:
    """Remarks on a plan beside its figures."""
    notes = ["8-bit outputs"] if is_lossy(plan) else []
    if plan.inputs is not None and plan.inputs.profile is not None and plan.inputs.cluster is not None:
        small = small_norm_parts(plan, evaluator(plan.inputs.profile, plan.inputs.cluster))
        notes += [f"batch norm over {min(part.samples for part in small)} samples"] if small else []
    recomputes = any(instance.recompute for phase in plan.phases for instance in phase.instances)
    notes += ["recomputes"] if recomputes else []
    return ", ".join(notes) or None


def nodes_of(plan: Plan) -> list[str]:
    """The nodes that compute, in the order of the plan."""
    return list(dict.fromkeys(instance.node for phase in plan.phases for instance in phase.instances))
