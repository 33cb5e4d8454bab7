"""PACT in a real run: decided anew after every epoch with the loss that was really seen."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Any

import pytest

from palmette import load_cluster, load_profile
from palmette.cli import execute
from palmette.control.adapt.online import OnlineController, online_controller
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.plan.core.strategy import Task
from palmette.plan.pact.phases import trainable_phases
from palmette.plan.pact.problem_from_profile import build_problem
from palmette.predict.forecast import Forecast, History, Setting
from palmette.predict.power_law import PowerLawPredictor
from palmette.predict.registry import PREDICTORS
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import EpochStatus
from palmette.spec.files import validated
from palmette.spec.plan import Asked, Plan
from palmette.spec.problem import Pair, Problem
from palmette.zoo.data import load_data
from tests.plan.pact.test_pact_real import task
from tests.runtime.world import TINY, Runs, lines, losses

TASK = task()
PHASES = trainable_phases(TASK)
GOLD = PHASES["0", "gold"]


RUN = [
    {"model": "0", "nodes": "gold", "time_s": 1.0, "energy_j": 10.0, "loss_expected": [-1.0, -0.5, -0.01]},
    {"model": "0.5", "nodes": "silver", "time_s": 1.0, "energy_j": 4.0, "loss_expected": [0.0, 0.0, -0.3]},
]
TABLE: dict[str, Any] = {
    "models": ["0", "0.5"],
    "node_sets": ["gold", "silver"],
    "start": {"model": "0", "nodes": "gold", "loss": 2.3},
    "target_loss": 0.5,
    "deadline_s": 100.0,
    "loss_step": 0.01,
    "time_step_s": 1.0,
    "run": [{**row, "loss_robust": row["loss_expected"]} for row in RUN],
    "change": [
        {"from": ["0", "gold"], "to": ["0.5", "silver"], "time_s": 0.0, "energy_j": 0.0}
        | {"loss_expected": 0.0, "loss_robust": 0.0}
    ],
}


def online(**options: Any) -> Any:
    asked = Asked(goal="energy", loss=0.5, deadline_s=1e5, options={"predictor": "power-law", **options})
    plan = Plan(strategy="pact", model="m", batch=TASK.batch, phases=(GOLD,), asked=asked)
    found = online_controller(plan, TASK.evaluator)
    assert found is not None
    return found


def standing(*seen: float, time_s: float = 1.0) -> EpochStatus:
    return EpochStatus(0, GOLD, seen, Evaluation(0.5, seen[-1]), time_s, 1.0, segment_epochs=1, epoch_s=1.0)


def test_it_ends_when_the_loss_is_reached_or_time_is_up() -> None:
    assert online()(standing(2.0, 0.5)) == []
    assert online()(standing(2.0, 1.0, time_s=1e5)) == []


def test_where_no_way_is_known_it_goes_on_while_the_loss_falls_since_the_last_change() -> None:
    never = online(
        problem=TABLE | {"run": [row | {"loss_robust": [0.0], "loss_expected": [0.0]} for row in TABLE["run"]]}
    )

    def goes_on(*seen: float, since: int) -> bool:
        return bool(never(replace(standing(*seen), segment_epochs=since)))

    assert goes_on(2.0, 1.5, since=2)
    assert goes_on(1.0, 1.8, since=1)
    assert goes_on(1.0, 1.8, 1.6, since=2)
    assert goes_on(1.8, 1.6, 1.7, 1.9, since=4), "one epoch's loss is noisy"
    assert not goes_on(1.8, 1.6, 1.7, 1.9, 1.65, since=5)
    assert goes_on(1.0, 1.8, 1.9, 1.85, since=3), "what was before the change does not count"


def test_otherwise_the_next_epoch_is_one_of_the_pairs() -> None:
    (phase,) = online()(standing(2.0, 1.5, 1.2))
    assert phase.epochs == 1
    assert phase.model_copy(update={"epochs": None}) in PHASES.values()
    other = GOLD.model_copy(update={"sync": "async"})
    assert online()(replace(standing(2.0, 1.0), phase=other)) is None


def test_losses_before_a_change_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[tuple[float, ...], tuple[float, ...]]] = []

    def noted(training: Any, losses: tuple[float, ...], pair: Any, before: tuple[float, ...]) -> Any:
        asked.append((before, losses))
        return build_problem(training, losses, pair, before)

    monkeypatch.setattr("palmette.control.adapt.online.build_problem", noted)
    online()(replace(standing(2.0, 1.5), segment_epochs=2))
    online()(replace(standing(2.0, 1.5, 1.9, 1.7), segment_epochs=2))
    start = math.log(10)
    assert asked == [((), (start, 2.0, 1.5)), ((start, 2.0, 1.5), (1.9, 1.7))]


def test_a_table_is_looked_up_where_the_training_stands() -> None:
    """Two epochs on gold are worth it, then silver is cheaper; the third epoch is decided after two real ones."""
    found = online(problem=TABLE)
    assert found(standing(1.3))[0].pruning == 0.0
    assert found(standing(1.3, 0.8))[0].pruning == 0.5


def test_the_table_of_a_run_is_the_one_that_was_planned_with() -> None:
    wide = TABLE | {"run": [row | {"loss_robust": [0.9 * loss for loss in row["loss_expected"]]} for row in RUN]}
    reserves = {}
    for independent in (False, True):
        problem, _ = online(problem=wide, independent=independent).problem_at(standing(1.3), ("0", "gold"))
        reserves[independent] = problem.run[0].loss_robust[0] - problem.run[0].loss_expected[0]
    assert reserves[False] == pytest.approx(0.1)
    assert 0 < reserves[True] < 0.1


def test_epochs_that_take_longer_than_the_table_says_leave_fewer_of_them() -> None:
    """Three epochs on silver would be in time by the table, but not if each takes half as long again."""
    gold, silver = TABLE["run"]
    runs = [
        gold | {"loss_expected": [-0.9], "loss_robust": [-0.9]},
        silver | {"time_s": 3.0, "energy_j": 2.0, "loss_expected": [-0.3], "loss_robust": [-0.3]},
    ]
    table = validated(Problem, TABLE | {"run": runs, "deadline_s": 10.0})
    found = OnlineController(PHASES, 0.5, 10.0, lambda seen, _: (table, len(seen.losses)))

    def prunes(epoch_s: float) -> float:
        phases = found(replace(standing(1.3), epoch_s=epoch_s))
        assert phases
        return phases[0].pruning

    assert prunes(epoch_s=1.0) == 0.5
    assert prunes(epoch_s=0.5) == 0.5
    assert prunes(epoch_s=1.5) == 0.0


def own_digits() -> Any:
    """Data of a node's own."""
    train = load_data("digits", (1, 8, 8)).train
    return [train[k] for k in range(len(train))]


