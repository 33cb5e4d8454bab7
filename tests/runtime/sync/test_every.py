"""``every`` is local SGD, and DiLoCo with an outer optimizer: the same weights as plain loops, for any forest."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from palmette.runtime.data.epoch_length import common_steps
from palmette.runtime.training.checkpoint import last
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from tests.cost.random_trees import random_cluster, random_phase
from tests.cost.small import instance, phase, source
from tests.runtime.rig import off
from tests.runtime.sync.test_epoch import ELEMENTWISE, MORE, epoch_inputs, naming, rig, two_devices, world
from tests.runtime.trees import DATA, OTHER_DATA, Forest, LocalSgd
from tests.runtime.world import lines
from tests.thorough import mostly_thorough

DILOCO: dict[str, Any] = {"lr": 0.7, "momentum": 0.9}


def every(many: int, **more: Any) -> dict[str, Any]:
    return {"sync": "every", "every": many, **more}


def assert_equal(forest: Forest, iterations: int = 15) -> None:
    twin = LocalSgd(forest)
    expected = twin.iterations(iterations, common_steps(forest.phase, *epoch_inputs(forest)))
    outcome, found = forest.trained(iterations=iterations)
    assert outcome.ended == "done"
    assert off(found, expected) <= ELEMENTWISE
    noted = [line for line in lines(forest.folder / "metrics.jsonl") if "accuracy" not in line]
    assert [line["loss"] for line in noted] == pytest.approx(twin.losses, rel=1e-9)
    assert [line["samples"] for line in noted] == [forest.phase.batch] * iterations


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_replicas_average_their_weights_and_keep_their_optimizers(optimizer: Any, tmp_path: Path) -> None:
    forest = Forest(rig(optimizer=optimizer), two_devices(**every(4)), world(a=30, b=24), tmp_path)
    assert common_steps(forest.phase, *epoch_inputs(forest)) == 6  # so that windows are of four and of two steps
    assert_equal(forest)


@pytest.mark.parametrize("outer", [DILOCO, {"lr": 0.5, "momentum": 0.6, "nesterov": False}, {"lr": 1.3, "momentum": 0}])
def test_an_outer_optimizer_updates_with_the_mean_difference(outer: dict[str, Any], tmp_path: Path) -> None:
    made = rig(norm=True, optimizer="momentum")
    assert_equal(Forest(made, two_devices(**every(3, outer=outer, server="c")), world(a=30, b=24, c=None), tmp_path))


def test_an_outer_optimizer_that_averages_only_changes_nothing(tmp_path: Path) -> None:
    found = []
    for name, more in {"x": {}, "y": {"outer": {"lr": 1.0, "momentum": 0.0}}}.items():
        (tmp_path / name).mkdir()
        made = Forest(rig(), two_devices(**every(3, **more)), world(a=30, b=24), tmp_path / name)
        found.append(made.trained(iterations=8)[1])
    assert off(*found) <= ELEMENTWISE


@pytest.mark.parametrize("order", ["fifo", "zero-bubble"])
def test_a_lone_tree_has_an_outer_optimizer_too(order: str, tmp_path: Path) -> None:
    asked = every(3, outer=DILOCO, order=order)
    chain = phase(source("a", 5, "A"), instance("A", 1, 2, "a", "B"), instance("B", 3, 4, "b"), **asked)
    assert_equal(Forest(rig(optimizer="momentum"), chain, world(a=30, b=None), tmp_path))


def test_schedules_clipping_and_accumulation_go_on_through_exchanges(tmp_path: Path) -> None:
    made = rig(optimizer="adam")
    made.options = replace(made.options, **MORE)  # type: ignore[arg-type]
    assert_equal(Forest(made, two_devices(**every(3)), world(a=30, b=24), tmp_path))


def test_nodes_with_data_of_their_own_train_on_that(tmp_path: Path) -> None:
    known = naming(world(a=30, b=24), a=DATA, b=OTHER_DATA)
    assert_equal(Forest(rig(), two_devices(**every(3, outer=DILOCO)), known, tmp_path))


def test_a_slow_node_may_give_fewer_of_its_samples_to_a_batch(tmp_path: Path) -> None:
    """In two epochs, all samples of the one are drawn three times, and some of the other never."""
    uneven = phase(
        source("a", 1, "A"), source("b", 9, "B"), *(instance(name.upper(), 1, 4, name) for name in "ab"),
        **every(4, outer=DILOCO),
    )  # fmt: skip
    forest = Forest(rig(), uneven, naming(world(a=54, b=18), a=DATA, b=OTHER_DATA), tmp_path)
    assert common_steps(forest.phase, *epoch_inputs(forest)) == 8
    assert_equal(forest, iterations=16)


def test_samples_may_be_kept_by_replicas_elsewhere(tmp_path: Path) -> None:
    """One owner, three replicas; in the third epoch hardly any samples travel."""
    shared = phase(
        source("a", 4, "A"),
        source("a", 5, "B", delivery="once"),
        source("a", 2, "C", delivery="once"),
        *(instance(name.upper(), 1, 4, name) for name in "abc"),
        **every(2),
    )
    assert_equal(Forest(rig(), shared, world(a=54, b=None, c=None), tmp_path))
    sent = [line for line in lines(tmp_path / "trace.jsonl") if line["op"] == "send"]
    early, late = (
        sum(each["bytes"] for each in sent if each["iteration"] in part) for part in (range(5), range(10, 15))
    )
    assert late < early


def test_a_window_of_one_step_is_step(tmp_path: Path) -> None:
    found = []
    for name, more in {"x": {}, "y": every(1)}.items():
        (tmp_path / name).mkdir()
        made = Forest(rig(optimizer="adam"), two_devices(**more), world(a=30, b=24), tmp_path / name)
        found.append(made.trained(iterations=7)[1])
    assert off(*found) == 0


def test_averaging_after_each_step_of_sgd_would_be_step_to_rounding(tmp_path: Path) -> None:
    forest = Forest(rig(), two_devices(**every(1)), world(a=30, b=24), tmp_path)
    expected = LocalSgd(forest).iterations(8, 6)
    assert off(forest.trained(iterations=8)[1], expected) <= ELEMENTWISE


@pytest.mark.slow
def test_an_outer_optimizer_may_follow_every_step(tmp_path: Path) -> None:
    assert_equal(Forest(rig(), two_devices(**every(1, outer=DILOCO)), world(a=30, b=24), tmp_path))


def random_forest(seed: int, folder: Path) -> Forest:
    """Up to three trees on up to five nodes."""
    draw = random.Random(seed)
    known = random_cluster(draw, [f"n{k}" for k in range(draw.randint(1, 5))])
    fields = random_phase(draw, known, 4).model_dump()
    for each in fields["instances"]:
        each["codec"] = "none"
    fields |= every(draw.randint(2, 5), outer=draw.choice([None, DILOCO]), server=draw.choice([None, *known.nodes]))
    return Forest(rig(optimizer=draw.choice(["sgd", "momentum"])), validated(Phase, fields), known, folder)


@pytest.mark.parametrize("seed", range(6))
def test_any_forest_equals_plain_local_sgd(seed: int, tmp_path: Path) -> None:
    assert_equal(random_forest(seed, tmp_path), iterations=9)


@pytest.mark.slow
@pytest.mark.parametrize("block", mostly_thorough(range(10), 1))
def test_any_forest_equals_plain_local_sgd_many_times(block: int, tmp_path: Path) -> None:
    for seed in range(100 + 20 * block, 120 + 20 * block):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert_equal(random_forest(seed, folder), iterations=9)


def test_a_stopped_run_ends_its_window_and_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    """All replicas have optimizer state of their own, and the server has momentum."""
    tree = two_devices(**every(4, outer=DILOCO, server="c"))
    known = world(a=30, b=24, c=None)
    made = [Forest(rig(norm=True, optimizer="adam"), tree, known, tmp_path / name) for name in "xy"]
    for each in made:
        each.folder.mkdir()
    _, expected = made[0].trained(epochs=3)

    def stop(training: Any, update: Any) -> None:
        if update.iteration == 8 and update.evaluation is None:
            training.stop()

    made[1].watch = stop
    outcome, halfway = made[1].trained(epochs=3)
    assert (outcome.ended, outcome.iterations) == ("stopped", 10)
    assert off(halfway, expected) > 0
    kept = last(made[1].folder / "checkpoints").checkpoint.optimizer
    assert {name.rpartition("/")[2] for name in kept} == {
        "exp_avg", "exp_avg_sq", "step", "exp_avg@B", "exp_avg_sq@B", "step@B", "momentum_buffer@",
    }  # fmt: skip
    made[1].watch = lambda *_: None
    outcome, found = made[1].trained(resume=True, epochs=3)
    assert outcome.ended == "done"
    assert off(found, expected) == 0


def test_other_trees_go_on_with_the_first_replicas_optimizer_and_the_outer_momentum(tmp_path: Path) -> None:
    """As after a node was lost: another server, and a replica under another name."""
    first = Forest(rig(optimizer="momentum"), two_devices(**every(3, outer=DILOCO)), world(a=30, b=24), tmp_path)

    def stop(training: Any, update: Any) -> None:
        if update.iteration == 6:
            training.stop()

    first.watch = stop
    outcome, _ = first.trained(iterations=12)
    assert (outcome.ended, outcome.iterations) == ("stopped", 6)
    kept = last(tmp_path / "checkpoints").checkpoint.optimizer
    other = phase(source("b", 10, "Z"), instance("Z", 1, 4, "b"), **every(3, outer=DILOCO))
    resumed = Forest(first.rig, other, first.cluster, tmp_path)
    outcome, _ = resumed.trained(resume=True, iterations=12)
    assert (outcome.ended, outcome.iterations) == ("done", 12)
    after = last(tmp_path / "checkpoints").checkpoint.optimizer
    assert {name for name in kept if name.endswith("@")} == {name for name in after if name.endswith("@")} != set()
    assert any(not name.endswith("@") for name in after)


def test_the_log_has_an_exchange_after_every_window(tmp_path: Path) -> None:
    forest = Forest(rig(), two_devices(**every(4)), world(a=30, b=24), tmp_path)
    outcome, _ = forest.trained(epochs=2)
    trace = lines(tmp_path / "trace.jsonl")
    assert {line["iteration"] for line in trace if line["op"] == "average"} == {3, 5, 9, 11}
    assert outcome.measured[0].iteration_s is not None
