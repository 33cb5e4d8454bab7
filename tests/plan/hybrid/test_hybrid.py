"""Hybrid against its rivals, its lower bound and what it must obey."""

from __future__ import annotations

import random
from typing import Any

import pytest

import palmette as pt
from benchmarks.planner.cases import other_three_tiers
from palmette.cost.optimizer import accumulating
from palmette.plan.core.comparison import mean_iteration
from palmette.plan.core.strategy import HORIZON_EPOCHS, Task
from palmette.plan.hybrid.bound import lower_bounds
from palmette.plan.hybrid.edits import PARTS, edited, edits, selections
from palmette.plan.hybrid.paths import SamplePath, SearchState, paths_of, simplified
from palmette.plan.hybrid.pricing import Cost, Objective, Pricer
from palmette.plan.hybrid.problem import HybridProblem, make_problem
from palmette.plan.hybrid.quick_bound import QuickBound
from palmette.plan.hybrid.stages import HybridSearch
from palmette.plan.hybrid.starts import starts
from palmette.spec.cluster import Cluster, Limits
from palmette.spec.goal import value
from palmette.spec.plan import Phase, Plan
from tests.plan.problems import LITTLE, goal, link, node, profile, three_tiers
from tests.plan.random_problems import random_world
from tests.thorough import mostly_slow, mostly_thorough

RIVALS = ("all-device", "all-edge", "all-cloud", "hiertrain", "jointdnn", "jointdnn+", "upload")
QUICK = 0.02  # seconds: being no worse than rivals does not depend on how long the search lasts


def plans_of_rivals(task: Task, goal_: str = "time", lossy: bool = False) -> list[Plan]:
    made = []
    for name in RIVALS + (("jalad",) if lossy else ()):
        try:
            made.append(pt.plan(name, profile=task.profile, cluster=task.cluster, batch=task.batch, goal=goal_))
        except pt.PalmetteError:
            continue
    return made


def never_worse(task: Task, goal_: str = "time", lossy: bool = False) -> int:
    """Compare hybrid with its rivals; returns how many of them have a plan."""
    ours = pt.plan(
        "hybrid", profile=task.profile, cluster=task.cluster, batch=task.batch, goal=goal_, seconds=QUICK, lossy=lossy
    ).estimate
    rivals = plans_of_rivals(task, goal_, lossy)
    for theirs in rivals:
        limit = value(goal_, *mean_iteration(theirs.estimate, HORIZON_EPOCHS))
        assert value(goal_, *mean_iteration(ours, HORIZON_EPOCHS)) <= limit * (1 + 1e-9), theirs.strategy
    return len(rivals)


def random_task(seed: int) -> Task:
    draw = random.Random(seed)
    nodes = draw.choice([2, 3, 3, 4, 5])
    known, cluster = random_world(
        draw,
        nodes=nodes,
        layers=draw.choice([1, 3, 6]),
        sources=draw.choice([1, 1, 2]),
        memory=seed % 5 == 1,
        private=seed % 7 == 2,
        limits=seed % 3 == 0,
    )
    batch, many = draw.choice([2, 7, 24]), draw.choice([1, 1, 4])
    return Task(profile=known, cluster=cluster, batch=batch, optimizer=accumulating("sgd", many))


def is_feasible(task: Task) -> bool:
    """Whether hybrid has a plan; where it has none, no rival may have one either."""
    try:
        pt.plan("hybrid", profile=task.profile, cluster=task.cluster, batch=task.batch, seconds=QUICK)
    except pt.Infeasible:
        assert not plans_of_rivals(task)
        return False
    return True


def feasible_task(seed: int) -> Task:
    """A random task that has a plan: that of the seed, or of the first after it that has one."""
    return next(task for each in range(seed, seed + 1000, 200) if is_feasible(task := random_task(each)))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_never_worse_than_a_rival(seed: int) -> None:
    assert never_worse(feasible_task(seed), ("time", "energy", "edp", "power")[seed % 4], lossy=seed % 3 == 0)


@pytest.mark.parametrize("seed", range(0, 24, 3))
def test_a_weighted_sum_is_never_worse_than_a_rival(seed: int) -> None:
    task, text = feasible_task(seed), "0.3*time+0.7*energy"
    ours = pt.plan("hybrid", profile=task.profile, cluster=task.cluster, batch=task.batch, goal=text, seconds=QUICK)
    units, rivals = ours.decision["units"], plans_of_rivals(task, text)
    for theirs in rivals:
        seconds, joules, *_ = mean_iteration(theirs.estimate, HORIZON_EPOCHS)
        rival = 0.3 * seconds / units["time"] + 0.7 * joules / units["energy"]
        assert ours.decision["value"] <= rival * (1 + 1e-9), theirs.strategy


