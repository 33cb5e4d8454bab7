"""What scripts rely on: the fields of every ``--json`` and of every file that is written."""

from __future__ import annotations

import json

import pytest

from tests.cli.world import World

WHOLE = ("all-device", "all-edge", "all-cloud")
ESTIMATE = {"iteration_s", "iteration_j", "epochs", "total_s", "total_j"}
NODE = {"busy_s", "energy_j", "sent_bytes", "received_bytes", "peak_memory_bytes"}


@pytest.mark.parametrize("strategy", WHOLE)
def test_a_plan_has_the_fields_of_the_format(world: World, strategy: str) -> None:
    plan = world.json("plan", strategy, *world.inputs, "--batch", 16)

    assert plan["format"] == "palmette.plan/1"
    assert (plan["strategy"], plan["model"], plan["batch"]) == (strategy, "tiny", 16)
    assert plan["plan_s"] >= 0
    assert plan["estimate"].keys() >= ESTIMATE
    assert {"iteration_s", "nodes"} <= plan["decision"].keys()
    assert set(plan["inputs"]) == {"cluster", "profile"}
    (phase,) = plan["phases"]
    assert (phase["pruning"], phase["compress"], phase["epochs"], phase["sync"]) == (0.0, "prune", None, "step")
    feed = {"node": "phone", "samples": 16, "epoch_samples": None, "into": "all"}
    assert phase["sources"] == [feed]
    (instance,) = phase["instances"]
    assert set(instance) == {"id", "layers", "node", "cpu_share", "into", "codec"}


def test_what_is_printed_is_what_is_written(world: World) -> None:
    file = world.folder / "plan.json"
    printed = world.json("plan", "all-edge", *world.inputs, "-o", file)
    assert json.loads(file.read_text()) == printed


def test_a_plan_file_stands_alone(world: World) -> None:
    file = world.folder / "plan.json"
    plan = world.json("plan", "all-cloud", *world.inputs, "-o", file)
    world.cluster.unlink()
    world.profile.unlink()

    assert world.json("estimate", file).items() <= plan["estimate"].items()
    assert world.palmette("check", file).code == 0


def test_files_on_the_command_line_override_those_in_the_plan(world: World) -> None:
    file = world.folder / "plan.json"
    world.json("plan", "all-edge", *world.inputs, "-o", file)
    faster = world.write("faster.yaml", world.cluster.read_text().replace("5 Mbit/s", "10 Mbit/s"))

    before, after = world.json("estimate", file), world.json("estimate", file, "--cluster", faster)
    assert after["iteration_s"] < before["iteration_s"]


def test_an_estimate_has_the_fields_of_the_format(world: World) -> None:
    priced = world.json("estimate", world.tree, *world.inputs)
    assert priced.keys() >= ESTIMATE
    assert set(priced["nodes"]) == {"phone", "server", "cloud"}
    assert all(node.keys() >= NODE for node in priced["nodes"].values())
    assert "timeline" not in priced
    assert priced["energy_source"].startswith("modelled")


def test_the_timeline_has_the_shape_of_a_trace(world: World) -> None:
    priced = world.json("estimate", world.tree, *world.inputs, "--timeline")
    assert priced["timeline"]
    for operation in priced["timeline"]:
        assert {"iteration", "node", "instance", "op", "start_s", "end_s", "bytes"} <= operation.keys()
        assert operation["op"] in {"receive", "forward", "send", "backward", "average", "update"}
        assert 0 <= operation["start_s"] <= operation["end_s"] <= priced["iteration_s"]
    assert max(operation["end_s"] for operation in priced["timeline"]) == priced["iteration_s"]


def test_a_hand_written_plan_and_the_strategy_that_means_the_same_cost_the_same(world: World) -> None:
    plan = world.json("plan", "all-edge", *world.inputs)
    by_hand = {key: plan[key] for key in ("format", "model", "batch", "phases")}
    file = world.write("by_hand.json", json.dumps(by_hand))
    assert world.json("estimate", file, *world.inputs).items() <= plan["estimate"].items()


