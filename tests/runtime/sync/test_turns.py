"""Parts of the network that are exchanged in turns: the same weights as one process that does so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palmette.cost.sync.turns import Turn, turns_of
from palmette.errors import InputError
from palmette.runtime.data.epoch_length import common_steps
from palmette.runtime.sync.turns import barriers
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from tests.cost.small import instance, phase, source
from tests.runtime.rig import off
from tests.runtime.sync.test_epoch import epoch_inputs, rig, world
from tests.runtime.sync.test_every import DILOCO, assert_equal, every, random_forest
from tests.runtime.trees import Forest
from tests.runtime.world import lines


def turns(fragments: int, delay: int = 0, many: int = 6, **more: Any) -> dict[str, Any]:
    return every(many, turns={"fragments": fragments, "delay": delay}, **more)


def small_batches(**more: Any) -> Phase:
    """Eleven iterations in an epoch."""
    return phase(source("a", 3, "A"), source("b", 2, "B"), instance("A", 1, 4, "a"), instance("B", 1, 4, "b"), **more)


@pytest.mark.parametrize("server", ["a", "c"])
@pytest.mark.parametrize(("fragments", "delay"), [(2, 0), (2, 1), (2, 2), (3, 1), (4, 0)])
def test_it_equals_one_process_that_exchanges_parts_in_turns(
    fragments: int, delay: int, server: str, tmp_path: Path
) -> None:
    made = small_batches(**turns(fragments, delay, outer=DILOCO, server=server))
    forest = Forest(rig(norm=True, optimizer="momentum"), made, world(a=36, b=18, c=None), tmp_path)
    assert common_steps(forest.phase, *epoch_inputs(forest)) == 11
    assert_equal(forest, iterations=26)  # two epochs, and a run that ends within the third


def test_trees_that_are_cut_have_their_turns_too(tmp_path: Path) -> None:
    """One fragment ends within an instance, and another has layers of two."""
    cut = phase(
        source("a", 3, "A"),
        source("b", 2, "B"),
        instance("A", 1, 3, "a", "A2"),
        instance("A2", 4, 4, "c"),
        instance("B", 1, 1, "b", "B2"),
        instance("B2", 2, 4, "a"),
        **turns(3, 1, server="c"),
    )
    assert_equal(Forest(rig(optimizer="adam"), cut, world(a=36, b=18, c=None), tmp_path), iterations=25)


@pytest.mark.parametrize("seed", range(4))
def test_any_forest_equals_one_process_with_the_same_turns(seed: int, tmp_path: Path) -> None:
    made = random_forest(seed, tmp_path)
    many, delay = (2 + seed % 2, seed % 2)
    changed = made.phase.model_dump() | turns(
        many, delay, many=3 * many, outer=made.phase.outer, server=made.phase.server
    )
    made.phase = validated(Phase, changed)
    assert_equal(made, iterations=25)


def test_the_link_is_used_while_steps_go_on(tmp_path: Path) -> None:
    """Between a send of a fragment and its average, devices take the steps of the delay."""
    forest = Forest(rig(), small_batches(**turns(2, 2, server="c")), world(a=36, b=18, c=None), tmp_path)
    forest.trained(iterations=11)
    trace = lines(tmp_path / "trace.jsonl")
    averages = [line["iteration"] for line in trace if line["op"] == "average" and line["node"] == "c"]
    assert averages == [2, 5, 8, 10]  # after steps 3 and 6 of windows of six; the last is of all layers
    sizes = [line["bytes"] for line in trace if line["op"] == "send" and line["node"] == "a"]
    assert sum(sizes[0:2]) == sizes[-1] + 8  # two fragments are the network, each with the count of samples


def test_a_run_is_stopped_after_its_epoch_and_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    made = [
        Forest(
            rig(optimizer="momentum"), small_batches(**turns(2, 1, outer=DILOCO)), world(a=36, b=18), tmp_path / name
        )
        for name in "xy"
    ]
    for each in made:
        each.folder.mkdir()
    _, expected = made[0].trained(iterations=33)

    def stop(training: Any, update: Any) -> None:
        if update.iteration == 5 and update.evaluation is None:
            training.stop()

    made[1].watch = stop
    outcome, halfway = made[1].trained(iterations=33)
    assert (outcome.ended, outcome.iterations) == ("stopped", 11)
    assert off(halfway, expected) > 0
    made[1].watch = lambda *_: None
    outcome, found = made[1].trained(resume=True, iterations=33)
    assert outcome.ended == "done"
    assert off(found, expected) == 0


def test_turns_are_evenly_spaced_and_end_with_the_epoch() -> None:
    made = small_batches(**turns(3, 1, many=7))
    assert turns_of(made, 12) == [
        Turn(0, 3, 4), Turn(1, 5, 6), Turn(2, 7, 8), Turn(0, 10, 11)
    ]  # fmt: skip
    assert [each.at for each in barriers(turns_of(made, 12), 0, 12)] == [3, 4, 5, 6, 7, 8, 10, 11, 12]
    assert [each.at for each in barriers(turns_of(made, 12), 0, 7)] == [3, 4, 5, 6, 7], "a run that ends within"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"turns": {"fragments": 5}}, "fragments: 5: expected at most 4"),
        ({"turns": {"fragments": 2, "delay": 3}}, "delay: 3: expected less than 3"),
        ({"sync": "epoch", "every": None}, "turns: given: expected none under epoch"),
        ({"exchange": {"codec": "int8"}}, "int8: expected none with turns"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        validated(Phase, small_batches(**turns(2)).model_dump() | changes)