@pytest.mark.parametrize("seed", range(0, 24, 3))
def test_under_a_deadline_it_is_never_worse_than_a_rival_in_time(seed: int) -> None:
    task = feasible_task(seed)
    rivals = plans_of_rivals(task, "energy")
    limit_s = sorted(plan.estimate.iteration_s for plan in rivals)[len(rivals) // 2]
    ours = pt.plan(
        "hybrid",
        profile=task.profile,
        cluster=task.cluster,
        batch=task.batch,
        goal=goal("energy", iteration_deadline_s=limit_s),
        seconds=QUICK,
    ).estimate
    assert ours.iteration_s <= limit_s
    in_time = [plan for plan in rivals if plan.estimate.iteration_s <= limit_s]
    assert all(ours.iteration_j <= plan.estimate.iteration_j * (1 + 1e-9) for plan in in_time)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", mostly_thorough((range(k, k + 20) for k in range(0, 200, 20)), 3))
def test_it_is_never_worse_than_a_rival_on_two_hundred_clusters(seeds: range) -> None:
    feasible = [task for seed in seeds if is_feasible(task := random_task(seed))]
    assert len(feasible) >= len(seeds) // 2, "most random tasks have a plan"
    compared = [never_worse(task) for task in feasible]
    assert sum(map(bool, compared)) >= len(feasible) // 2, "most of them have a rival to compare with"


@pytest.mark.parametrize("mbps", [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0])
def test_it_is_never_worse_than_a_rival_at_any_bandwidth(mbps: float) -> None:
    links = (link("phone", "server", 5.0), link("server", "cloud", mbps))
    assert never_worse(Task(profile=profile(5), cluster=three_tiers().model_copy(update={"links": links}), batch=32))


def test_the_same_seed_gives_the_same_plan() -> None:
    known = {"profile": profile(3), "cluster": three_tiers(), "batch": 5, "effort": 0.3}
    first, second = (pt.plan("hybrid", **known, seed=3) for _ in range(2))
    assert first.phases == second.phases
    assert first.decision == second.decision


@pytest.mark.parametrize("wanted", ["time", "energy"])
def test_of_equal_plans_it_takes_the_one_with_the_fewest_instances(wanted: str) -> None:
    """Without fixed parts of calls, microbatches on one node change nothing but the last digit."""
    known = profile(5, phone=3.0, server=4000.0, cloud=4000.0)
    none = {"forward_call_s": None, "backward_call_s": None}
    times = {name: each.model_copy(update=none) for name, each in known.nodes.items()}
    made = pt.plan(
        "hybrid",
        profile=known.model_copy(update={"nodes": times}),
        cluster=three_tiers(),
        batch=24,
        goal=wanted,
        effort=LITTLE,
    )
    assert len(made.phases[0].instances) == 1


@pytest.mark.slow
def test_it_beats_every_rival_where_a_link_would_idle() -> None:
    """The phone could work while its raw data travels; no rival lets it."""
    known = profile(8, phone=8.0, server=2.0, cloud=1.0)
    task = Task(profile=known, cluster=three_tiers(), batch=64)
    ours = pt.plan("hybrid", profile=known, cluster=three_tiers(), batch=64)
    best = min(theirs.estimate.iteration_s for theirs in plans_of_rivals(task))
    assert ours.estimate.iteration_s < 0.95 * best
    assert ours.decision["from"] == "search"


class TestWhatItStates:
    def test_value_bound_and_gap(self) -> None:
        plan = pt.plan("hybrid", profile=profile(4), cluster=three_tiers(), batch=16, seconds=0.1)
        decision = plan.decision
        assert decision["goal"] == "time"
        assert decision["value"] == pytest.approx(mean_iteration(plan.estimate, decision["epochs"])[0])
        assert 0 < decision["lower_bound"] <= decision["value"]
        assert decision["gap"] == pytest.approx(1 - decision["lower_bound"] / decision["value"])

    @pytest.mark.parametrize("seed", mostly_slow(range(25), 10))
    def test_no_plan_is_below_the_bound(self, seed: int) -> None:
        problem = make_problem(random_task(seed), lossy=seed % 2 == 1)
        bounds = lower_bounds(problem)
        pricer = Pricer(problem)
        costs = priced_states(problem, pricer, seed)
        for quantity in ("time", "energy", "edp", "power"):
            found = [value(quantity, cost.time_s, cost.energy_j) for _, cost in costs]
            assert bounds.of(quantity) <= min(found) * (1 + 1e-9), quantity

    @pytest.mark.parametrize("seed", mostly_slow(range(12), 4))
    def test_no_plan_that_a_search_finds_is_below_the_bound(self, seed: int) -> None:
        """Pipelines in turns, networks side by side and all plans of few paths included."""
        problem = make_problem(feasible_task(seed), resend=seed % 3 == 1)
        search, bounds = HybridSearch(problem, seconds=None, effort=LITTLE), lower_bounds(problem)
        search.run()
        for quantity in ("time", "energy", "edp", "power"):
            assert bounds.of(quantity) <= search.least(quantity) * (1 + 1e-9), quantity

    @pytest.mark.parametrize("seed", range(12))
    def test_no_plan_is_below_its_quick_estimate(self, seed: int) -> None:
        problem = make_problem(random_task(seed), lossy=seed % 2 == 1)
        quick_bound, pricer = QuickBound(problem), Pricer(problem)
        for state, cost in priced_states(problem, pricer, seed):
            assert all(least <= real * (1 + 1e-9) for least, real in zip(quick_bound.least(state), cost, strict=True))

    @pytest.mark.slow
    @pytest.mark.parametrize("epochs", [1, 20])
    def test_the_bound_counts_what_replicas_exchange(self, epochs: int) -> None:
        """Samples are small: two nodes would halve the time, if gradients did not have to travel."""
        heavy = profile(4, phone=1.0, server=1.0)
        layers = tuple(layer.model_copy(update={"parameter_bytes": 1e7, "output_bytes": 1e6}) for layer in heavy.layers)
        two = Cluster(
            nodes={"phone": node("device", samples=1000), "server": node("edge")}, links=(link("phone", "server", 5.0),)
        )
        plan = pt.plan(
            "hybrid", profile=heavy.model_copy(update={"layers": layers}), cluster=two, batch=16, epochs=epochs
        )
        assert {instance.node for instance in plan.phases[0].instances} == {"phone"}
        assert plan.decision["gap"] < 0.01

    @pytest.mark.slow
    def test_nothing_else_is_printed(self, capfd: pytest.CaptureFixture[str]) -> None:
        """HiGHS says on standard output when it repairs a solution, whatever it is told."""
        known, cluster = other_three_tiers()
        assert lower_bounds(make_problem(Task(profile=known, cluster=cluster, batch=128), resend=False)).time_s > 0
        assert capfd.readouterr().out == ""

    def test_the_bound_is_met_where_there_is_nothing_to_decide(self) -> None:
        alone = Cluster(nodes={"phone": node("device", samples=10)})
        decision = pt.plan("hybrid", profile=profile(3, phone=1.0), cluster=alone, batch=8, seconds=0.1).decision
        assert decision["gap"] == pytest.approx(0, abs=1e-5)

    def test_a_weighted_sum_is_over_the_best_of_each(self) -> None:
        known = {"profile": profile(4), "cluster": three_tiers(), "batch": 16, "effort": LITTLE}
        least = {q: pt.plan("hybrid", **known, goal=q).decision["value"] for q in ("time", "energy")}
        plan = pt.plan("hybrid", **known, goal="0.3*time+0.7*energy")
        time_s, energy_j, *_ = mean_iteration(plan.estimate, HORIZON_EPOCHS)
        parts = time_s / least["time"], energy_j / least["energy"]
        assert plan.decision["value"] == pytest.approx(0.3 * parts[0] + 0.7 * parts[1])


class TestWhatItObeys:
    def test_it_sends_integers_only_where_they_are_allowed(self) -> None:
        private = three_tiers(phone=node("device", samples=100, private=True))
        large = profile(4)
        large = large.model_copy(
            update={"layers": tuple(each.model_copy(update={"output_bytes": 5e4}) for each in large.layers)}
        )
        known = {"profile": large, "cluster": private, "batch": 12, "seconds": 0.3}
        plain, lossy = pt.plan("hybrid", **known), pt.plan("hybrid", **known, lossy=True)
        assert {i.codec for i in plain.phases[0].instances} == {"none"}
        assert not any("8-bit" in warning for warning in plain.estimate.warnings)
        assert "int4-delta" in {i.codec for i in lossy.phases[0].instances}
        assert any("unknown until it is measured" in warning for warning in lossy.estimate.warnings)

    @pytest.mark.slow
    def test_outputs_travel_as_deltas_where_they_come_back_and_may_be_kept(self) -> None:
        """Not in the only epoch, not of a stream, not without memory: then as 8-bit integers."""
        layers = tuple(each.model_copy(update={"output_bytes": 5e4}) for each in profile(4).layers)
        known = {"profile": profile(4).model_copy(update={"layers": layers}), "batch": 12, "lossy": True}
        phone = node("device", samples=100, private=True)
        source = phone.source.model_copy(update={"stream": True})
        for own, epochs, codec in (
            (phone, 5, "int4-delta"),
            (phone, 1, "int8"),
            (phone.model_copy(update={"source": source}), 5, "int8"),
            (phone.model_copy(update={"memory_bytes": 4e6}), 5, "int8"),
        ):
            plan = pt.plan("hybrid", **known, cluster=three_tiers(phone=own), epochs=epochs, effort=LITTLE)
            assert {i.codec for i in plan.phases[0].instances} == {codec, "none"}

    def test_what_gains_nothing_is_not_compressed(self) -> None:
        alone = Cluster(
            nodes={"phone": node("device", samples=10, private=True), "cloud": node("cloud")},
            links=(link("phone", "cloud", 1e6),),
        )
        tiny = profile(3, phone=1.0, cloud=1.0)
        nothing = tuple(layer.model_copy(update={"output_bytes": 0.0}) for layer in tiny.layers)
        plan = pt.plan(
            "hybrid",
            profile=tiny.model_copy(update={"layers": nothing}),
            cluster=alone,
            batch=8,
            seconds=0.1,
            lossy=True,
        )
        assert {i.codec for i in plan.phases[0].instances} == {"none"}

    def test_private_data_stays(self) -> None:
        private = three_tiers(phone=node("device", samples=100, private=True))
        (phase,) = pt.plan("hybrid", profile=profile(4), cluster=private, batch=12, seconds=0.1).phases
        places = {instance.id: instance.node for instance in phase.instances}
        assert {places[feed.into] for feed in phase.sources} == {"phone"}

    def test_every_source_gives_in_proportion(self) -> None:
        two = three_tiers(server=node("edge", samples=3000))
        (phase,) = pt.plan("hybrid", profile=profile(4), cluster=two, batch=12, seconds=0.1).phases
        given = {name: sum(f.samples for f in phase.sources if f.node == name) for name in ("phone", "server")}
        assert given == {"phone": 3, "server": 9}

    def test_an_energy_limit(self) -> None:
        free = pt.plan("hybrid", profile=profile(4), cluster=three_tiers(), batch=12, seconds=0.1)
        spent = free.estimate.nodes["server"].energy_j if "server" in free.estimate.nodes else 1.0
        tight = three_tiers(server=node("edge", limits=Limits(energy_j=spent / 2)))
        limited = pt.plan("hybrid", profile=profile(4), cluster=tight, batch=12, seconds=0.1)
        used = limited.estimate.nodes.get("server")
        assert used is None or used.energy_j <= spent / 2

    def test_a_deadline_while_saving_energy(self) -> None:
        known = {"profile": profile(4), "cluster": three_tiers(), "batch": 16, "effort": LITTLE}
        fast = pt.plan("hybrid", **known).estimate
        frugal = pt.plan("hybrid", **known, goal="energy").estimate
        assert frugal.iteration_j <= fast.iteration_j
        limit = goal("energy", iteration_deadline_s=(fast.iteration_s + frugal.iteration_s) / 2)
        between = pt.plan("hybrid", **known, goal=limit).estimate
        assert between.iteration_s <= limit.iteration_deadline_s
        assert between.iteration_j <= fast.iteration_j * (1 + 1e-9)

    def test_a_deadline_that_cannot_be_met_names_the_best_time(self) -> None:
        known = {"profile": profile(), "cluster": three_tiers(), "batch": 8, "effort": LITTLE}
        best = pt.plan("hybrid", **known)
        with pytest.raises(
            pt.Infeasible, match=r"^iteration_deadline_s: 0.001 s: cannot be met; the least .* is "
        ) as no:
            pt.plan("hybrid", **known, goal=goal(iteration_deadline_s=1e-3))
        told = float(str(no.value).split()[-2])
        assert told <= best.estimate.iteration_s * 1.1


class TestWhatCannotBe:
    def test_no_source(self) -> None:
        with pytest.raises(pt.InputError, match="no source"):
            pt.plan("hybrid", profile=profile(), cluster=three_tiers(phone=node("device")))

    def test_sources_that_cannot_talk(self) -> None:
        apart = Cluster(nodes={"a": node("device", samples=5), "b": node("device", samples=5)})
        with pytest.raises(pt.InputError, match="a to b: there is no path"):
            pt.plan("hybrid", profile=profile(a=1, b=1), cluster=apart)

    def test_nothing_to_compute_on(self) -> None:
        with pytest.raises(pt.InputError, match="expected times in the profile"):
            pt.plan("hybrid", profile=profile(moon=1), cluster=three_tiers())

    def test_memory_that_is_too_small_everywhere(self) -> None:
        small = {name: each.model_copy(update={"memory_bytes": 10.0}) for name, each in three_tiers().nodes.items()}
        with pytest.raises(pt.Infeasible, match="does not fit the memory"):
            pt.plan("hybrid", profile=profile(), cluster=three_tiers(**small), effort=LITTLE)

    def test_an_unknown_power_that_the_goal_needs(self) -> None:
        unknown = three_tiers(phone=node("device", samples=10, power=None))
        with pytest.raises(pt.InputError, match="power: missing: the goal energy needs it"):
            pt.plan("hybrid", profile=profile(), cluster=unknown, goal="energy")

    def test_no_time_to_search(self) -> None:
        with pytest.raises(pt.InputError, match="seconds: 0: expected more than 0"):
            pt.plan("hybrid", profile=profile(), cluster=three_tiers(), seconds=0)


class TestWays:
    def test_they_make_the_tree_of_the_drawing(self) -> None:
        task = Task(profile=profile(4), cluster=three_tiers(), batch=12)
        state = SearchState(
            (
                SamplePath("phone", 4, (("cloud", 4),)),
                SamplePath("phone", 2, (("phone", 1), ("cloud", 4))),
                SamplePath("phone", 6, (("server", 3), ("cloud", 4))),
            )
        )
        phase = Pricer(make_problem(task)).phase(state)
        drawn = {(i.layers, i.node) for i in phase.instances}
        assert drawn == {((4, 4), "cloud"), ((2, 3), "cloud"), ((1, 1), "cloud"), ((1, 1), "phone"), ((1, 3), "server")}
        assert paths_of(phase) == state.paths

    def test_runs_lose_what_is_empty_or_not_cut(self) -> None:
        assert simplified([("a", 0), ("b", 2), ("b", 3), ("a", 3), ("c", 4)]) == (("b", 3), ("c", 4))

    @pytest.mark.parametrize("seed", range(15))
    def test_whatever_the_search_makes_is_a_tree_with_the_same_samples(self, seed: int) -> None:
        task = random_task(seed)
        problem = make_problem(task, lossy=True)
        pricer = Pricer(problem)
        for state in random_states(problem, random.Random(seed), 30):
            phase = Phase.model_validate(pricer.phase(state).model_dump())
            assert phase.depth == len(task.profile.layers)
            given: dict[str, int] = {}
            for feed in phase.sources:
                given[feed.node] = given.get(feed.node, 0) + feed.samples
            assert given == problem.samples


def priced_states(problem: HybridProblem, pricer: Pricer, seed: int) -> list[tuple[SearchState, Cost]]:
    """Random states that may run, with their costs; there are some."""
    states = random_states(problem, random.Random(seed), 25)
    priced = [(state, cost) for state in states if (cost := pricer.cost(state)) is not None]
    assert priced, "a random task lets some random state run"
    return priced


def random_states(problem: HybridProblem, draw: random.Random, many: int) -> list[SearchState]:
    """States that random edits lead to."""
    states: list[Any] = starts(problem, {}, QuickBound(problem), [Objective({"time": 1.0}), Objective({"energy": 1.0})])
    found = []
    for _ in range(many):
        state = draw.choice(states)
        for _ in range(draw.randint(1, 4)):
            chosen = draw.choice(selections(state, problem))
            edit = draw.choice(list(edits(state.paths[chosen[0]], problem)))
            state = edited(state, chosen, edit, draw.choice(PARTS), problem) or state
        found.append(state)
    return found


@pytest.mark.slow
def test_what_is_allowed_never_makes_it_worse() -> None:
    """Integers may be used, they need not be."""
    for seed in (0, 4, 7):
        task = random_task(seed)
        known = {"profile": task.profile, "cluster": task.cluster, "batch": task.batch, "effort": LITTLE}
        plain, lossy = pt.plan("hybrid", **known), pt.plan("hybrid", **known, lossy=True)
        assert lossy.estimate.iteration_s <= plain.estimate.iteration_s * (1 + 1e-9)
