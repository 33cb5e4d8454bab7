"""HierTrain against every policy there is, against its own Algorithm 1, and against the event clock."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import palmette as pt
from palmette.errors import not_below
from palmette.plan.core.strategy import Task
from palmette.plan.hiertrain import exact_search
from palmette.plan.hiertrain.exact_search import find_optimum
from palmette.plan.hiertrain.formula import Policy, is_feasible, total_s
from palmette.plan.hiertrain.linear_program import round_samples
from palmette.plan.hiertrain.problem import build_problem
from palmette.plan.hiertrain.tree import build_tree
from palmette.spec.cluster import Cluster, Limits, Power
from palmette.spec.plan import Phase
from tests.plan.hiertrain import by_hand
from tests.plan.problems import goal, link, node, profile, three_tiers
from tests.plan.random_problems import extreme_world, random_world


def a_task(seed: int, **world: Any) -> Task:
    draw = random.Random(seed)
    world = {"nodes": draw.choice([1, 2, 3, 3, 3]), "layers": draw.choice([1, 2, 3])} | world
    known, cluster = random_world(draw, **world)
    return Task(profile=known, cluster=cluster, batch=draw.choice([1, 2, 3, 5]))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("fixed", [True, False])
def test_the_decision_is_the_best_of_all_policies(seed: int, fixed: bool) -> None:
    task = a_task(seed, fixed=fixed, limits=seed % 3 == 0)
    decision = by_hand.decided(task)

    assert decision["iteration_s"] == pytest.approx(by_hand.total_s(task, decision), rel=1e-9)
    assert decision["iteration_s"] == pytest.approx(by_hand.least_s(task), rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("what", [{"memory": True}, {"private": True}, {"memory": True, "private": True}])
def test_memory_and_private_data_are_obeyed_at_the_least_cost(seed: int, what: dict[str, bool]) -> None:
    task = a_task(seed, **what)
    least = by_hand.least_s(task)
    if least is None:
        with pytest.raises(pt.Infeasible, match="no policy of hiertrain is feasible"):
            by_hand.decided(task)
    else:
        assert by_hand.decided(task)["iteration_s"] == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize(("strategy", "batch"), [("hiertrain", 4), ("jointdnn+", 4), ("hybrid", 1)])
def test_memory_is_filled_to_the_last_byte(strategy: str, batch: int) -> None:
    """2 layers with 2 copies of 1000 B of weights each, and samples with 2 × 500 B of activations.

    ``hybrid`` would take several samples in turns, which need less.
    """
    needed_bytes = 4000.0 + batch * 1000.0

    def planned(memory_bytes: float) -> pt.Plan:
        alone = Cluster(nodes={"phone": node("device", samples=10, memory_bytes=memory_bytes)})
        return pt.plan(strategy, profile=profile(phone=1.0), cluster=alone, batch=batch)

    assert planned(needed_bytes).phases
    with pytest.raises(pt.Infeasible, match="does not fit the memory of phone"):
        planned(needed_bytes - 1)


def test_of_more_than_three_nodes_the_best_three_are_chosen() -> None:
    for seed in range(3):
        task = a_task(seed, nodes=4, layers=2)
        assert by_hand.decided(task)["iteration_s"] == pytest.approx(by_hand.least_s(task), rel=1e-9)


@given(
    st.integers(0, 10**9),
    st.integers(1, 300),
    st.fixed_dictionaries({name: st.booleans() for name in ("fixed", "memory", "private", "limits")}),
)
@settings(max_examples=40, deadline=None)
def test_pruning_changes_no_decision(seed: int, batch: int, what: dict[str, bool]) -> None:
    draw = random.Random(seed)
    known, cluster = random_world(draw, nodes=draw.choice([1, 2, 3, 3, 4]), layers=4, **what)
    problem = build_problem(Task(profile=known, cluster=cluster, batch=batch))

    every = find_optimum(problem, prune=False)
    assert find_optimum(problem, prune=True) == every
    with pytest.MonkeyPatch.context() as patch:  # as for many nodes: by worker_o and worker_l, whoever is worker_s
        patch.setattr(exact_search, "_PLACEMENTS_AT_ONCE", 1)
        assert find_optimum(problem, prune=True) == every


@given(st.integers(0, 10**9), st.integers(10, 40))
@settings(max_examples=20, deadline=None)
def test_samples_are_the_best_integers_for_larger_batches(seed: int, batch: int) -> None:
    known, cluster = random_world(random.Random(seed), nodes=3, layers=1)
    task = Task(profile=known, cluster=cluster, batch=batch)
    assert by_hand.decided(task)["iteration_s"] == pytest.approx(by_hand.least_s(task), rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_algorithm_1_is_never_better(seed: int) -> None:
    task = a_task(seed, nodes=3, layers=3)
    theirs, ours = by_hand.decided(task, method="lp"), by_hand.decided(task)

    assert theirs["iteration_s"] == pytest.approx(by_hand.total_s(task, theirs), rel=1e-9)
    assert ours["iteration_s"] <= theirs["iteration_s"] * (1 + 1e-12)


def test_the_papers_rounding_gives_one_more_to_the_largest_fractions() -> None:
    assert round_samples([1.2, 3.7, 4.1]) == (1, 4, 4)  # type: ignore[arg-type]
    assert round_samples([1.6, 3.7, 4.7]) == (1, 4, 5)  # type: ignore[arg-type]
    assert round_samples([0.0, 10.0, 0.0]) == (0, 10, 0)  # type: ignore[arg-type]


def test_a_huge_batch_takes_no_longer_than_its_logarithm() -> None:
    decision = pt.plan("hiertrain", profile=profile(4), cluster=three_tiers(), batch=10**12).decision
    assert decision["b_o"] + decision["b_s"] + decision["b_l"] == 10**12


class TestNumbersOfAllSizes:
    """Numbers up to 1e18 and down to the smallest float: a decision, or a line that says why not, never a warning."""

    @pytest.mark.parametrize("call_s", [242268999160677.0, 281474976710655.0, 1e18])
    def test_a_call_so_long_that_samples_weigh_nothing(self, call_s: float) -> None:
        known = profile()
        server = known.nodes["server"].model_copy(update={"forward_call_s": (call_s, 0.001)})
        nodes = {**known.nodes, "server": server}
        task = Task(profile=known.model_copy(update={"nodes": nodes}), cluster=three_tiers(), batch=32)
        decision = by_hand.decided(task)
        assert decision["iteration_s"] == pytest.approx(by_hand.total_s(task, decision), rel=1e-9)
        assert decision == by_hand.decided(task, prune=False)

    @pytest.mark.parametrize("options", [{}, {"prune": False}, {"method": "lp"}])
    @pytest.mark.parametrize("seed", range(25))
    def test_it_decides_or_says_why_not(self, seed: int, options: dict[str, Any]) -> None:
        draw = random.Random(seed)
        known, cluster = extreme_world(draw)
        task = Task(profile=known, cluster=cluster, batch=draw.choice([1, 2, 32, 10**12]))
        try:
            decision = by_hand.decided(task, **options)
        except pt.Infeasible as told:
            assert "no policy of hiertrain is feasible; " in str(told)  # noqa: PT017
        else:
            assert decision["b_o"] + decision["b_s"] + decision["b_l"] == task.batch
            assert 0 <= decision["iteration_s"] < float("inf")


def test_a_very_deep_network_on_one_node() -> None:
    alone = Cluster(nodes={"phone": node("device", samples=10)})
    decision = pt.plan("hiertrain", profile=profile(400, phone=1.0), cluster=alone, batch=4).decision
    assert (decision["worker_o"], decision["worker_s"], decision["worker_l"]) == ("phone", None, None)


class TestTheTree:
    def test_has_the_three_branches_of_the_paper(self) -> None:
        phase = self.tree(Policy(2, 0, 1, 1, 3, 4, 2, 6))
        assert self.drawn(phase) == {
            "O1": ((1, 1), "cloud", "O2", 4),
            "O2": ((2, 3), "cloud", "O3", 0),
            "O3": ((4, 5), "cloud", None, 0),
            "S": ((1, 1), "phone", "O2", 2),
            "L": ((1, 3), "server", "O3", 6),
        }

    @pytest.mark.parametrize("m_s", range(6))
    def test_is_a_tree_for_every_policy(self, m_s: int) -> None:
        problem = build_problem(self.task)
        for m_l in range(m_s, 6):
            for b_s in {0, 5, 12} if m_s else {0}:
                for b_l in {0, 12 - b_s, (12 - b_s) // 2} if m_l else {0}:
                    policy = Policy(2, 0, 1, m_s, m_l, 12 - b_s - b_l, b_s, b_l)
                    phase = build_tree(problem, policy, self.task)
                    assert phase.batch == 12
                    assert self.task.evaluator.price(phase).iteration_s > 0
                    assert is_feasible(problem, policy)

    def test_leaves_out_branches_without_samples(self) -> None:
        assert self.drawn(self.tree(Policy(2, 0, 1, 1, 3, 12, 0, 0))) == {"O1": ((1, 5), "cloud", None, 12)}
        assert self.drawn(self.tree(Policy(2, 0, 1, 1, 3, 0, 0, 12))) == {
            "O1": ((4, 5), "cloud", None, 0),
            "L": ((1, 3), "server", "O1", 12),
        }

    def test_gives_a_branch_to_the_last_layer_a_loss_of_its_own(self) -> None:
        assert self.drawn(self.tree(Policy(2, 0, 1, 2, 5, 6, 2, 4))) == {
            "O1": ((1, 2), "cloud", "O2", 6),
            "O2": ((3, 5), "cloud", None, 0),
            "S": ((1, 2), "phone", "O2", 2),
            "L": ((1, 5), "server", None, 4),
        }

    task = Task(profile=profile(5), cluster=three_tiers(), batch=12)

    def tree(self, policy: Policy) -> Phase:
        return build_tree(build_problem(self.task), policy, self.task)

    def drawn(self, phase: Phase) -> dict[str, Any]:
        fed = {feed.into: feed.samples for feed in phase.sources}
        return {i.id: (i.layers, i.node, i.into, fed.get(i.id, 0)) for i in phase.instances}


class TestAgainstTheClock:
    task = Task(profile=profile(5), cluster=three_tiers(), batch=12)

    def both(self, policy: Policy, task: Task | None = None) -> tuple[float, float]:
        task = task or self.task
        problem = build_problem(task)
        return total_s(problem, policy), task.evaluator.price(build_tree(problem, policy, task)).iteration_s

    @pytest.mark.parametrize("o", [0, 1, 2])
    def test_they_agree_on_one_worker(self, o: int) -> None:
        formula, clock = self.both(Policy(o, None, None, 0, 0, 12, 0, 0))
        assert clock == pytest.approx(formula)

    @pytest.mark.parametrize("m_l", [1, 2, 3, 4])
    def test_on_a_chain_the_formula_has_an_exchange_and_an_update_more(self, m_l: int) -> None:
        """In the chain L → O nothing is replicated; the formula still exchanges, and O updates all layers."""
        formula, clock = self.both(Policy(2, None, 0, 0, m_l, 0, 0, 12))
        problem = build_problem(self.task)
        exchange = 2 * problem.weight_bytes[m_l] * problem.s_per_byte[0, 2]
        assert problem.update[0, m_l] > problem.update[2, 5]  # L's update comes last, in both
        assert formula == pytest.approx(clock + exchange)

    def test_where_no_link_carries_two_transfers_the_clock_is_never_slower(self) -> None:
        """The owner is worker_o, with a link of its own to each of the others."""
        star = Cluster(
            nodes=three_tiers().nodes,
            links=(link("phone", "server", 8, 0.01), link("phone", "cloud", 2, 0.02), link("server", "cloud", 1)),
        )
        task = Task(profile=profile(5), cluster=star, batch=12)
        for m_s, m_l, b_s, b_l in [(1, 2, 3, 4), (2, 2, 5, 5), (3, 5, 2, 8), (5, 5, 4, 4), (1, 4, 0, 6)]:
            formula, clock = self.both(Policy(0, 1, 2, m_s, m_l, 12 - b_s - b_l, b_s, b_l), task)
            assert clock <= formula * (1 + 1e-9)


class TestWhatCannotBe:
    def test_several_sources_name_who_takes_them(self) -> None:
        two = three_tiers(server=node("edge", samples=10))
        with pytest.raises(pt.InputError, match=r"2 sources: hiertrain expected exactly one; hybrid shares layers"):
            pt.plan("hiertrain", profile=profile(), cluster=two)

    def test_no_source(self) -> None:
        with pytest.raises(pt.InputError, match="no source"):
            pt.plan("hiertrain", profile=profile(), cluster=three_tiers(phone=node("device")))

    def test_no_path_from_an_owner_that_cannot_compute(self) -> None:
        apart = three_tiers().model_copy(update={"links": ()})
        with pytest.raises(pt.InputError, match="phone to server: there is no path"):
            pt.plan("hiertrain", profile=profile(server=1, cloud=1), cluster=apart)

    def test_a_node_that_is_cut_off_is_passed_over(self) -> None:
        apart = three_tiers().model_copy(update={"links": (link("phone", "server"),)})
        decision = pt.plan("hiertrain", profile=profile(), cluster=apart).decision
        assert decision["worker_s"] is None
        assert {decision["worker_o"], decision["worker_l"]} == {"phone", "server"}

    def test_a_deadline_names_the_best_time(self) -> None:
        best = pt.plan("hiertrain", profile=profile(), cluster=three_tiers(), batch=10).estimate.iteration_s
        with pytest.raises(pt.Infeasible, match=f"the least that can be had is {not_below(best)} s"):
            pt.plan(
                "hiertrain", profile=profile(), cluster=three_tiers(), batch=10, goal=goal(iteration_deadline_s=1e-3)
            )

    def test_too_little_memory_is_told_in_a_line(self) -> None:
        small = {name: node(each.tier, memory_bytes=10.0) for name, each in three_tiers().nodes.items()}
        small["phone"] = node("device", samples=10, memory_bytes=10.0)
        with pytest.raises(pt.Infeasible, match=r"no policy of hiertrain is feasible; alone on cloud: .* KiB") as told:
            pt.plan("hiertrain", profile=profile(), cluster=three_tiers(**small))
        assert "\n" not in str(told.value)

    def test_an_energy_limit_is_obeyed(self) -> None:
        free = pt.plan("hiertrain", profile=profile(), cluster=three_tiers(), batch=10)
        busiest = free.decision["worker_o"]
        spent = free.estimate.nodes[busiest].energy_j
        tight = three_tiers(
            **{
                busiest: three_tiers()
                .nodes[busiest]
                .model_copy(update={"limits": Limits(energy_j=spent / 2), "power": Power(idle_w=0.0, busy_w=100.0)})
            }
        )
        limited = pt.plan("hiertrain", profile=profile(), cluster=tight, batch=10)
        assert limited.decision["worker_o"] != busiest or limited.decision["b_o"] < 10

    def test_an_unknown_method(self) -> None:
        with pytest.raises(pt.InputError, match="method: simplex: expected one of exact, lp"):
            pt.plan("hiertrain", profile=profile(), cluster=three_tiers(), method="simplex")