def test_a_run_knows_the_data_and_the_network_of_all_that_may_follow(runs: Runs) -> None:
    """The plan begins and ends on gold; silver has data of its own, and the smaller model is made from the whole."""
    text = runs.cluster.read_text().replace("samples: 100}", f'samples: 100, data: "{__name__}:own_digits"}}')
    text = text.replace("samples: 1500}", "samples: 1500, data: digits}")
    runs.cluster.write_text(text + "sets: {gold: [phone], silver: [server]}\n")
    cluster, profile = load_cluster(runs.cluster), load_profile(runs.profile(TINY, pruned=[0.5]))
    gold = trainable_phases(Task(profile=profile, cluster=cluster, batch=20))["0", "gold"].model_copy(
        update={"epochs": 1}
    )
    asked = Asked(goal="energy", loss=0.5, deadline_s=100.0, options={"problem": TABLE})
    plan = Plan(strategy="pact", model=TINY, batch=20, phases=(gold,), asked=asked)
    job = prepare(plan, profile, cluster, Request(testbed="none"), runs.folder / "out")._job
    assert list(job.own_data) == ["digits", f"{__name__}:own_digits"]
    assert job.origin is not None


def test_only_pact_is_asked_again() -> None:
    plan = Plan(strategy="pact-optimum", model="m", batch=1, phases=(GOLD,), asked=Asked(loss=0.5, deadline_s=1.0))
    assert online_controller(plan, TASK.evaluator) is None
    assert online_controller(plan.model_copy(update={"strategy": "pact", "asked": None}), TASK.evaluator) is None


