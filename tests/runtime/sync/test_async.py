"""``async`` is a parameter server: one worker is plain training, and with several the next step is for who is free."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from palmette.spec.plan import Phase
from tests.cost.small import instance, phase, source
from tests.runtime.rig import off
from tests.runtime.sync.test_epoch import MORE, Optimizer, rig, world
from tests.runtime.trees import Forest, MemoryGround, Sgd
from tests.runtime.world import lines

KNOWN = {"a": 30, "b": 24, "c": None}
LONE = {
    "whole, away from the server": [source("a", 6, "A"), instance("A", 1, 4, "a")],
    "whole, on the server": [source("a", 6, "A"), instance("A", 1, 4, "c")],
    "a chain that passes the server": [
        source("a", 6, "A"),
        instance("A", 1, 1, "a", "B"),
        instance("B", 2, 2, "c", "C"),
        instance("C", 3, 4, "b"),
    ],
    "branches with the same layers": [
        source("a", 4, "A"),
        source("b", 3, "B"),
        source("a", 2, "C"),
        instance("A", 1, 3, "a", "R"),
        instance("B", 1, 3, "c", "R"),
        instance("C", 1, 3, "c", "R"),
        instance("R", 4, 4, "b"),
    ],
}


def noted(folder: Path) -> list[dict[str, Any]]:
    return [line for line in lines(folder / "metrics.jsonl") if "accuracy" not in line]


@pytest.mark.parametrize("name", LONE)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_one_worker_is_plain_training(name: str, optimizer: Optimizer, tmp_path: Path) -> None:
    forest = Forest(rig(optimizer=optimizer), phase(*LONE[name], sync="async", server="c"), world(**KNOWN), tmp_path)
    twin = Sgd(forest)
    expected = twin.steps(20)
    _, found = forest.trained(iterations=20)
    assert off(found, expected) <= 1e-10
    assert [line["loss"] for line in noted(tmp_path)] == pytest.approx(twin.losses, rel=1e-9)


@pytest.mark.parametrize("name", LONE)
def test_one_worker_clips_accumulates_and_follows_its_schedule(name: str, tmp_path: Path) -> None:
    made = rig(optimizer="momentum")
    made.options = replace(made.options, **MORE)  # type: ignore[arg-type]
    forest = Forest(made, phase(*LONE[name], sync="async", server="c"), world(**KNOWN), tmp_path)
    expected = Sgd(forest).steps(11)
    _, found = forest.trained(iterations=11)
    assert off(found, expected) <= 1e-10


@pytest.mark.parametrize("at", ["a", "c"])
def test_what_batch_norm_keeps_travels_with_the_gradients(at: str, tmp_path: Path) -> None:
    lone = phase(source("a", 6, "A"), instance("A", 1, 4, at), sync="async", server="c")
    forest = Forest(rig(norm=True), lone, world(**KNOWN), tmp_path)
    expected = Sgd(forest).steps(15)
    _, found = forest.trained(iterations=15)
    assert off(found, expected) <= 1e-10
    assert int(found["l2.1.num_batches_tracked"]) == 15


def two_workers(*, server: str = "c") -> Phase:
    return phase(
        source("a", 6, "A"),
        source("b", 6, "B"),
        instance("A", 1, 4, "a"),
        instance("B", 1, 2, "b", "B2"),
        instance("B2", 3, 4, "c"),
        sync="async",
        server=server,
    )


@pytest.mark.timing
@pytest.mark.parametrize("server", ["a", "c"])
def test_the_next_step_goes_to_who_is_free(server: str, tmp_path: Path) -> None:
    testbed = MemoryGround({"b": 0.1})
    forest = Forest(rig(), two_workers(server=server), world(**KNOWN), tmp_path, testbed)
    outcome, _ = forest.trained(iterations=90)
    found = noted(tmp_path)
    assert [line["iteration"] for line in found] == list(range(90))
    many = Counter(line["tree"] for line in found)
    assert many["A"] > 3 * many["B2"] > 0
    assert sum(line["loss"] for line in found[-20:]) < sum(line["loss"] for line in found[:20])
    assert outcome.iterations == 90
    assert outcome.iteration_s is not None
    assert outcome.iteration_s < 0.1


def test_many_workers_on_few_nodes_do_not_block_each_other(tmp_path: Path) -> None:
    parts = []
    for k in range(5):
        parts += [source("ab"[k % 2], 2 + k, f"A{k}"), instance(f"A{k}", 1, 2, "abc"[k % 3], f"B{k}")]
        parts += [instance(f"B{k}", 3, 4, "cab"[k % 3], cpu_share=0.5)]
    forest = Forest(rig(), phase(*parts, sync="async", server="b"), world(**KNOWN), tmp_path)
    outcome, _ = forest.trained(iterations=200)
    assert outcome.iterations == 200
    assert Counter(line["tree"] for line in noted(tmp_path)).keys() == {f"B{k}" for k in range(5)}


def test_one_worker_goes_on_from_a_checkpoint_to_the_same_weights(tmp_path: Path) -> None:
    lone = phase(*LONE["a chain that passes the server"], sync="async", server="c")
    made = [Forest(rig(optimizer="adam"), lone, world(**KNOWN), tmp_path / name) for name in "xy"]
    for each in made:
        each.folder.mkdir()
    _, expected = made[0].trained(iterations=25)

    def stop(training: Any, update: Any) -> None:
        if update.iteration == 12:
            training.stop()

    made[1].watch = stop
    outcome, _ = made[1].trained(iterations=25)
    assert (outcome.ended, outcome.iterations) == ("stopped", 13)
    made[1].watch = lambda *_: None
    _, found = made[1].trained(resume=True, iterations=25)
    assert off(found, expected) <= 1e-10
    assert [line["loss"] for line in noted(made[1].folder)] == [line["loss"] for line in noted(made[0].folder)]


def test_several_workers_go_on_with_the_steps_that_are_left(tmp_path: Path) -> None:
    forest = Forest(rig(), two_workers(), world(**KNOWN), tmp_path)
    forest.watch = lambda training, update: training.stop() if update.iteration == 11 else None
    outcome, _ = forest.trained(iterations=40)
    assert outcome.ended == "stopped"
    forest.watch = lambda *_: None
    outcome, _ = forest.trained(resume=True, iterations=40)
    assert (outcome.ended, outcome.iterations) == ("done", 40)
    assert [line["iteration"] for line in noted(tmp_path)] == list(range(40))


def test_an_epoch_is_as_many_steps_as_all_shards_need(tmp_path: Path) -> None:
    forest = Forest(rig(), two_workers(), world(**KNOWN), tmp_path)
    outcome, _ = forest.trained(epochs=2)
    assert outcome.iterations == 18  # 54 samples in sixes
    assert sum("accuracy" in line for line in lines(tmp_path / "metrics.jsonl")) == 2
