"""A part of the clients in each round: the same weights as one process that draws the same ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from palmette.cost.sync.clients import drawn_trees
from palmette.errors import InputError
from palmette.runtime.data.epoch_length import tree_steps
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from tests.cost.small import instance, phase, source
from tests.runtime.rig import off
from tests.runtime.sync.test_epoch import ELEMENTWISE, MORE, assert_equal, epoch_inputs, rig, world
from tests.runtime.trees import FedAvg, Forest
from tests.runtime.world import lines


def four(many: int = 2, **more: Any) -> Phase:
    """Four trees, one of them cut in two, and a server apart."""
    return phase(
        source("a", 3, "A"),
        source("b", 4, "B"),
        source("c", 5, "C"),
        source("d", 2, "D"),
        instance("A", 1, 4, "a"),
        instance("B", 1, 2, "b", "B2"),
        instance("B2", 3, 4, "c"),
        instance("C", 1, 4, "c"),
        instance("D", 1, 4, "d"),
        **{"sync": "epoch", "server": "s", "clients": many, **more},
    )


NODES: dict[str, Any] = {"a": 12, "b": 14, "c": 20, "d": 8, "s": None}


@pytest.mark.parametrize("server", ["s", "a"])
@pytest.mark.parametrize("many", [1, 3, 4])
def test_it_equals_one_process_that_draws_the_same_clients(many: int, server: str, tmp_path: Path) -> None:
    forest = Forest(rig(norm=True, optimizer="momentum"), four(many, server=server), world(**NODES), tmp_path)
    assert_equal(forest, epochs=5)


def test_optimizers_begin_anew_where_the_schedule_of_the_round_is(tmp_path: Path) -> None:
    """Clients that sat out have the learning rate of their round, and not that of the rounds that they took part in."""
    made = rig(optimizer="adam")
    made.options = replace(made.options, **MORE)  # type: ignore[arg-type]
    nodes = {"a": 20, "b": 14, "c": 14, "d": 6, "s": None}
    forest = Forest(made, four(2), world(**nodes), tmp_path)
    steps = tree_steps(forest.phase, *epoch_inputs(forest))
    twin = FedAvg(forest, steps)
    expected = twin.epochs(6)
    outcome, found = forest.trained(epochs=6)
    assert (outcome.ended, outcome.iterations) == ("done", 6 * max(steps))
    assert off(found, expected) <= ELEMENTWISE
    noted = [line for line in lines(tmp_path / "metrics.jsonl") if "accuracy" not in line]
    assert [line["loss"] for line in noted] == pytest.approx(twin.losses, rel=1e-9)
    lengths = [max(steps[k] for k in twin.drawn(number)) for number in range(6)]
    assert min(lengths) < max(lengths), "some rounds are without the longest tree"
    assert [line["iteration"] for line in noted] == [
        number * max(steps) + place for number, many in enumerate(lengths) for place in range(many)
    ]


def test_only_those_who_take_part_send_and_only_those_who_will_receive(tmp_path: Path) -> None:
    forest = Forest(rig(), four(1), world(**NODES), tmp_path)
    forest.trained(epochs=3)
    exchanged = [line for line in lines(tmp_path / "trace.jsonl") if line["op"] in ("send", "receive", "average")]
    drawn = [drawn_trees(4, 1, 2, number)[0] for number in range(4)]
    roots = ["A", "B", "C", "D"]
    for number in range(3):
        last = max(tree_steps(forest.phase, *epoch_inputs(forest))) * (number + 1) - 1
        own = [line for line in exchanged if line["iteration"] == last]
        pushed = {line["instance"] for line in own if line["op"] == "receive" and line["node"] == "s"}
        pulled = {line["instance"] for line in own if line["op"] == "send" and line["node"] == "s"}
        assert {name[0] for name in pushed} == {roots[drawn[number]]}
        assert {name[0] for name in pulled} == {roots[drawn[number + 1]]}


def test_a_stopped_run_goes_on_with_the_clients_of_the_next_round(tmp_path: Path) -> None:
    outer = {"lr": 0.7, "momentum": 0.5}
    made = [Forest(rig(optimizer="momentum"), four(2, outer=outer), world(**NODES), tmp_path / name) for name in "xy"]
    for each in made:
        each.folder.mkdir()
    _, expected = made[0].trained(epochs=5)

    def stop(training: Any, update: Any) -> None:
        if update.iteration == 10 and update.evaluation is None:
            training.stop()

    made[1].watch = stop
    outcome, _ = made[1].trained(epochs=5)
    assert outcome.ended == "stopped"
    assert 0 < outcome.iterations < 5 * 4
    made[1].watch = lambda *_: None
    outcome, found = made[1].trained(resume=True, epochs=5)
    assert outcome.ended == "done"
    assert off(found, expected) == 0


def test_draws_are_uniform_and_known_without_the_rounds_before() -> None:
    drawn = [tuple(drawn_trees(5, 2, 7, number)) for number in range(2000)]
    counts = [sum(k in each for each in drawn) for k in range(5)]
    assert all(abs(many - 800) < 100 for many in counts)
    assert len(set(drawn)) == 10
    assert drawn_trees(5, 2, 7, 1234) == list(drawn[1234])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"clients": 5}, "clients: 5: expected at most 4"),
        ({"sync": "every", "every": 3}, "clients: 2: expected none under every"),
        ({"exchange": {"codec": "int8"}}, "int8: expected none with clients"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], named: str) -> None:
    fields = four(2).model_dump() | changes
    with pytest.raises(InputError, match=named):
        validated(Phase, fields)


def test_a_file_names_clients_only_where_they_are_a_part() -> None:
    assert four(3).model_dump()["clients"] == 3
    assert "clients" not in four().model_copy(update={"clients": None}).model_dump()