@pytest.mark.parametrize("resumed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_of_pact_switches_by_itself_and_ends_at_the_loss(runs: Runs, resumed: bool) -> None:
    text = runs.cluster.read_text().replace("samples: 100}", "samples: 1500}")
    text = text.replace("samples: 1500}", "samples: 1500, data: digits}")
    runs.cluster.write_text(text + "sets: {gold: [cloud], silver: [server], bronze: [phone]}\n")
    made = str(runs.profile(TINY, pruned=[0.25, 0.5]))
    plan, out = runs.folder / "pact.json", runs.folder / "out"
    files = ["--profile", made, "--cluster", str(runs.cluster)]
    wishes = ["--predictor", "power-law", "--loss", "1.2", "--deadline", "600 s", "--batch", "50"]
    assert execute(["plan", "pact", *files, *wishes, "-o", str(plan)]) == 0
    train = ["--testbed", "none", "--optimizer", "momentum", "--lr", "0.05", "--quiet", "--trust-code"]
    if resumed:
        from palmette.runtime.training import loop

        usual, saves = loop.Training._save, []

        def save(self: loop.Training, *, best: bool = False) -> None:
            usual(self, best=best)
            saves.append(best)
            if len(saves) == 3:
                self.stop()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop.Training, "_save", save)
            assert execute(["run", str(plan), *train, "-o", str(out)]) == 1
        assert execute(["run", "--resume", str(out), "--quiet"]) == 0
    else:
        assert execute(["run", str(plan), *train, "-o", str(out)]) == 0

    written = json.loads((out / "run.json").read_text())
    metrics = [line for line in lines(out / "metrics.jsonl") if "accuracy" not in line]
    last = [line["loss"] for line in metrics if line["epoch"] == metrics[-1]["epoch"]]
    assert sum(last) / len(last) <= 1.2
    assert written["ended"] == "done"
    assert sum(phase["epochs"] for phase in written["plan"]["phases"]) == metrics[-1]["epoch"] + 1
    assert len(losses(out)) == written["iterations"]
    prunings = [phase["pruning"] for phase in written["plan"]["phases"]]
    assert prunings == sorted(prunings)


def test_a_switch_that_the_deadline_needs_is_made_whatever_it_costs() -> None:
    """By the robust estimates gold is too slow, by the expected ones just in time, and cheaper."""
    gold, silver = TABLE["run"]
    runs = [
        gold | {"loss_expected": [-0.3], "loss_robust": [-0.1]},
        silver | {"energy_j": 20.0, "loss_expected": [-0.4], "loss_robust": [-0.3]},
    ]

    def prunes(deadline_s: float) -> float:
        table = validated(Problem, TABLE | {"run": runs, "deadline_s": deadline_s})
        (phase,) = OnlineController(PHASES, 0.5, deadline_s, lambda *_: (table, 0))(standing(1.3)) or ()
        return phase.pruning

    assert (prunes(100.0), prunes(3.0)) == (0.0, 0.5)


