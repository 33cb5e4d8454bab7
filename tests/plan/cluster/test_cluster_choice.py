"""cluster: equal to brute force where it says exact, never better than its bound where it does not."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import palmette as pt
from palmette.plan.cluster import subsets
from palmette.plan.cluster.contention import contended_steps_s
from palmette.plan.cluster.fleet import fleet_of
from palmette.plan.cluster.single_quantity import mask
from palmette.spec.cluster import Cluster
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Plan
from tests.cost.test_async import WEIGHTS, slow_mean_s
from tests.plan.cluster.by_hand import VALUES, clusters, document, objectives, random_table, time_power
from tests.plan.problems import link, node, profile
from tests.spec.faulty import DATA, plain
from tests.thorough import mostly_slow

SINGLE = ("time", "power", "energy", "edp")
SUMS = ("0.3*time+0.7*energy", "time+2*power+energy+0.1*edp")


def decided(table: dict[str, Any], goal: str, **more: Any) -> dict[str, Any]:
    return pt.plan("cluster", measurements=document(table), goal=goal, **more).decision


def by_hand(goal: str, table: dict[str, Any]) -> dict[tuple[str, ...], float]:
    """The objective of every cluster."""
    everyone = dict(clusters(table))
    return dict(zip(everyone, objectives(goal, list(everyone.values())), strict=True))


def test_the_fields_of_the_format() -> None:
    table = plain("measurements.json")
    decision = decided(table, "time")
    fields = {"devices", "parameter_server", "time_s", "power_w", "energy_j", "edp_js"}
    assert decision.keys() >= fields | {"ranking", "exact"}
    assert decision["exact"] is True
    assert "gap" not in decision
    assert decision["devices"] == ["desktop", "jtx2", "jtx1"]
    assert decision["parameter_server"] == "desktop"
    assert len(decision["ranking"]) == 7
    assert all(row.keys() == fields for row in decision["ranking"])
    assert decision["ranking"][0] == {name: decision[name] for name in fields}
    time_s, power_w = time_power(list(table["devices"].values()), 100_000)
    assert decision["time_s"] == pytest.approx(time_s, rel=1e-12)
    assert decision["power_w"] == pytest.approx(power_w, rel=1e-12)
    assert decision["energy_j"] == pytest.approx(power_w * time_s, rel=1e-12)
    assert decision["edp_js"] == pytest.approx(power_w * time_s**2, rel=1e-12)


def test_a_file_is_loaded_and_decided_on() -> None:
    made = pt.plan("cluster", measurements=pt.load_measurements(DATA / "measurements.json"), goal="power")
    assert made.decision["devices"] == ["jtx1"]


def test_a_plan_on_tables_alone_takes_model_and_batch_from_them() -> None:
    made = pt.plan("cluster", measurements=document(plain("measurements.json")))
    assert (made.model, made.batch, made.phases, made.estimate) == ("alexnet", 32, (), None)


@pytest.mark.parametrize("goal", mostly_slow([*SINGLE, *SUMS], 2))
def test_all_clusters_as_brute_force_ranks_them(goal: str) -> None:
    rng = random.Random(goal)
    for case in range(30):
        table = random_table(rng, rng.randint(1, 6), servers=case % 2 == 1)
        everyone, values = dict(clusters(table)), by_hand(goal, table)
        decision = decided(table, goal)
        assert decision["exact"] is True
        ranked = [values[tuple(row["devices"])] for row in decision["ranking"]]
        assert ranked == pytest.approx(sorted(values.values())[:20], rel=1e-9)
        for row in decision["ranking"]:
            assert (row["time_s"], row["power_w"]) == pytest.approx(everyone[tuple(row["devices"])], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("goal", SINGLE)
def test_125_random_cases_of_up_to_14_devices(goal: str) -> None:
    rng = random.Random(f"14 {goal}")
    for _ in range(125):
        table = random_table(rng, rng.randint(1, 14))
        least = min(_fast_objectives(table, goal))
        decision = decided(table, goal)
        assert VALUES[goal](decision["time_s"], decision["power_w"]) == pytest.approx(least, rel=1e-9)


def _fast_objectives(table: dict[str, Any], goal: str) -> np.ndarray[Any, Any]:
    """Brute force over all subsets with numpy: bisection on all of them at once."""
    devices = list(table["devices"].values())
    numbers = np.arange(1, 1 << len(devices))
    members = (numbers[:, None] >> np.arange(len(devices))) & 1
    lone = members.sum(axis=1) == 1
    column = {f: np.array([d.get(f, 1.0) for d in devices]) for f in ("step_s", "build_s", "power_w")}
    factor = {
        k: np.array([d.get(f"{k}_alpha", 1.0) * d.get(f"{k}_beta", 1.0) for d in devices]) for k in ("time", "power")
    }
    pace = column["step_s"] * np.where(lone[:, None], 1.0, factor["time"])
    watts = (members * column["power_w"] * np.where(lone[:, None], 1.0, factor["power"])).sum(axis=1)
    low = np.zeros(len(members))
    high = np.where(members, column["build_s"] + table["steps"] * pace, np.inf).min(axis=1)
    for _ in range(60):
        middle = (low + high) / 2
        taken = (members * np.maximum(0.0, middle[:, None] - column["build_s"]) / pace).sum(axis=1)
        low, high = np.where(taken < table["steps"], middle, low), np.where(taken < table["steps"], high, middle)
    found: np.ndarray[Any, Any] = VALUES[goal](high, watts)
    return found


@pytest.fixture
def as_if_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat small fleets like large ones, so that brute force can be compared."""
    monkeypatch.setattr(subsets, "MAX_DEVICES", 1)


