"""What a plan would cost if something were different: a link, a node less, other epochs.

Each change is tried alone and then all together; each time the plan is priced as it is, and its strategy plans again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from palmette.control.adapt.replanning import can_replan, subcluster, with_links
from palmette.cost.estimate import estimate
from palmette.errors import ArgumentFault, InputError, PalmetteError, expected_name
from palmette.plan.core.make_plan import replan
from palmette.plan.core.parallel import run_parallel
from palmette.plan.core.used import used_as
from palmette.spec.cluster import Cluster, Link
from palmette.spec.estimate import Estimate
from palmette.spec.plan import Inputs, Plan, inputs_of
from palmette.spec.profile import Profile
from palmette.spec.reading import bandwidth
from palmette.spec.units import BANDWIDTH

AS_IT_IS = "as it is"


@dataclass(frozen=True)
class VariantChange:
    """One thing that is different: the bandwidth of a link, a node that is not there, or the number of epochs.

    Of changes ``of`` the same thing, only one can be made at a time.
    """

    name: str
    of: str
    cluster: Callable[[Cluster], Cluster] = lambda same: same
    epochs: int | None = None


@dataclass(frozen=True)
class PlanVariant:
    """What a plan costs after some changes: kept as it is, and planned again; or why that is not possible."""

    name: str
    kept: Estimate | PalmetteError
    planned: Plan | PalmetteError

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        kept, planned = self.kept, self.planned
        return {
            "variant": self.name,
            "kept": {"impossible": str(kept)} if isinstance(kept, PalmetteError) else _without_timeline(kept),
            "planned": {"impossible": str(planned)} if isinstance(planned, PalmetteError) else _as_json(planned),
        }


def what_if(
    plan: Plan, changes: Sequence[VariantChange], profile: Profile | None, cluster: Cluster | None
) -> list[PlanVariant]:
    """The plan as it is, after each change, and after all of them, unless two are of the same thing.

    Raises:
        InputError: the plan has no inputs and none are given, or cannot be executed as it is.
    """
    profile, cluster = inputs_of(plan, profile, cluster)
    plan = plan.model_copy(update={"inputs": Inputs(profile=profile, cluster=cluster)})
    several = len(changes) > 1 and len({change.of for change in changes}) == len(changes)
    together = [tuple(changes)] if several else []
    cases: list[tuple[VariantChange, ...]] = [(), *((change,) for change in changes), *together]
    _price(plan, ())
    jobs: list[Callable[[], PlanVariant]] = [partial(_variant, plan, case) for case in cases]
    return [done.unwrap() for done in run_parallel(jobs)]


def link_changes(cluster: Cluster, bandwidths: Iterable[tuple[str, str]]) -> Iterator[VariantChange]:
    """The changes of links ``A-B`` to a bandwidth with its unit, or to two with a comma: from A to B, and back.

    A link may be named several times, for several bandwidths to try.

    Raises:
        InputError: there is no such link, or the bandwidth cannot be read.
    """
    known = {"-".join(ends): (link, ends) for link in cluster.links for ends in (link.between, link.between[::-1])}
    for name, text in bandwidths:
        if name not in known:
            names = ["-".join(link.between) for link in cluster.links]
            raise InputError(ArgumentFault("link", name, expected_name(name, "link", names)))
        link, (first, second) = known[name]
        try:
            there_bps, *back_bps = map(BANDWIDTH.parse, text.split(",", 1))
            other = _with_bandwidths(link, {first: there_bps, second: (back_bps or [there_bps])[0]})
        except ValueError:
            one = "expected one bandwidth for both directions of a half-duplex link"
            expected = one if "," in text and link.duplex == "half" else BANDWIDTH.expected
            raise InputError(ArgumentFault("link", f"{name}={text}", expected)) from None
        back = f", back at {bandwidth(back_bps[0])}" if back_bps else ""
        change = f"{name} at {bandwidth(there_bps)}{back}"
        yield VariantChange(change, f"link {' '.join(link.between)}", partial(_with_link, other))


def _with_bandwidths(link: Link, from_bps: Mapping[str, float]) -> Link:
    """The link with these bandwidths from either end, instead of what it had or how it varied."""
    rates = {"bandwidth_bps", "up_bps", "down_bps", "bandwidth_trace"}
    up_bps, down_bps = (from_bps[end] for end in link.between)
    found = {"bandwidth_bps": up_bps} if up_bps == down_bps else {"up_bps": up_bps, "down_bps": down_bps}
    return Link.model_validate(link.model_dump(exclude=rates) | found)


def epoch_changes(epochs: Iterable[int]) -> Iterator[VariantChange]:
    """The changes of the number of epochs."""
    yield from (VariantChange(f"{many} {'epoch' if many == 1 else 'epochs'}", "epochs", epochs=many) for many in epochs)


def node_changes(cluster: Cluster, without: Iterable[str]) -> Iterator[VariantChange]:
    """The changes that leave a node out.

    Raises:
        InputError: there is no such node.
    """
    for name in without:
        if name not in cluster.nodes:
            raise InputError(ArgumentFault("without", name, expected_name(name, "node", list(cluster.nodes))))
        yield VariantChange(f"without {name}", f"node {name}", partial(_without, name))


def _with_link(link: Link, cluster: Cluster) -> Cluster:
    return with_links(cluster, [link if each.between == link.between else each for each in cluster.links])


def _without(name: str, cluster: Cluster) -> Cluster:
    left = set(cluster.nodes) - {name}
    if not left:
        raise InputError(ArgumentFault("without", name, "no node is left; expected at least one"))
    return subcluster(cluster, left)


def _variant(plan: Plan, changes: tuple[VariantChange, ...]) -> PlanVariant:
    kept: Estimate | PalmetteError
    planned: Plan | PalmetteError
    try:
        kept = _price(plan, changes)
    except PalmetteError as error:
        kept = error
    try:
        planned = _plan_again(plan, changes)
    except PalmetteError as error:
        planned = error
    return PlanVariant(" and ".join(change.name for change in changes) or AS_IT_IS, kept, planned)


def _changed(cluster: Cluster, changes: Sequence[VariantChange]) -> Cluster:
    """The cluster after all changes."""
    for change in changes:
        cluster = change.cluster(cluster)
    return cluster


def _epochs(plan: Plan, changes: Sequence[VariantChange]) -> int | None:
    """For how many epochs the plan is used: as changed, else as it was asked."""
    asked = plan.asked.epochs if plan.asked else None
    return next((change.epochs for change in changes if change.epochs is not None), asked)


def _price(plan: Plan, changes: tuple[VariantChange, ...]) -> Estimate:
    profile, cluster = inputs_of(plan, None, None)
    epochs = _epochs(plan, changes)
    if all(change.epochs is None for change in changes) and any(phase.epochs is not None for phase in plan.phases):
        epochs = None  # the plan says so itself
    plan, profile, cluster = used_as(plan, profile, _changed(cluster, changes), epochs, None)
    optimizer = plan.asked.optimizer if plan.asked else "sgd"
    return estimate(plan, profile, cluster, optimizer=optimizer, epochs=epochs)


def _plan_again(plan: Plan, changes: tuple[VariantChange, ...]) -> Plan:
    if not can_replan(plan) or plan.asked is None:
        raise InputError(ArgumentFault("plan", plan.strategy, "no strategy made it; expected one to plan again with"))
    _, cluster = inputs_of(plan, None, None)
    asked = plan.asked.model_copy(update={"epochs": _epochs(plan, changes)})
    return replan(plan.model_copy(update={"asked": asked}), _changed(cluster, changes))


def _as_json(plan: Plan) -> dict[str, Any]:
    return plan.model_dump(mode="json", include={"strategy", "decision", "phases", "plan_s"}) | {
        "estimate": None if plan.estimate is None else _without_timeline(plan.estimate)
    }


def _without_timeline(found: Estimate) -> dict[str, Any]:
    return found.model_dump(mode="json", exclude={"timeline"})
