"""The prices behind the sliders of a page: what plans take at other bandwidths, so that the page needs no server.

Every plan is priced, as it is, at each point of a grid of bandwidths; of each point the page has the first epoch and a
later one, from which it adds up any number of epochs itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from palmette.cost.check import check
from palmette.cost.estimate import evaluator
from palmette.plan.core.strategy import Task
from palmette.report.plan_view import JsonObject
from palmette.spec.cluster import Cluster, Link
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from palmette.spec.reading import rates

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
MOST_SLIDERS = 3
MOST_PRICES = 1500
Spent = list[float | None]


def sliders_view(plans: Sequence[Plan], task: Task) -> JsonObject | None:
    """Sliders for the links, and what each plan takes at every combination; None where there is nothing to move.

    Plans that change nodes on the way are left out: for how many epochs they are is a part of them.
    """
    movable = list({plan.phases: plan for plan in plans if len(plan.phases) == 1}.values())
    if not movable or not task.cluster.links:
        return None
    groups = _groups(task.cluster, len(movable))
    points = list(itertools.product(FACTORS, repeat=len(groups)))
    clusters = [_scaled(task.cluster, groups, factors) for factors in points]
    return {
        "links": [
            {"name": name, "rates": [_text(task.cluster, members, f) for f in FACTORS]} for name, members in groups
        ],
        "middle": FACTORS.index(1.0),
        "epochs": task.horizon,
        "currency": task.cluster.currency,
        "plans": [
            {
                "strategy": plan.strategy,
                "goal": _goal(plan, movable),
                "spent": [_spent(plan, task.profile, cluster) for cluster in clusters],
            }
            for plan in movable
        ],
    }


def _goal(plan: Plan, plans: Sequence[Plan]) -> str | None:
    """What a plan was made for, where its strategy made several."""
    several = sum(other.strategy == plan.strategy for other in plans) > 1
    return plan.asked.goal if several and plan.asked is not None else None


Group = tuple[str, list[int]]


def _groups(cluster: Cluster, plans: int) -> list[Group]:
    """The links that each slider moves: one each, those of the same kind together, or all where there are too many."""
    alone = [(" – ".join(link.between), [k]) for k, link in enumerate(cluster.links)]
    for groups in (alone, _by_tiers(cluster)):
        if len(groups) <= MOST_SLIDERS and plans * len(FACTORS) ** len(groups) <= MOST_PRICES:
            return groups
    return [("all links", list(range(len(cluster.links))))]


def _by_tiers(cluster: Cluster) -> list[Group]:
    """Links by the tiers that they join."""
    found: dict[str, list[int]] = {}
    for k, link in enumerate(cluster.links):
        ends = " – ".join(cluster.nodes[name].tier for name in link.between)
        found.setdefault(f"{ends} links", []).append(k)
    return list(found.items())


def _scaled(cluster: Cluster, groups: Sequence[Group], factors: Sequence[float]) -> Cluster:
    links: list[Link] = list(cluster.links)
    for (_, members), factor in zip(groups, factors, strict=True):
        for k in members:
            links[k] = links[k].scaled(factor)
    return cluster.model_copy(update={"links": tuple(links)})


def _text(cluster: Cluster, members: Sequence[int], factor: float) -> str:
    """What a slider says at a factor: the bandwidth, or the factor where the links have several."""
    found = {cluster.links[k].scaled(factor).rates_bps for k in members}
    return rates(*found.pop()) if len(found) == 1 else f"{factor:g} ×"


def _spent(plan: Plan, profile: Profile, cluster: Cluster) -> tuple[Spent, Spent] | None:
    """What the first epoch and a later one take: seconds, joules, money, grams; None where the plan may not run."""
    prices = evaluator(profile, cluster)
    if check(plan, prices):
        return None
    price = prices.price(plan.phases[0])
    return list(prices.total(price, 1)), list(prices.total(price, 1, delivered=True))
