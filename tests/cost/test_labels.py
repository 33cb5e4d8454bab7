"""Labels travel only where the loss is computed on another node, and a plan says so of private ones."""

from __future__ import annotations

from palmette.cost.estimate import estimate
from palmette.cost.evaluate import Evaluator
from palmette.cost.labels import roots, travelling
from palmette.cost.warnings import warnings_of
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, node, phase, plan, profile, source, times

U_SHAPED = phase(
    source("a", 2, "I"),
    source("b", 2, "L"),
    instance("I", 1, 1, "a", "J"),
    instance("J", 2, 2, "b", "K"),
    instance("K", 3, 3, "a"),
    instance("L", 1, 3, "a"),
)


def fleet(many: int) -> tuple[Phase, Cluster]:
    """Phones with private data that all meet in the cloud."""
    names = [f"phone{k}" for k in range(1, many + 1)]
    feeds = [source(name, 2, f"i{name}") for name in names]
    fronts = [instance(f"i{name}", 1, 1, name, "end") for name in names]
    nodes = {name: node(10, private=True) for name in names}
    made = phase(*feeds, source("cloud", 2, "own"), *fronts, *_cloud())
    return made, cluster(*(link(name, "cloud") for name in names), cloud=node(10, private=True), **nodes)


def told(made: Phase, known: Cluster) -> list[str]:
    light = profile([(1.0, 1.0)] * made.depth, **{name: times(made.depth) for name in known.nodes})
    return warnings_of(plan(made), Evaluator(light, known))


def _cloud() -> list[dict[str, object]]:
    return [instance("own", 1, 1, "cloud", "end"), instance("end", 2, 2, "cloud")]


def test_labels_stay_where_their_loss_is_computed() -> None:
    assert [root.id for root in roots(U_SHAPED)] == ["K", "L"]
    assert travelling(U_SHAPED) == [False, True]


def test_a_plan_says_whose_labels_travel_and_where_to() -> None:
    made, known = fleet(1)
    assert told(made, known) == ["labels of phone1 travel to cloud, where the loss is computed"]
    made, known = fleet(3)
    expected = "labels of phone1, phone2 and phone3 travel to cloud, where the loss is computed"
    assert told(made, known) == [expected]


def test_a_fleet_is_one_sentence() -> None:
    made, known = fleet(20)
    expected = "labels of phone1, phone2, phone3 and 17 more travel to cloud, where the loss is computed"
    assert told(made, known) == [expected]
    times_of = {name: times(2) for name in known.nodes}
    assert estimate(plan(made), profile([(1.0, 1.0)] * 2, **times_of), known).warnings == (expected,)


def test_of_labels_that_stay_or_are_not_private_nothing_is_said() -> None:
    assert told(U_SHAPED, cluster(link("a", "b"), a=node(9, private=True), b=node(9))) == []
