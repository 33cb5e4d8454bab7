"""``plan`` and ``compare`` take a recipe in the place of a profile."""

from __future__ import annotations

import json
from typing import Any

import pytest

import palmette as pt
from tests.cli.world import LEARNING, World

PREDICTED = """\
nodes:
  phone: {tier: device, memory: 1 GiB, hardware: raspberry-pi-3, source: {samples: 60}}
  server: {tier: edge, hardware: nuc-i3-7100u-4}
links: [{between: [phone, server], bandwidth: 20 Mbit/s}]
"""
RECIPE = "tests.runtime.recipes:decayed"


def test_a_plan_of_a_recipe_is_that_of_its_profile(world: World) -> None:
    cluster = world.write("predicted.yaml", PREDICTED)
    made = world.json("plan", "all-edge", "--recipe", RECIPE, "--cluster", cluster)
    written = world.write("p.json", pt.profile(RECIPE, cluster=pt.load_cluster(cluster)).to_json())
    same = world.json("plan", "all-edge", "--profile", written, "--cluster", cluster, "--optimizer", "adamw")
    assert made["model"] == RECIPE
    assert made["phases"] == same["phases"]
    peaks = [plan["estimate"]["nodes"]["server"]["peak_memory_bytes"] for plan in (made, same)]
    weights = sum(layer["parameter_bytes"] for layer in made["inputs"]["profile"]["layers"])
    assert peaks[0] - peaks[1] == weights  # the recipe accumulates gradients beside AdamW's two states
    assert made["asked"]["optimizer"] == same["asked"]["optimizer"] == "adamw"


@pytest.mark.slow
def test_strategies_are_compared_for_a_recipe(world: World) -> None:
    cluster = world.write("predicted.yaml", PREDICTED)
    rows = world.json("compare", "--recipe", RECIPE, "--cluster", cluster, "--lossy")["strategies"]
    assert "estimate" in rows[0]


def test_a_plan_says_which_optimizer_it_was_asked_for(world: World) -> None:
    cluster = world.write("predicted.yaml", PREDICTED)
    made = world.json("plan", "all-edge", "--recipe", RECIPE, "--cluster", cluster, "--optimizer", "momentum")
    assert made["asked"]["optimizer"] == "momentum"


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        (None, None),
        ({"name": "cosine", "warmup": 2}, None),
        ({"name": "constant"}, "learning rate constant, and the recipe says cosine with a warm-up of 2 iterations"),
    ],
)
def test_a_curve_of_another_schedule_than_the_recipes_is_told(
    schedule: dict[str, Any] | None, told: str | None, world: World
) -> None:
    cluster = world.write("predicted.yaml", PREDICTED)
    learning = world.write("l.json", json.dumps(json.loads(LEARNING) | {"schedule": schedule}))
    files = ("--recipe", RECIPE, "--cluster", cluster, "--learning", learning)
    done = world.palmette("plan", "righttrain", *files, "--loss", "0.9", "--batch", "6", "--alone", "--quiet")
    assert done.code == 0
    assert ("note: the runs of the learning curve" in done.out) is (told is not None)
    assert told is None or told in done.out


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], "--profile: missing: expected one, or a recipe to profile"),
        (["--recipe", RECIPE, "--profile", "p.json"], f"--recipe: {RECIPE}: expected either a profile or a recipe"),
        (["--recipe", "tests.runtime.recipes:decaye"], "--recipe: tests.runtime.recipes:decaye: no such recipe"),
        (["--recipe", "nowhere:recipe"], "--recipe: nowhere:recipe: "),
    ],
)
def test_one_of_both_is_expected(world: World, given: list[str], expected: str) -> None:
    for command in (["plan", "all-edge"], ["compare"]):
        (line,) = world.refused(*command, *given, "--cluster", world.cluster)
        assert line.startswith(expected)


def test_a_node_without_times_is_named_with_the_file(world: World) -> None:
    lines = world.refused("plan", "all-edge", "--recipe", RECIPE, "--cluster", world.cluster)
    assert lines[0].startswith(f"{world.cluster}: nodes.phone: no times: give it hardware: … or host: local")


def test_a_plan_of_a_users_own_optimizer_can_be_made_again() -> None:
    from palmette.cost.optimizer import OptimizerCost, known_optimizer, recorded_name

    for copies in range(4):
        found = known_optimizer(recorded_name(OptimizerCost("Mine", copies)))
        assert found.state_copies == min(copies, 2)
    assert recorded_name(OptimizerCost("AdamW", 2)) == "adamw"
