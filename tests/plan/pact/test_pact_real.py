"""PACT on a profile with variants and a cluster with sets: problems made by a predictor, and phases that can be run."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest

import palmette as pt
from palmette.plan.core.strategy import Task
from palmette.plan.pact import expanded_graph, problem_from_profile
from palmette.plan.pact.phases import schedule_phases, trainable_phases
from palmette.plan.pact.problem_from_profile import PlannedTraining, build_problem, parse_set_classes
from palmette.predict import registry
from palmette.predict.forecast import UNKNOWN, Forecast, History, Setting
from palmette.predict.power_law import PowerLawPredictor
from palmette.predict.registry import load_predictor
from palmette.predict.taught import TaughtPredictor
from palmette.spec.cluster import Cluster, Limits
from palmette.spec.profile import Profile, Table
from tests.plan.pact.problems import loaded, random_problem
from tests.plan.problems import cpu, goal, link, node, profile, times
from tests.predict.test_taught import RANGES

GOAL = goal("energy", loss=1.0, deadline_s=1e5)


def pruned(ratios: tuple[str, ...] = ("0.5", "0.75")) -> Profile:
    """A network whose variants need as much less time as they are smaller."""
    whole = profile(cloud=1.0, server=5.0, phone=40.0)
    variants = {
        ratio: Table(
            layers=whole.layers,
            nodes={
                name: times(slow * (1 - float(ratio)))
                for name, slow in (("cloud", 1.0), ("server", 5.0), ("phone", 40.0))
            },
        )
        for ratio in ratios
    }
    return whole.model_copy(update={"variants": variants})


def sets(**changes: Any) -> Cluster:
    """A cloud, a server and a phone, each with data of its own, and a set for each."""
    nodes = {
        "cloud": node("cloud", samples=4000),
        "server": node("edge", samples=1000),
        "phone": node("device", samples=500, private=True),
    }
    return Cluster(
        nodes=nodes | changes,
        links=(link("phone", "server"), link("server", "cloud", 4.0)),
        sets={"gold": ("cloud",), "silver": ("server", "phone"), "bronze": ("phone",)},
    )


def task(**changes: Any) -> Task:
    return replace(Task(profile=pruned(), cluster=sets(), goal=GOAL), **changes)


def test_every_variant_on_every_set_is_a_phase_of_federated_averaging() -> None:
    found = trainable_phases(task())
    assert list(found) == [(m, n) for m in ("0", "0.5", "0.75") for n in ("gold", "silver", "bronze")]
    silver = found["0.5", "silver"]
    assert (silver.sync, silver.pruning) == ("epoch", 0.5)
    assert [(source.node, source.into) for source in silver.sources] == [("server", "server"), ("phone", "phone")]
    assert all(instance.layers == (1, 2) for instance in silver.instances)


def test_a_set_without_data_gets_that_of_public_sources() -> None:
    found = trainable_phases(task(cluster=sets(cloud=node("cloud"))))
    assert [(source.node, source.into) for source in found["0", "gold"].sources] == [("server", "cloud")]
    private = sets(cloud=node("cloud"), server=node("edge"))
    assert not any(nodes == "gold" for _, nodes in trainable_phases(task(cluster=private)))


def test_nodes_keep_their_limits() -> None:
    found = trainable_phases(task(cluster=sets(server=node("edge", samples=1000, limits=cpu(0.5)))))
    assert [instance.cpu_share for instance in found["0", "silver"].instances] == [0.5, 1.0]


def test_the_problem_has_the_evaluators_prices() -> None:
    wanted = task()
    problem = build_problem(PlannedTraining(wanted, PowerLawPredictor(), 10), (2.3,))
    found = trainable_phases(wanted)
    for run in problem.run:
        price = wanted.evaluator.price(found[run.pair])
        assert (run.time_s, run.energy_j) == (price.epoch.time_s, price.epoch.energy_j)
    assert {change.from_[0] for change in problem.change if change.to[0] == "0"} == {"0"}
    assert (problem.start.model, problem.start.nodes, problem.start.loss) == ("0", "gold", 2.3)


def test_a_problem_from_the_middle_of_a_training_goes_on_from_there() -> None:
    losses = tuple(2.3 * k**-0.5 for k in range(1, 8))
    problem = build_problem(PlannedTraining(task(), PowerLawPredictor(), 10), losses, ("0.5", "silver"))
    assert (problem.start.model, problem.start.nodes, problem.start.loss) == ("0.5", "silver", losses[-1])
    own = next(run for run in problem.run if run.pair == ("0.5", "silver"))
    assert own.loss_expected[0] == pytest.approx(2.3 * 8**-0.5 - losses[-1], abs=1e-3)


def test_a_change_from_the_present_pair_is_predicted_as_if_it_came_now() -> None:
    """It lifts the loss by 0.7 here, and epochs after it start from there."""

    class Noting(PowerLawPredictor):
        def predict_epochs(self, history: History, epochs: int) -> Forecast:
            begun[history.setting] = history.losses
            return super().predict_epochs(history, epochs)

        def predict_change(self, history: History, to: Setting) -> Forecast:
            asked.append((history.setting, history.losses))
            return Forecast(expected=(0.7,), low=(0.6,), robust=(0.8,), total_robust=(0.8,))

    begun: dict[Setting, tuple[float, ...]] = {}
    asked: list[tuple[Setting, tuple[float, ...]]] = []
    build_problem(PlannedTraining(task(), Noting(), 10), (2.3, 1.9, 1.7))

    here = Setting(pruning=0.0, samples=4000, classes=10)
    assert {losses for setting, losses in asked if setting == here} == {(2.3, 1.9, 1.7)}
    assert begun.pop(here) == (2.3, 1.9, 1.7)
    assert all(losses == (pytest.approx(2.4),) for losses in begun.values())


def test_no_epoch_is_trusted_beyond_the_bound() -> None:
    def robust(bound: float | None) -> list[float]:
        training = PlannedTraining(task(), load_predictor("power-law", bound), 10)
        return [loss for run in build_problem(training, (2.3, 1.9, 1.7)).run for loss in run.loss_robust]

    assert min(robust(None)) < -0.01
    assert min(robust(0.01)) >= -0.01 - 1e-12
    with pytest.raises(pt.InputError, match="bound"):
        load_predictor("power-law", -1.0)


def test_steps_are_as_coarse_as_the_graph_needs_them_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    training = PlannedTraining(task(), PowerLawPredictor(), 10)
    fine = build_problem(training, (2.3, 1.9))
    for module in (problem_from_profile, expanded_graph):
        monkeypatch.setattr(module, "MAX_CELLS", 2e5)

    coarse = build_problem(training, (2.3, 1.9))

    assert coarse.loss_step > fine.loss_step
    assert coarse.model_copy(update={"loss_step": fine.loss_step}) == fine
    with pytest.raises(pt.InputError, match="the graph would hold"):
        pt.plan("pact", problem=fine)
    assert pt.plan("pact", problem=coarse).decision["loss"] <= 1.0


@pytest.mark.parametrize("strategy", ["pact", "pact-optimum", "one-switch"])
def test_the_plan_has_phases_that_can_be_run(strategy: str) -> None:
    made = pt.plan(strategy, profile=pruned(), cluster=sets(), goal=GOAL, predictor="power-law")
    decision = made.decision
    assert [phase.epochs for phase in made.phases] == [segment["epochs"] for segment in decision["schedule"]]
    assert [f"{phase.pruning:g}" for phase in made.phases] == [segment["model"] for segment in decision["schedule"]]
    assert made.estimate is not None
    assert made.estimate.epochs == sum(segment["epochs"] for segment in decision["schedule"])
    first = made.phases[0]
    entry = 0.0 if (first.pruning, first.instances[0].node) == (0.0, "cloud") else None
    if entry is not None:
        assert made.estimate.total_j == pytest.approx(decision["energy_j"])
        assert made.estimate.total_s == pytest.approx(decision["time_s"])


def test_what_is_missing_is_said() -> None:
    without = sets().model_copy(update={"sets": {}})
    with pytest.raises(pt.InputError, match="sets: missing: a schedule needs sets of nodes"):
        pt.plan("pact", profile=pruned(), cluster=without, goal=GOAL, predictor="power-law")
    with pytest.raises(pt.InputError, match="loss: missing"):
        pt.plan("pact", profile=pruned(), cluster=sets(), predictor="power-law")
    with pytest.raises(pt.InputError, match="problem: missing: pact needs it, or profile and cluster"):
        pt.plan("pact")
    powerless = sets(phone=node("device", samples=500, power=None))
    with pytest.raises(pt.InputError, match=r"nodes\.phone\.power: missing"):
        pt.plan("pact", profile=pruned(), cluster=powerless, goal=GOAL, predictor="power-law")
    with pytest.raises(pt.InputError, match="classes: 1: expected at least 2"):
        pt.plan("pact", profile=pruned(), cluster=sets(), goal=GOAL, classes=1)


def test_a_set_that_may_not_train_is_left_out_and_where_none_may_the_reason_is_said() -> None:
    tiny = {"memory_bytes": 10.0}
    some = sets(cloud=node("cloud", samples=4000, **tiny))
    assert {nodes for _, nodes in trainable_phases(task(cluster=some))} == {"silver", "bronze"}
    none = sets(**{name: node("edge", samples=9, **tiny) for name in ("cloud", "server", "phone")})
    with pytest.raises(pt.Infeasible, match="does not fit the memory of cloud"):
        trainable_phases(task(cluster=none))
    unknown = pruned(()).model_copy(update={"nodes": {}})
    with pytest.raises(pt.InputError, match="cloud"):
        trainable_phases(task(profile=unknown))


def test_a_set_without_any_data_is_no_reason_to_fail() -> None:
    dry = sets(cloud=node("cloud"), server=node("edge"))
    assert {nodes for _, nodes in trainable_phases(task(cluster=dry))} == {"silver", "bronze"}


def test_a_problem_about_other_models_has_a_schedule_but_no_phases() -> None:
    problem = loaded(random_problem(0, back=False, models=2, epochs=3))
    made = pt.plan("pact-optimum", problem=problem, profile=pruned(), cluster=sets())
    assert made.decision["schedule"]
    assert made.phases == ()


def test_a_loss_that_is_reached_already_needs_no_phase() -> None:
    assert schedule_phases(task(), []) == ()


def test_an_energy_limit_is_kept() -> None:
    tired = sets(cloud=node("cloud", samples=4000, limits=Limits(energy_j=0.1)))
    with pytest.raises(pt.Infeasible, match="its energy limit"):
        pt.plan(
            "pact",
            profile=pruned(()),
            cluster=tired.model_copy(update={"sets": {"gold": ("cloud",)}}),
            goal=GOAL,
            predictor="power-law",
        )


class Reckless:
    """Promises that smaller models and other nodes lower the loss by much, whatever the loss is."""

    def predict_epochs(self, history: History, epochs: int) -> Forecast:
        falls = (-0.9,) * epochs
        return Forecast(expected=falls, low=falls, robust=falls, total_robust=tuple(accumulate(falls)))

    def predict_change(self, history: History, to: Setting) -> Forecast:
        return Forecast(expected=(-1.61,), low=(-1.61,), robust=(-1.61,), total_robust=(-1.61,))


@pytest.mark.parametrize("strategy", ["pact", "pact-optimum", "one-switch"])
def test_no_plan_ends_below_the_loss_that_is_possible(monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    monkeypatch.setitem(registry.PREDICTORS, "reckless", Reckless)
    for loss in (1.0, 0.1):
        found = pt.plan(
            strategy, profile=pruned(), cluster=sets(), goal=replace(GOAL, loss=loss), predictor="reckless"
        ).decision
        assert 0.0 <= found["loss"] <= loss


def test_a_plan_says_where_its_predictor_was_not_taught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.PREDICTORS, "few", lambda: TaughtPredictor(Reckless(), RANGES))
    odd = replace(GOAL, loss=0.5)
    warnings = pt.plan("pact", profile=pruned(), cluster=sets(), goal=odd, predictor="few").decision["warnings"]
    assert any(
        "on gold: predicted beyond what was taught: samples 4000 (taught: 100 to 1000)" in each for each in warnings
    )

    monkeypatch.setitem(registry.PREDICTORS, "old", lambda: TaughtPredictor(Reckless(), None))
    decision = pt.plan("pact", profile=pruned(), cluster=sets(), goal=GOAL, predictor="old").decision
    assert decision["warnings"] == [UNKNOWN]


def test_every_set_has_its_own_samples_and_classes() -> None:
    """Silver is two nodes with data of their own."""
    found = trainable_phases(task())
    training = PlannedTraining(task(), PowerLawPredictor(), 10, parse_set_classes("gold=7, silver=9"))
    settings = {nodes: training.setting(("0.5", nodes), found["0.5", nodes]) for nodes in ("gold", "silver", "bronze")}
    assert {nodes: each.classes for nodes, each in settings.items()} == {"gold": 7, "silver": 9, "bronze": 10}
    assert {nodes: each.samples for nodes, each in settings.items()} == {"gold": 4000, "silver": 1500, "bronze": 500}


@pytest.mark.parametrize("wrong", ["gold", "gold=", "=3", "gold=0", "gold=x", "gold=7,silver=-1"])
def test_classes_that_are_none_are_refused(wrong: str) -> None:
    with pytest.raises(pt.InputError, match=r"set_classes: .*: expected sets and their classes, such as gold=7"):
        parse_set_classes(wrong)


def test_classes_of_a_set_that_is_not_there_are_refused() -> None:
    with pytest.raises(pt.InputError, match=r"set_classes: golt: no such set of nodes; did you mean gold\?"):
        pt.plan("pact", profile=pruned(), cluster=sets(), goal=GOAL, predictor="power-law", set_classes="golt=3")


class Forgetful(PowerLawPredictor):
    """A pruned network has lost all that was learnt, and an epoch brings it back."""

    def predict_change(self, history: History, to: Setting) -> Forecast:
        rise = (2.3 - history.loss,) if to.pruning > history.setting.pruning else (0.0,)
        return Forecast(expected=rise, low=rise, robust=rise, total_robust=rise)

    def predict_epochs(self, history: History, epochs: int) -> Forecast:
        falls = (-1.0, *[-0.02] * (epochs - 1))[:epochs] if len(history.losses) == 1 else (-0.02,) * epochs
        return Forecast(expected=falls, low=falls, robust=falls, total_robust=tuple(accumulate(falls)))


def test_distillation_is_a_pruning_an_epoch_of_the_giver_and_a_handover() -> None:
    training = PlannedTraining(task(), Forgetful(), 10, distill=True)
    changes = build_problem(training, (2.3, 1.5)).change
    found = {(change.from_, change.to, change.compress): change for change in changes}
    assert len(found) == len(changes)
    plain, distilled = (found[("0", "gold"), ("0.5", "bronze"), way] for way in ("prune", "distill"))
    assert (plain.loss_expected, distilled.loss_expected) == (pytest.approx(0.8), pytest.approx(-0.2))
    assert distilled.time_s > plain.time_s
    assert distilled.energy_j > plain.energy_j
    assert (("0", "gold"), ("0", "bronze"), "distill") not in found


def test_a_plan_distills_where_that_is_better_and_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.PREDICTORS, "forgetful", Forgetful)
    asked = {"profile": pruned(), "cluster": sets(), "goal": replace(GOAL, loss=0.2), "predictor": "forgetful"}
    made = pt.plan("pact-optimum", **asked, distill=True)
    ways = [row.get("compress", "prune") for row in made.decision["schedule"]]
    assert "distill" in ways
    assert [phase.compress for phase in made.phases] == ways
    plain = pt.plan("pact-optimum", **asked).decision
    assert made.decision["energy_j"] < plain["energy_j"]
    assert all(set(row) == {"model", "nodes", "epochs"} for row in plain["schedule"])