@pytest.mark.usefixtures("as_if_many")
@pytest.mark.parametrize("goal", ["time", "power", "energy"])
def test_the_theorems_find_the_best(goal: str) -> None:
    rng = random.Random(f"many {goal}")
    for _ in range(80):
        table = random_table(rng, rng.randint(2, 6))
        values = by_hand(goal, table)
        decision = decided(table, goal)
        assert decision["exact"] is True
        assert values[tuple(decision["devices"])] == pytest.approx(min(values.values()), rel=1e-9)


@pytest.mark.usefixtures("as_if_many")
@pytest.mark.parametrize("goal", ["edp", "0.3*time+0.7*energy", "power+time"])
def test_a_search_states_a_gap_that_holds(goal: str) -> None:
    rng = random.Random(f"gap {goal}")
    for _ in range(40):
        table = random_table(rng, rng.randint(2, 6))
        values = by_hand(goal, table)
        decision = decided(table, goal)
        found = values[tuple(decision["devices"])]
        assert decision["exact"] is False
        assert 0 <= decision["gap"] <= 1
        assert found * (1 - decision["gap"]) <= min(values.values()) * (1 + 1e-9)
        for name in table["devices"]:
            other = tuple(each for each in table["devices"] if (each in decision["devices"]) ^ (each == name))
            assert not other or values[other] >= found * (1 - 1e-9)


def test_neighbours_are_the_clusters_one_device_away() -> None:
    rng = random.Random(4)
    for _ in range(20):
        table = random_table(rng, 6)
        devices, everyone = fleet_of(document(table)), dict(clusters(table))
        chosen = rng.sample(range(6), rng.randint(1, 6))
        around = devices.neighbours(mask(devices, chosen))
        for k in range(6):
            other = tuple(f"d{i}" for i in sorted(set(chosen) ^ {k}))
            found = (float(around.time_s[k]), float(around.power_w[k]))
            assert found == pytest.approx(everyone.get(other, (np.inf, np.inf)), rel=1e-9, abs=1e-9)


def identical(many: int, **changes: float) -> dict[str, Any]:
    device = {"step_s": 0.1, "build_s": 1.0, "power_w": 10.0} | changes
    return {"format": "palmette.measurements/1", "steps": 1000, "devices": {f"d{k}": dict(device) for k in range(many)}}


@pytest.mark.parametrize("many", [3, 30])
def test_of_equals_the_fewest_devices_then_the_order_of_the_file(many: int) -> None:
    assert decided(identical(many), "power")["devices"] == ["d0"]
    assert decided(identical(many, build_s=0.0), "energy")["devices"] == ["d0"]
    assert decided(identical(many, build_s=0.0, time_alpha=0.9), "energy")["devices"] == ["d0", "d1"]


@pytest.mark.parametrize("many", [4, 40])
def test_a_device_that_would_not_be_ready_is_left_out(many: int) -> None:
    table = identical(many)
    table["devices"]["d1"]["build_s"] = 1e6
    assert "d1" not in decided(table, "time")["devices"]
    assert len(decided(table, "time")["devices"]) == many - 1


def test_thousands_of_devices_are_quick_and_within_the_gap() -> None:
    rng = random.Random(0)
    table = random_table(rng, 3000) | {"steps": 100_000}
    for goal in SINGLE:
        made = pt.plan("cluster", measurements=document(table), goal=goal)
        assert made.decision["exact"] is (goal != "edp")
        assert made.decision.get("gap", 0.0) < 0.01
        assert len(made.decision["ranking"]) == 20


