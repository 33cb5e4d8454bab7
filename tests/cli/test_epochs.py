"""``--epochs`` and ``--input-as`` of plan, compare and estimate: what they change, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.world import World


def upload(world: World, *options: Any) -> dict[str, Any]:
    return world.json("plan", "upload", *world.inputs, "--batch", 10, *options)


def written(world: World, *options: Any) -> str:
    return str(world.write("upload.json", json.dumps(upload(world, *options))))


class TestEpochs:
    def test_a_plan_has_the_whole_of_them(self, world: World) -> None:
        estimate = upload(world, "--epochs", 50)["estimate"]
        assert estimate["epochs"] == 50
        assert estimate["total_s"] == pytest.approx(estimate["first_epoch_s"] + 49 * estimate["epoch_s"])
        assert upload(world)["estimate"]["total_s"] is None

    def test_a_plan_remembers_them(self, world: World) -> None:
        assert upload(world, "--epochs", 50)["asked"]["epochs"] == 50

    def test_an_estimate_takes_them(self, world: World) -> None:
        file = written(world)
        assert world.json("estimate", file)["total_s"] is None
        assert (
            world.json("estimate", file, "--epochs", 7)["total_s"]
            == upload(world, "--epochs", 7)["estimate"]["total_s"]
        )

    @pytest.mark.slow
    def test_a_comparison_ranks_by_them_and_shows_the_first(self, world: World) -> None:
        options = (*world.inputs, "--batch", 10, "--epochs", 1000)
        rows = world.json("compare", *options)["strategies"]
        totals = [row["estimate"]["total_s"] for row in rows if "estimate" in row]
        assert totals == sorted(totals)
        assert "upload" in [row["strategy"] for row in rows if "estimate" in row]
        assert "first epoch" in world.palmette("compare", *options).out

    def test_for_people_the_first_epoch_stands_apart(self, world: World) -> None:
        shown = world.palmette("plan", "upload", *world.inputs, "--epochs", 1000).out
        assert "sent once" in shown
        assert "; the first epoch: " in shown
        assert "; 1000 epochs: " in shown

    def test_a_deadline_of_the_whole_is_possible_with_them(self, world: World) -> None:
        (line,) = world.refused("plan", "upload", *world.inputs, "--epochs", 5, "--deadline", "1 ms", code=3)
        assert line.startswith("--deadline: 0.001 s: cannot be met")


class TestInputAs:
    def test_as_a_tensor_what_is_stored_does_not_count(self, world: World) -> None:
        text = world.cluster.read_text()
        world.cluster.write_text(text.replace("samples: 1000", "samples: 1000, sample: 100 B"))
        stored, tensor = upload(world, "--epochs", 50), upload(world, "--epochs", 50, "--input-as", "tensor")
        assert tensor["phases"][0]["input_as"] == "tensor"
        assert tensor["asked"]["input_as"] == "tensor"
        assert tensor["estimate"]["total_bytes"] == pytest.approx(100 * stored["estimate"]["total_bytes"])
        file = written(world, "--epochs", 50)
        again = world.json("estimate", file, "--epochs", 50, "--input-as", "tensor")
        assert again["total_s"] == tensor["estimate"]["total_s"]


WRONG = [
    (("--epochs", "0"), "--epochs: 0: expected at least 1"),
    (("--epochs", "-3"), "--epochs: -3: expected at least 1"),
    (("--epochs", "many"), "--epochs: many: expected an integer"),
    (("--epochs", "1.5"), "--epochs: 1.5: expected an integer"),
    (("--epochs", "10000000000"), "--epochs: 10000000000: expected at least 1 and at most 1000000000"),
    (("--input-as", "tesnor"), "--input-as: tesnor: no such form of samples; did you mean tensor?"),
]


@pytest.mark.parametrize(("options", "expected"), WRONG)
@pytest.mark.parametrize("command", ["plan", "compare", "estimate"])
def test_a_wrong_value_is_one_line(world: World, command: str, options: tuple[str, ...], expected: str) -> None:
    arguments = {
        "plan": ("plan", "upload", *world.inputs),
        "compare": ("compare", *world.inputs),
        "estimate": ("estimate", written(world)),
    }[command]
    (line,) = world.refused(*arguments, *options)
    assert line.startswith(expected)


def test_who_decides_how_long_to_train_takes_none(world: World) -> None:
    lines = world.refused("plan", "pact", *world.inputs, "--epochs", 5)
    assert lines == ["--epochs: 5: pact decides itself how long to train; expected none"]


def test_a_loss_and_epochs_are_too_much(world: World) -> None:
    lines = world.refused("plan", "auto", *world.inputs, "--epochs", 5, "--loss", 0.3)
    assert lines == ["--epochs: 5: the loss decides how long to train; expected one of both"]


def test_a_plan_that_says_how_long_it_trains_is_not_asked_for_another_time(world: World) -> None:
    plan = upload(world)
    plan["phases"][0]["epochs"] = 3
    file = world.write("long.json", json.dumps(plan))
    lines = world.refused("estimate", file, "--epochs", 5)
    assert lines == ["--epochs: 5: the plan says how long it trains; expected none"]
