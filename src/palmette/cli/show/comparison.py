"""A comparison of strategies as people see it: best first, and why some do not apply; and as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from palmette.cli.options import reason_of
from palmette.cli.show.console import carbon, console, energy, joule_seconds, money, time
from palmette.cost.estimate import evaluator
from palmette.errors import listed
from palmette.plan.core.comparison import Comparison, changes_learning, is_lossy, small_norm_parts
from palmette.plan.core.strategy import HORIZON_EPOCHS
from palmette.spec.codec import CODEC_KINDS
from palmette.spec.codec_term import codings_of
from palmette.spec.estimate import Estimate
from palmette.spec.goal import Spending
from palmette.spec.plan import Plan

_FIRST, _COST, _CARBON = ("first epoch",), ("total cost",), ("total carbon",)
_EDP, _PLANNED_IN, _NOTE = ("energy × time",), ("planned in",), ("note",)
_WORDS = ("strategy", "variant", "plan", "nodes", *_NOTE)
_SLOWLY = 1.02
_WIDEST = {"variant": 30}  # what is longer is broken, before other columns are left out


def comparison_json(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON (docs/formats.md)."""
    rows: list[dict[str, Any]] = [
        plan.model_dump(mode="json", include={"strategy", "estimate", "decision", "plan_s"})
        | {"nodes": nodes_of(plan), "edp_js": _edp_js(plan), "note": note_of(plan)}
        for plan in found.plans
    ]
    rows += [{"strategy": name, "skipped": reason_of(reason)} for name, reason in found.skipped.items()]
    return {"strategies": rows} | ({} if found.unknown_loss is None else {"note": unknown_loss_of(found)})


def unknown_loss_of(found: Comparison) -> str:
    """That no curve says when a loss is reached, so that the order is that of an epoch, and how to get one."""
    command = f"palmette pilot {found.plans[0].model} --cluster CLUSTER --data DATA"
    return (
        f"no learning curve says when the loss {found.unknown_loss:g} is reached: ranked by an epoch;"
        f" {command} makes one for --learning"
    )


def show_comparison(found: Comparison, chosen: str | None = None, left_out: Mapping[str, str] | None = None) -> None:
    """Print plans beside one another, best first, the chosen one marked, and why the others were left out.

    ``left_out`` says why strategies that have a plan could not be chosen.
    """
    estimates = [plan.estimate for plan in found.plans if plan.estimate is not None]
    first = any(map(_begins_slowly, estimates))
    out = console()
    least, wrapped = (*_PLANNED_IN, *_EDP, *_FIRST), ("nodes", *_NOTE)
    out.print(fitting_table(_columns(found, estimates, chosen, first), out.width, least, wrapped))
    if any(plan.estimate is not None and plan.estimate.total_s is None for plan in found.plans):
        later = f"a later epoch; the order counts {HORIZON_EPOCHS} epochs" if first else "one epoch"
        out.print(f"total: of {later} where the number of epochs is open", style="dim")
    if any(changes_learning(plan) and plan.estimate and plan.estimate.total_s is None for plan in found.plans):
        out.print(
            "replicas that train apart need other numbers of epochs: --loss with --learning counts them", style="dim"
        )
    if found.unknown_loss is not None:
        out.print(unknown_loss_of(found), soft_wrap=True)
    for why in dict.fromkeys((left_out or {}).values()):
        names = [name for name, reason in (left_out or {}).items() if reason == why]
        out.print(f"{listed(names)} cannot be chosen: {why}", soft_wrap=True)
    for name, reason in found.skipped.items():
        out.print(f"{name} does not apply: {reason_of(reason).splitlines()[0]}", style="dim", soft_wrap=True)


def _columns(found: Comparison, estimates: list[Estimate], chosen: str | None, first: bool) -> dict[str, list[str]]:
    """The cells of the table, by heading."""
    priced, emits = knows_money(estimates), knows_carbon(estimates)
    headings = ["strategy", "iteration", "energy", *_EDP, *_FIRST[:first], *headings_of_totals(priced, emits)]
    headings += ["nodes", *_PLANNED_IN, *_NOTE[: any(map(note_of, found.plans))]]
    rows = []
    for plan in found.plans:
        estimate = plan.estimate
        assert estimate is not None, "only plans with a price are compared"
        row = [
            plan.strategy if chosen is None else f"{'→' if plan.strategy == chosen else ' '} {plan.strategy}",
            time(estimate.iteration_s),
            energy(estimate.iteration_j),
            joule_seconds(_edp_js(plan)),
            *([time(estimate.first_epoch_s)] if first else []),
            *totals(estimate, priced=priced, emits=emits),
            ", ".join(nodes_of(plan)),
            time(plan.plan_s),
            note_of(plan) or "",
        ]
        rows.append(row[: len(headings)])
    return {heading: [row[k] for row in rows] for k, heading in enumerate(headings)}