class TestDeadline:
    @pytest.mark.parametrize("many", [1, 16])
    def test_slower_clusters_are_left_out(self, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(subsets, "MAX_DEVICES", many)
        table = plain("measurements.json")
        seconds = {names: each for names, each in clusters(table) if each[0] <= 4500}
        goal = Goal(weights=parse_weights("energy"), deadline_s=4500.0)
        decision = pt.plan("cluster", measurements=document(table), goal=goal).decision
        assert decision["energy_j"] == pytest.approx(min(p * t for t, p in seconds.values()), rel=1e-9)
        assert all(row["time_s"] <= 4500 for row in decision["ranking"])

    @pytest.mark.parametrize("many", [1, 16])
    def test_one_that_cannot_be_met(self, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(subsets, "MAX_DEVICES", many)
        goal = Goal(deadline_s=10.0)
        with pytest.raises(pt.Infeasible, match=r"^deadline_s: 10 s: cannot be met; the least that can be had is \d"):
            pt.plan("cluster", measurements=document(plain("measurements.json")), goal=goal)


class TestFront:
    def test_nothing_beats_it(self) -> None:
        rng = random.Random(9)
        for _ in range(20):
            table = random_table(rng, rng.randint(1, 6))
            decision = decided(table, "time", pareto=True)
            points = [(t, t * p) for _, (t, p) in clusters(table)]
            front = [(row["time_s"], row["energy_j"]) for row in decision["pareto"]]
            assert decision["pareto_exact"] is True
            expected = sorted({q for q in points if not any(_beats(other, q) for other in points)})
            times = [t for k, (t, _) in enumerate(expected) if not k or t > expected[k - 1][0] * (1 + 1e-9)]
            assert [t for t, _ in front] == pytest.approx(times, rel=1e-9)
            assert front == sorted(front, key=lambda q: (q[0], -q[1]))

    def test_of_many_devices_is_marked(self) -> None:
        decision = decided(random_table(random.Random(1), 30), "time", pareto=True)
        assert decision["pareto_exact"] is False
        energies = [row["energy_j"] for row in decision["pareto"]]
        assert energies == sorted(energies, reverse=True)


def _beats(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return (
        a[0] <= b[0] * (1 + 1e-9)
        and a[1] <= b[1] * (1 + 1e-9)
        and (a[0] < b[0] * (1 - 1e-9) or a[1] < b[1] * (1 - 1e-9))
    )


def test_the_lead_is_over_the_next() -> None:
    decision = decided(plain("measurements.json"), "time")
    first, second = decision["ranking"][:2]
    assert decision["lead"] == pytest.approx(second["time_s"] / first["time_s"] - 1)


class TestWithACluster:
    def planned(self, cluster: Cluster, goal: str = "time", **times: float) -> Plan:
        table = Measurements.model_validate(plain("measurements.json") | {"model": "tiny"})
        known = profile(3, **(times or {"desktop": 1.0, "jtx2": 2.0, "jtx1": 4.0}))
        return pt.plan("cluster", measurements=table, profile=known, cluster=cluster, goal=goal)

    def lan(self, **changes: Any) -> Cluster:
        nodes = {name: node("edge", samples=100) for name in ("desktop", "jtx2", "jtx1")} | changes
        pairs = [("desktop", "jtx2"), ("desktop", "jtx1"), ("jtx2", "jtx1")]
        return Cluster(nodes=nodes, links=tuple(link(a, b, 1000.0) for a, b in pairs))

    def test_each_device_trains_the_whole_with_the_fastest_as_parameter_server(self) -> None:
        made = self.planned(self.lan())
        (phase,) = made.phases
        assert (phase.sync, phase.server) == ("async", "desktop")
        assert [(i.node, i.layers) for i in phase.instances] == [(n, (1, 3)) for n in ("desktop", "jtx2", "jtx1")]
        assert [(s.node, s.samples) for s in phase.sources] == [(n, 32) for n in ("desktop", "jtx2", "jtx1")]
        assert made.estimate is not None

    def test_a_device_without_data_is_fed_by_the_parameter_server(self) -> None:
        made = self.planned(self.lan(jtx1=node("edge")))
        assert [source.node for source in made.phases[0].sources] == ["desktop", "jtx2", "desktop"]

    def test_a_device_without_memory_is_passed_over(self) -> None:
        made = self.planned(self.lan(jtx1=node("edge", samples=100, memory_bytes=10.0)))
        assert made.decision["devices"] == ["desktop", "jtx2"]

    def test_devices_that_cannot_talk_are_not_put_together(self) -> None:
        lan = self.lan()
        made = self.planned(lan.model_copy(update={"links": ()}))
        assert made.decision["devices"] == ["desktop"]

    def test_a_device_alone_is_found_behind_many_clusters_that_cannot_talk(self) -> None:
        names = [f"d{k}" for k in range(8)]
        devices = {name: {"step_s": 0.1 + 0.01 * k, "build_s": 0.0, "power_w": 5.0} for k, name in enumerate(names)}
        table = Measurements.model_validate({"model": "tiny", "steps": 1000, "devices": devices})
        apart = Cluster(nodes={name: node("edge", samples=100) for name in names})
        known = profile(2, **dict.fromkeys(names, 1.0))
        made = pt.plan("cluster", measurements=table, profile=known, cluster=apart)
        assert made.decision["devices"] == ["d0"]
        assert len(made.decision["ranking"]) <= 20

    def test_no_device_with_enough_memory(self) -> None:
        small = {name: node("edge", samples=100, memory_bytes=10.0) for name in ("desktop", "jtx2", "jtx1")}
        with pytest.raises(pt.Infeasible, match="does not fit the memory of desktop"):
            self.planned(self.lan(**small))

    def test_a_cluster_without_data_or_a_profile_without_devices(self) -> None:
        with pytest.raises(pt.InputError, match="nodes: no source: expected at least one node with a source"):
            self.planned(self.lan(**{name: node("edge") for name in ("desktop", "jtx2", "jtx1")}))
        with pytest.raises(pt.InputError) as caught:
            self.planned(self.lan(), laptop=1.0)
        assert [fault.value for fault in caught.value.faults] == ["desktop", "jtx2", "jtx1"]

    def test_private_data_of_others_feeds_nobody(self) -> None:
        private = {name: node("edge", samples=100, private=True) for name in ("desktop", "jtx2")}
        made = self.planned(self.lan(**private, jtx1=node("edge")))
        assert made.decision["devices"] == ["desktop", "jtx2"]

    def test_training_continues_from_the_weights_of_the_parameter_server(self) -> None:
        """A device that has trained for fewer steps than the table counts leaves more of them."""
        known = plain("measurements.json") | {"model": "tiny", "pretrained_steps": 100}
        known["devices"]["desktop"] |= {"weights": "desktop.safetensors", "pretrained_steps": 70}
        made = pt.plan("cluster", measurements=Measurements.model_validate(known))
        assert made.decision["parameter_server"] == "desktop"
        assert (made.decision["init"], made.decision["steps"]) == ("desktop.safetensors", known["steps"] + 30)

    def test_measurements_of_another_model(self) -> None:
        with pytest.raises(pt.InputError, match=r"measurements\.model: alexnet: the profile is of tiny"):
            pt.plan(
                "cluster",
                measurements=document(plain("measurements.json")),
                profile=profile(2, desktop=1.0),
                cluster=self.lan(),
            )

    def test_a_device_that_is_no_node(self) -> None:
        table = Measurements.model_validate(plain("measurements.json") | {"model": "tiny"})
        lan = Cluster(nodes={"desktop": node("edge", samples=100)})
        with pytest.raises(pt.InputError) as caught:
            pt.plan("cluster", measurements=table, profile=profile(2, desktop=1.0), cluster=lan)
        assert [fault.field for fault in caught.value.faults] == [
            "measurements.devices.jtx2",
            "measurements.devices.jtx1",
        ]


@pytest.mark.parametrize("wish", ["loss", "iteration_deadline_s"])
def test_wishes_that_it_cannot_grant(wish: str) -> None:
    with pytest.raises(pt.InputError, match="expected deadline_s or neither"):
        pt.plan("cluster", measurements=document(plain("measurements.json")), goal=Goal(**{wish: 1.0}))


def test_devices_that_share_the_way_to_the_server_are_as_slow_as_when_they_are_played() -> None:
    # The clock, an independent simulation and the factors of cluster choice agree on the same workers.
    for computes in ([3.0] * 4, [5.0, 9.0, 2.0], [1.0, 30.0, 12.0, 7.5]):
        exchange_s = 2 * 8 * WEIGHTS / 32.0
        alone_s = np.array([each + exchange_s for each in computes])
        sharing = np.ones((1, len(computes)), dtype=bool)
        mean_s = 1 / (1 / contended_steps_s(alone_s, sharing, exchange_s)).sum()
        assert mean_s == pytest.approx(slow_mean_s(computes, [8e9] * len(computes), 32.0, 0.0), rel=0.06)


def test_a_busy_server_makes_a_large_fleet_no_faster_than_its_way_allows() -> None:
    devices = {f"d{k}": {"step_s": 1.0 + k / 10, "build_s": 0.0, "power_w": 1.0} for k in range(40)}
    free = decided({"steps": 1000, "devices": devices}, "time")
    devices["d0"]["served_s"] = 0.5
    busy = decided({"steps": 1000, "devices": devices}, "time")
    assert free["exact"]
    assert not busy["exact"]
    assert busy["time_s"] > 1000 * 0.5 / 2 * 0.8 > free["time_s"]  # each direction lets four steps a second through
    assert 0 < busy["gap"] <= 1 - free["time_s"] / busy["time_s"] + 1e-9
