"""Gu et al.'s setting, one network: the truth by the clock, the choice beside it, and how both are counted."""

from __future__ import annotations

import pytest

from palmette.cost.estimate import evaluator
from palmette.cost.operations import trees, worker_step
from palmette.measure.profiling import profile_network
from palmette.reproduce.cluster import figures, paper
from palmette.reproduce.cluster.catalogue import CatalogueCases
from palmette.reproduce.cluster.claims import claims
from palmette.reproduce.cluster.simulation import device_rates
from palmette.reproduce.progress import Record
from palmette.zoo.models import load_network


@pytest.fixture(scope="module")
def cases() -> list[Record]:
    return [figures.evaluate_case("CIFAR10", each) for each in CatalogueCases().cases("CIFAR10")]


def test_seven_clusters_and_all_goals_at_each_bandwidth(cases: list[Record]) -> None:
    assert [case["mbps"] for case in cases] == [1000, 100, 10]
    for case in cases:
        assert len(case["truth"]) == 7
        assert list(case["goals"]) == list(figures.GOALS)
        assert all(1 <= row["place"] <= 7 for row in case["goals"].values())
        for goal, row in case["goals"].items():
            values = {name: paper.ClusterCost(**each).of(goal) for name, each in case["truth"].items()}
            assert values["+".join(row["best"])] == min(values.values())
            assert 0 <= row["gain"] < 1


def test_the_estimate_comes_close_to_the_clock(cases: list[Record]) -> None:
    assert max(error for case in cases for error in case["time_error"].values()) < 0.05


def test_a_step_beside_the_server_is_slower_and_draws_less_at_lower_bandwidths(cases: list[Record]) -> None:
    everywhere = [case | {"model": name} for name in paper.MODELS for case in cases]
    figure = figures.over_bandwidth(everywhere)
    assert (figure["groups"][:2], len(figure["groups"])) == (["AlexNet jtx2", "AlexNet jtx1"], 10)
    assert figure["time"][0] == figure["power"][0] == [1.0] * 10
    alone, fast, slow = (cases[0]["truth"]["jtx2"]["time_s"] / paper.STEPS, *(16 * 7025704 / bps for bps in (1e9, 1e7)))
    assert figure["time"][2][0] == pytest.approx((alone + slow) / (alone + fast), rel=0.01)
    assert figure["power"][2][0] < figure["power"][1][0] < 1


def test_devices_slow_one_another_down_only_a_little() -> None:
    profile = profile_network(load_network("cifar10"), paper.machines(1000.0))
    prices = evaluator(profile, paper.machines(1000.0))
    phase = paper.forest(("desktop", "jtx2", "jtx1"), profile)
    steps = {tree.instances[0].node: (tree, worker_step(tree, prices.sizes())) for tree in trees(phase)}
    alone = {name: 1 / prices.play(*step).total_s for name, step in steps.items()}
    for name, each in device_rates(phase, prices).items():
        assert 0.8 * alone[name] < each.rate <= alone[name] * (1 + 1e-9)
        power = prices.cluster.nodes[name].power
        assert power is not None
        assert power.idle_w <= each.power_w <= power.busy_w * (1 + 1e-9)


def test_quantities_of_a_cluster() -> None:
    cost = paper.ClusterCost(2.0, 3.0)
    assert [cost.of(goal) for goal in figures.GOALS] == [2.0, 3.0, 6.0, 12.0]


def test_accuracy_counts_places() -> None:
    rows = [{"place": place, "gain": 0.5, "overhead": 0.01} for place in (1, 1, 2, 3)]
    case = {
        "model": "X",
        "how": {"a": "measured", "b": "simulated"},
        "goals": dict(zip(figures.GOALS, rows, strict=True)),
        "time_error": {"a": 0.1, "b": 0.3},
    }
    found = figures.summary([case])
    assert found["accuracy"] == {"cases": 4, "best": 0.5, "best_two": 0.75}
    assert found["accuracy_by_goal"]["edp"]["best_two"] == 0.0
    assert found["accuracy_noisy"] is None
    assert found["time_error_by_model"] == {"X": pytest.approx(0.2)}
    assert found["time_error_measured"] == {"X": pytest.approx(0.1)}
    assert found["clusters"] == {"measured": 1, "simulated": 1}


def test_noise_costs_some_of_the_accuracy_at_most(cases: list[Record]) -> None:
    found = figures.summary(cases)
    assert found["accuracy_noisy"]["cases"] == figures.REPETITIONS * found["accuracy"]["cases"]
    assert found["accuracy_noisy"]["best"] <= found["accuracy"]["best"] == 1.0
    assert found["accuracy_noisy"]["best_two"] > 0.5


def test_every_claim_that_differs_says_why() -> None:
    bad = {"best": 0.0, "best_two": 0.0, "cases": 12}
    made = {
        "accuracy": bad,
        "accuracy_noisy": bad,
        "accuracy_by_model": dict.fromkeys(paper.MODELS, bad),
        "figures": {"2": {"groups": ["NiN jtx2"], "time": [[1.0], [9.0], [90.0]], "power": [[1.0], [1.1], [1.2]]}},
        "gain_by_goal": dict.fromkeys(figures.GOALS, 0.9),
        "time_error_by_model": dict.fromkeys(paper.MODELS, 0.5),
        "overhead_by_model": dict.fromkeys(paper.MODELS, 0.5),
    }
    rows = claims(made)
    assert len(rows) == 21
    assert all(not row["agrees"] and row["why"] for row in rows)