def fitting_table(columns: dict[str, list[str]], width: int, least: Iterable[str], wrapped: Collection[str]) -> Table:
    """The columns that fit a width: the ``least`` are left out, in this order, and only ``wrapped`` ones are broken."""
    shown = dict(columns)
    for heading in least:
        if _wide(shown) > width:
            shown.pop(heading, None)
    table = Table(box=None, pad_edge=False)
    for heading in shown:
        table.add_column(heading, justify="left" if heading in _WORDS else "right", no_wrap=heading not in wrapped)
    for row in zip(*shown.values(), strict=True):
        table.add_row(*map(Text, row))
    return table


def _wide(columns: dict[str, list[str]]) -> int:
    """How wide a table would be without breaking a cell."""
    widths = {heading: max(map(len, (heading, *cells))) for heading, cells in columns.items()}
    return sum(min(wide, _WIDEST.get(heading, wide)) + 2 for heading, wide in widths.items()) - 2


def knows_money(estimates: Iterable[Estimate]) -> bool:
    """Whether an estimate knows what a plan costs."""
    return any(estimate.iteration_cost is not None for estimate in estimates)


def knows_carbon(estimates: Iterable[Estimate]) -> bool:
    """Whether an estimate knows what a plan emits."""
    return any(estimate.iteration_carbon_g is not None for estimate in estimates)


def headings_of_totals(priced: bool, emits: bool) -> list[str]:
    """The headings of ``totals``."""
    return ["total time", "total energy", *_COST[:priced], *_CARBON[:emits]]


def _begins_slowly(estimate: Estimate) -> bool:
    """Whether the first epoch of a plan takes so much longer than later ones that it has to stand apart."""
    first_s, later_s = estimate.first_epoch_s, estimate.epoch_s
    return first_s is not None and later_s is not None and first_s > later_s * _SLOWLY


def totals(estimate: Estimate, *, priced: bool, emits: bool) -> list[str]:
    """What the whole training takes, or an epoch where their number is open."""
    total, epoch = estimate.spending("total"), estimate.spending("epoch")
    spent = total or epoch or Spending(estimate.iteration_s, None)
    texts = [time(spent.time_s), energy(spent.energy_j)]
    texts += [money(spent.cost, estimate.currency)] if priced else []
    texts += [carbon(spent.carbon_g)] if emits else []
    return texts if total is not None else [text if text == "–" else f"{text}/epoch" for text in texts]


def _edp_js(plan: Plan) -> float | None:
    """Energy-delay product of an iteration."""
    estimate = plan.estimate
    return None if estimate is None or estimate.iteration_j is None else estimate.iteration_j * estimate.iteration_s


def _fewest_bits(plan: Plan) -> int:
    """Bits of a number in the smallest coded outputs of a plan that has some."""
    codecs = [each.codec for phase in plan.phases for each in phase.instances if each.into is not None]
    return min(bits for codec in codecs if (bits := CODEC_KINDS[codec].coded_bits) is not None)


def note_of(plan: Plan) -> str | None:
    """Remarks on a plan beside its figures."""
    notes = [f"{_fewest_bits(plan)}-bit outputs"] if is_lossy(plan) else []
    if plan.inputs is not None and plan.inputs.profile is not None and plan.inputs.cluster is not None:
        small = small_norm_parts(plan, evaluator(plan.inputs.profile, plan.inputs.cluster))
        notes += [f"batch norm over {min(part.samples for part in small)} samples"] if small else []
    recomputes = any(instance.recompute for phase in plan.phases for instance in phase.instances)
    notes += ["recomputes"] if recomputes else []
    notes += ["replicas train apart"] if changes_learning(plan) else []
    codings = {coding: None for phase in plan.phases for coding in codings_of(phase) if coding.of != "outputs"}
    notes += [str(coding) for coding in codings]
    return ", ".join(notes) or None


def nodes_of(plan: Plan) -> list[str]:
    """The nodes that compute, in the order of the plan."""
    return list(dict.fromkeys(instance.node for phase in plan.phases for instance in phase.instances))