def test_compare_lists_the_best_first_and_says_why_one_is_left_out(world: World) -> None:
    world.write("cluster.yaml", world.cluster.read_text().replace("memory: 8 GiB", "memory: 8 kB"))
    rows = world.json("compare", *world.inputs)["strategies"]

    applied = [row for row in rows if "skipped" not in row]
    assert {row["strategy"] for row in rows} >= set(WHOLE)
    assert all({"strategy", "estimate", "decision", "plan_s"} <= row.keys() for row in applied)
    seconds = [row["estimate"]["iteration_s"] for row in applied]
    assert seconds == sorted(seconds)
    (skipped,) = [row for row in rows if row["strategy"] == "all-edge"]
    assert "does not fit the memory of server" in skipped["skipped"]


def test_compare_obeys_its_goal(world: World) -> None:
    rows = world.json("compare", *world.inputs, "--goal", "energy")["strategies"]
    joules = [row["estimate"]["iteration_j"] for row in rows if "skipped" not in row]
    assert len(joules) >= 3
    assert joules == sorted(joules)


def test_the_same_seed_gives_the_same_plan(world: World) -> None:
    first, second = (world.json("plan", "all-cloud", *world.inputs, "--seed", 3) for _ in range(2))
    assert first | {"plan_s": 0} == second | {"plan_s": 0}


def test_strategies_are_listed_with_a_line_each(world: World) -> None:
    listed = world.json("strategies")["strategies"]
    assert {row["name"] for row in listed} >= set(WHOLE)
    assert len(world.palmette("strategies").out.splitlines()) == len(listed)


def test_check_says_what_each_file_is(world: World) -> None:
    plan = world.folder / "plan.json"
    world.palmette("plan", "all-edge", *world.inputs, "-o", plan)
    done = world.palmette("check", world.cluster, world.profile, world.tree, plan)

    assert (done.code, done.err) == (0, "")
    assert [line.split(": ", 1)[1] for line in done.out.splitlines()] == [
        "a cluster of 3 nodes and 2 links",
        "a profile of tiny: 2 layers on phone, server, cloud",
        "a plan of manual for tiny: 1 phase",
        "a plan of all-edge for tiny: 1 phase",
    ]


def test_tables_for_people_name_tree_time_and_nodes(world: World) -> None:
    out = world.palmette("estimate", world.tree, *world.inputs, "--timeline").out
    assert "an iteration:" in out
    assert "peak memory" in out
    assert "backward" in out
    out = world.palmette("plan", "all-edge", *world.inputs).out
    assert "all-edge for tiny, batch 32" in out
    assert "all: layers 1–2 on server" in out
    assert "32 samples from phone" in out
    out = world.palmette("compare", *world.inputs).out
    assert all(name in out for name in WHOLE)


def test_names_are_printed_as_they_stand(world: World) -> None:
    odd = "[/red] :smile: [edge]"
    for file in (world.cluster, world.profile):
        file.write_text(file.read_text().replace('"server"', json.dumps(odd)).replace("server", json.dumps(odd)))
    world.write("profile.json", world.profile.read_text().replace('\\"', '"'))
    done = world.palmette("plan", "all-edge", *world.inputs)
    assert (done.code, done.err) == (0, "")
    assert f"all: layers 1–2 on {odd}" in done.out


def test_compare_hands_tables_to_the_strategies_that_take_them(world: World) -> None:
    devices = {name: {"step_s": 0.1, "build_s": 1.0, "power_w": 5.0} for name in ("phone", "server")}
    table = {"format": "palmette.measurements/1", "steps": 100, "devices": devices}
    file = world.write("m.json", json.dumps(table))
    rows = world.json("compare", *world.inputs, "--measurements", file)["strategies"]
    (row,) = [row for row in rows if row["strategy"] == "cluster"]
    assert "missing" not in row.get("skipped", "")


def test_compare_refuses_a_table_that_cannot_be_read(world: World) -> None:
    (line,) = world.refused("compare", *world.inputs, "--measurements", world.folder / "none.json")
    assert "none.json: the file: cannot be read" in line