def steered(silver_j: float, noise: float, seed: int) -> tuple[list[Pair], list[float]]:
    """A training by a controller with forecasts that are noisy anew after every epoch: pairs in turn, joules an epoch.

    The whole network on gold, or half of it on either set, all lower the loss by 0.04 an epoch.
    """
    draw, fall = random.Random(seed), 0.04
    pairs = {("0", "gold"): 10.0, ("0.5", "gold"): silver_j * 1.02, ("0.5", "silver"): silver_j}

    def forecast(_: EpochStatus, __: Any) -> tuple[Problem, int]:
        falls = {pair: -fall * (1 + draw.gauss(0, noise)) for pair in pairs}
        run = [
            {"model": model, "nodes": nodes, "time_s": 1.0, "energy_j": joules}
            | {"loss_expected": [falls[model, nodes]], "loss_robust": [falls[model, nodes] + 1.64 * noise * fall]}
            for (model, nodes), joules in pairs.items()
        ]
        change = [
            {"from": here, "to": there, "time_s": 0.0, "energy_j": 0.1, "loss_expected": 0.05, "loss_robust": 0.1}
            for here in pairs
            for there in pairs
            if here != there and here[0] <= there[0]
        ]
        return validated(Problem, TABLE | {"run": run, "change": change, "loss_step": 0.002}), 0

    controller = OnlineController(PHASES, 0.5, 100.0, forecast)
    phase, seen, since, losses = GOLD, [], 0, [2.3]
    while True:
        since += 1
        losses.append(losses[-1] - fall)
        seen.append(phase)
        status = EpochStatus(0, phase, losses[1:], Evaluation(0.5, losses[-1]), float(len(seen)), 1.0, since, 1.0)
        found = controller(status)
        if not found:
            break
        if controller._pair(found[0]) != controller._pair(phase):
            since, losses[-1] = 0, losses[-1] + 0.05
        phase = found[0]
    assert losses[-1] <= 0.5, "the loss is reached in time"
    names = [controller._pair(each) for each in seen]
    return [key for key, _ in groupby(names)], [pairs[name] for name in names]


def test_noise_makes_no_training_hop() -> None:
    names, _ = steered(9.0, 0.3, seed=1)
    assert len(names) <= 3


def test_a_switch_that_clearly_pays_is_made_at_once() -> None:
    names, joules = steered(2.0, 0.1, 0)
    assert names[-1][0] == "0.5"
    assert joules[1] < 3.0


class TeachersPet(PowerLawPredictor):
    """A network that has learnt something may be pruned, and its student learns much in its first epoch."""

    def predict_change(self, history: History, to: Setting) -> Forecast:
        smaller = to.pruning > history.setting.pruning
        rise = ((5.0 if history.loss > 2.2 else 0.1) if smaller else 0.0,)
        return Forecast(expected=rise, low=rise, robust=rise, total_robust=rise)

    def predict_epochs(self, history: History, epochs: int) -> Forecast:
        pruned, first = history.setting.pruning > 0, len(history.losses) == 1
        falls = tuple(-0.5 if pruned and first and k == 0 else -0.05 if pruned else -0.02 for k in range(epochs))
        return Forecast(expected=falls, low=falls, robust=falls, total_robust=tuple(accumulate(falls)))


@pytest.mark.slow
def test_a_run_distills_where_that_was_allowed_and_is_better(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PREDICTORS, "teachers-pet", TeachersPet)
    text = runs.cluster.read_text().replace("samples: 100}", "samples: 1500}")
    text = text.replace("samples: 1500}", "samples: 1500, data: digits}")
    runs.cluster.write_text(text + "sets: {gold: [phone], silver: [server]}\n")
    plan, out = runs.folder / "pact.json", runs.folder / "out"
    files = ["--profile", str(runs.profile(TINY, pruned=[0.5])), "--cluster", str(runs.cluster)]
    wishes = ["--predictor", "teachers-pet", "--loss", "0.5", "--deadline", "600 s", "--batch", "50"]
    assert execute(["plan", "pact", "--distill", *files, *wishes, "-o", str(plan)]) == 0
    train = ["--testbed", "none", "--optimizer", "momentum", "--lr", "0.02", "--quiet", "--trust-code"]
    assert execute(["run", str(plan), *train, "-o", str(out)]) == 0

    written = json.loads((out / "run.json").read_text())
    assert written["ended"] == "done"
    assert "distill" in [phase["compress"] for phase in written["plan"]["phases"][1:]]
    seen = losses(out)
    assert seen[-1] < seen[0] / 2
