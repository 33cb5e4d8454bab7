"""A plan is phases of instance trees that join, and says where they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palmette.spec.files import load, validated
from palmette.spec.plan import Inputs, Phase, Plan
from tests.spec.faulty import DATA, lines, plain, told


def test_the_example_reads() -> None:
    plan = load(Plan, DATA / "plan.json")
    first, second = plan.phases
    assert (first.batch, first.depth, first.meeting_node) == (64, 3, "cloud")
    assert first.nodes() == ["phone", "server", "cloud"]
    assert (second.sync, second.meeting_node, second.local_epochs) == ("epoch", "cloud", 2)
    assert second.nodes() == ["phone", "cloud"]
    assert plan.inputs == Inputs(cluster=None, profile=None)
    assert first.instances[2].cpu_share == 1.0
    assert first.instances[2].codec == "none"


def changed(*path: Any, to: Any) -> Any:
    content = at = plain("plan.json")
    for step in ("phases", 0, *path)[:-1]:
        at = at[step]
    at[path[-1]] = to
    return content


AT = "phases[0]."


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (
            changed("instances", 3, "into", to="O2"),
            AT + "instances[0].into: O2 → O3 → O2: expected a tree, this is a cycle",
        ),
        (changed("instances", 3, "into", to="O3"), AT + "instances[0].into: O3 → O3: expected a tree, this is a cycle"),
        (
            changed("instances", 2, "layers", to=[3, 3]),
            AT + "instances[0].into: O2: O2 starts at layer 3; expected 2, the next after S",
        ),
        (
            changed("instances", 0, "into", to="O4"),
            AT + "instances[0].into: O4: no such instance; expected one of S, O1, O2, O3",
        ),
        (
            changed("sources", 0, "into", to="xyz"),
            AT + "sources[0].into: xyz: no such instance; expected one of S, O1, O2, O3",
        ),
        (
            changed("instances", 2, "layers", to=[2, 1]),
            AT + "instances[2].layers: [2, 1]: expected the first layer before the last",
        ),
        (
            changed("instances", 0, "layers", to=[0, 1]),
            AT + "instances[0].layers[0]: 0: expected a number greater than or equal to 1",
        ),
        (changed("instances", 0, "layers", to=[1]), AT + "instances[0].layers[1]: missing: this field is required"),
        (
            changed("instances", 0, "cpu_share", to=0),
            AT + "instances[0].cpu_share: 0: expected a number greater than or equal to 0.000001",
        ),
        (
            changed("instances", 0, "cpu_share", to=1.5),
            AT + "instances[0].cpu_share: 1.5: expected a number less than or equal to 1",
        ),
        (
            changed("instances", 0, "codec", to="zip"),
            AT + "instances[0].codec: zip: expected 'none', 'int8', 'int4' or 'int4-delta'",
        ),
        (changed("instances", 0, "coded", to=1), AT + "instances[0].coded: 1: unknown field; did you mean codec?"),
        (
            changed("sources", 0, "samples", to=0),
            AT + "sources[0].samples: 0: expected a number greater than or equal to 1",
        ),
        (changed("sources", 0, "samples", to=2.0), AT + "sources[0].samples: 2.0: expected an integer"),
        (changed("sources", 0, "samples", to=41), "batch: 64: the sources of phases[0] take 65 samples per iteration"),
        (changed("sources", to=[]), AT + "sources: []: expected at least 1"),
        (changed("sync", to="sometimes"), AT + "sync: sometimes: expected 'step', 'epoch', 'every' or 'async'"),
        (
            changed("sync", to="every"),
            AT + "every: missing: expected the number of steps between two averages",
        ),
        (changed("every", to=3), AT + "every: 3: expected none under step"),
        (changed("every", to=0), AT + "every: 0: expected a number greater than or equal to 1"),
        (changed("outer", to={}), AT + "outer: given: expected none under step"),
        (changed("outer", to={"lr": 0}), AT + "outer.lr: 0: expected a number greater than 0"),
        (changed("outer", to={"momentum": 1}), AT + "outer.momentum: 1: expected a number less than 1"),
        (changed("outer", to={"momentun": 1}), AT + "outer.momentun: 1: unknown field; did you mean momentum?"),
        (changed("pruning", to=1), AT + "pruning: 1: expected a number less than 1"),
        (changed("epochs", to=0), AT + "epochs: 0: expected a number greater than or equal to 1"),
    ],
)
def test_a_fault_is_told_with_field_value_and_what_was_expected(tmp_path: Path, content: Any, line: str) -> None:
    assert line in lines(Plan, content, tmp_path, ".json")


def part(name: str, first: int, last: int, into: str | None = None) -> dict[str, Any]:
    return {"id": name, "layers": [first, last], "node": "a", "into": into}


@pytest.mark.parametrize(
    ("instances", "into", "expected"),
    [
        ([part("I", 1, 2), part("J", 1, 2)], "I", "instances[1]: J: nothing feeds it"),
        ([part("I", 2, 3)], "I", "sources[0].into: I: starts at layer 2; expected an instance that starts at 1"),
        (
            [part("I", 1, 1, "K"), part("J", 1, 1), part("K", 2, 2)],
            "I",
            "instances[1].layers: [1, 1]: a root ends with the last",
        ),
        ([part("I", 1, 2), part("I", 1, 2)], "I", "instances[0].id: I: stands there twice"),
    ],
)
def test_trees_that_do_not_join_are_told(tmp_path: Path, instances: list[Any], into: str, expected: str) -> None:
    phase = {"sources": [{"node": "a", "samples": 1, "into": into}], "instances": instances}
    content = {"format": "palmette.plan/1", "model": "m", "batch": 1, "phases": [phase]}
    assert any(line.startswith(f"phases[0].{expected}") for line in lines(Plan, content, tmp_path, ".json"))


def test_an_id_that_stands_there_twice_is_told_beside_the_one_that_is_missing(tmp_path: Path) -> None:
    phase = {
        "sources": [{"node": "a", "samples": 1, "into": "I"}],
        "instances": [part("I", 1, 1, "J"), part("I", 2, 2), part("K", 2, 1)],
    }
    content = {"format": "palmette.plan/1", "model": "m", "batch": 1, "phases": [phase]}
    assert lines(Plan, content, tmp_path, ".json") == [
        "phases[0].instances[0].into: J: no such instance; expected one of I, K",
        "phases[0].instances[0].id: I: stands there twice; expected an id of its own",
        "phases[0].instances[2].layers: [2, 1]: expected the first layer before the last",
    ]


def test_several_faults_are_told_at_once(tmp_path: Path) -> None:
    content = changed("instances", 0, "into", to="O9")
    content["phases"][0]["sources"][1]["samples"] = -1
    content["phases"][1]["instances"][0]["node"] = 5
    content["batch"] = 1.5
    assert {fault.field for fault in told(Plan, content, tmp_path, ".json")} == {
        "phases[0].instances[0].into",
        "phases[0].sources[1].samples",
        "phases[1].instances[0].node",
        "batch",
    }


def test_a_plan_carries_what_it_was_made_for() -> None:
    inputs = {"cluster": plain("cluster.yaml"), "profile": plain("profile.json")}
    plan = validated(Plan, plain("plan.json") | {"inputs": inputs})
    assert plan.inputs is not None
    assert plan.inputs.cluster is not None
    assert plan.inputs.profile is not None
    assert plan.inputs.cluster.nodes["phone"].memory_bytes == 2**30
    assert validated(Plan, json.loads(plan.to_json())) == plan


def test_faults_inside_the_inputs_name_their_place(tmp_path: Path) -> None:
    inputs = {"cluster": {"nodes": {"a": {"tier": "fog"}}}, "profile": {}}
    (line,) = lines(Plan, plain("plan.json") | {"inputs": inputs}, tmp_path, ".json")
    assert line == "inputs.cluster.nodes.a.tier: fog: expected 'device', 'edge' or 'cloud'"


def test_only_step_asks_that_the_samples_make_the_batch() -> None:
    content = plain("plan.json")
    content["phases"][1]["sources"][0]["samples"] = 5
    assert validated(Plan, content).phases[1].batch == 5


def test_a_long_chain_is_checked_in_time() -> None:
    many = 20_000
    chain = [part(f"i{k}", k, k, f"i{k + 1}" if k < many else None) for k in range(1, many + 1)]
    phase = validated(Phase, {"sources": [{"node": "a", "samples": 1, "into": "i1"}], "instances": chain})
    assert phase.depth == many
    chain[-1]["into"] = "i1"
    with pytest.raises(ValueError, match="cycle"):
        validated(Phase, {"sources": [{"node": "a", "samples": 1, "into": "i1"}], "instances": chain})


def test_a_window_of_one_step_is_executed_as_step_unless_an_outer_optimizer_follows() -> None:
    def made(**more: Any) -> Phase:
        sources = [{"node": "a", "samples": 1, "into": "I"}]
        return Phase.model_validate({"sources": sources, "instances": [part("I", 1, 2)], "sync": "every", **more})

    assert made(every=1).executed_sync == made(every=1, outer={"lr": 1.0, "momentum": 0.0}).executed_sync == "step"
    assert made(every=1, outer={}).executed_sync == made(every=2).executed_sync == "every"
    assert "every" not in made(every=2).model_copy(update={"sync": "step", "every": None}).model_dump()
    assert made(every=5, outer={}).model_dump()["outer"] == {"lr": 0.7, "momentum": 0.9, "nesterov": True}
