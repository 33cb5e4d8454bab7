"""The planners of HierTrain, its rivals and hybrid on the command line: fields, options, exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from palmette.cli.show.plan import show_plan
from palmette.spec.plan import Plan
from tests.cli.world import World
from tests.plan.problems import always_new, where_integers_help

CHAINS = ("jointdnn", "jointdnn+", "jalad")
ALL = ("hiertrain", *CHAINS, "hybrid")


def edited(world: World, old: str, new: str) -> None:
    text = world.cluster.read_text()
    assert old in text
    world.cluster.write_text(text.replace(old, new))


def test_hiertrain_has_the_fields_of_the_format(world: World) -> None:
    plan = world.json("plan", "hiertrain", *world.inputs, "--batch", 16)
    decision = plan["decision"]
    workers = {"worker_o", "worker_s", "worker_l"}
    assert decision.keys() == workers | {"m_s", "m_l", "b_o", "b_s", "b_l", "iteration_s"}
    assert {decision[worker] for worker in workers} == {"phone", "server", "cloud"}
    assert decision["b_o"] + decision["b_s"] + decision["b_l"] == 16


def test_hiertrain_decides_the_same_without_pruning(world: World) -> None:
    with_, without = (world.json("plan", "hiertrain", *world.inputs, flag) for flag in ("--prune", "--no-prune"))
    assert with_["decision"] == without["decision"]


def test_algorithm_1_is_there_to_compare_with(world: World) -> None:
    exact = world.json("plan", "hiertrain", *world.inputs)["decision"]
    theirs = world.json("plan", "hiertrain", *world.inputs, "--method", "lp")["decision"]
    assert exact["iteration_s"] <= theirs["iteration_s"] * (1 + 1e-12)


def test_a_worker_that_is_not_there_is_null(world: World) -> None:
    edited(world, "  cloud: {tier: cloud, hardware: xeon-gtx-1080-ti}\n", "")
    edited(world, "  - {between: [server, cloud], bandwidth: 3 Mbit/s}\n", "")
    edited(world, "sets: {all: [phone, server, cloud]}\n", "")
    decision = world.json("plan", "hiertrain", *world.inputs)["decision"]
    assert (decision["worker_s"], decision["m_s"], decision["b_s"]) == (None, 0, 0)


@pytest.mark.parametrize("strategy", CHAINS)
def test_a_chain_names_the_node_of_each_layer(world: World, strategy: str) -> None:
    decision = world.json("plan", strategy, *world.inputs)["decision"]
    assert decision.keys() == {"iteration_s", "nodes"}
    assert set(decision["nodes"]) <= {"phone", "server", "cloud"}


def test_hybrid_states_its_gap(world: World) -> None:
    decision = world.json("plan", "hybrid", *world.inputs, "--goal", "0.3*time+0.7*energy", "--seconds", 0.1)[
        "decision"
    ]
    assert 0 <= decision["lower_bound"] <= decision["value"]
    assert 0 <= decision["gap"] <= 1


def test_the_gap_stands_on_the_screen(world: World) -> None:
    out = world.palmette("plan", "hybrid", *world.inputs, "--seconds", 0.1).out
    assert "above the best possible, which is at least" in out or "time: the best possible" in out


def test_where_gradients_meet_stands_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    instances = [{"id": name, "layers": [1, 2], "node": name} for name in ("phone", "server")]
    sources = [{"node": "phone", "samples": 4, "into": name} for name in ("phone", "server")]
    phase = {"meet": "cloud", "sources": sources, "instances": instances}
    show_plan(Plan.model_validate({"model": "tiny", "batch": 8, "phases": [phase]}))
    assert "the tree (step, gradients averaged at cloud)" in capsys.readouterr().out


def test_how_gradients_travel_stands_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    instances = [{"id": name, "layers": [1, 2], "node": name} for name in ("phone", "server")]
    sources = [{"node": "phone", "samples": 4, "into": name} for name in ("phone", "server")]
    phase = {"exchange": {"codec": "topk", "ratio": 0.05}, "overlap": True, "sources": sources, "instances": instances}
    show_plan(Plan.model_validate({"model": "tiny", "batch": 8, "phases": [phase]}))
    assert "(step, gradients as topk ratio 0.05, gradients sent during backward)" in capsys.readouterr().out


def test_a_codec_of_exchanges_that_is_none_is_refused_in_one_line(world: World) -> None:
    done = world.palmette("plan", "all-edge", *world.inputs, "--exchange-codec", "int9")
    assert (done.code, done.out) == (2, "")
    assert done.lines == ["palmette: --exchange-codec: int9: no such codec; did you mean int8?"]


@pytest.mark.slow
def test_the_row_of_a_lossy_plan_says_so(world: World) -> None:
    known, cluster = where_integers_help()
    files = world.write("p.json", known.to_json()), world.write("c.yaml", always_new(cluster).to_yaml())
    inputs = ("--profile", files[0], "--cluster", files[1], "--batch", 16)

    def notes(*more: str) -> dict[str, Any]:
        found = world.json("compare", *inputs, *more)["strategies"]
        return {row["strategy"]: row["note"] for row in found if "skipped" not in row}

    plain, lossy = notes(), notes("--lossy")
    assert plain.pop("jalad") == "8-bit outputs"
    assert set(plain.values()) <= {None, "replicas train apart"}
    assert lossy["hybrid"] == "8-bit outputs"
    assert "8-bit outputs" in world.palmette("compare", *inputs).out


def test_lossless_is_no_option_any_more(world: World) -> None:
    assert world.palmette("plan", "hybrid", *world.inputs, "--lossless").code == 2


@pytest.mark.parametrize("strategy", ALL)
class TestExitCodes:
    def test_no_source(self, world: World, strategy: str) -> None:
        edited(world, "    source: {samples: 1000, data: digits}\n", "")
        (line,) = world.refused("plan", strategy, *world.inputs)
        assert line.startswith(f"{world.cluster}: nodes: no source")

    def test_a_batch_of_nothing(self, world: World, strategy: str) -> None:
        (line,) = world.refused("plan", strategy, *world.inputs, "--batch", 0)
        assert "--batch: 0" in line

    def test_a_deadline_that_cannot_be_met(self, world: World, strategy: str) -> None:
        (line,) = world.refused("plan", strategy, *world.inputs, "--iteration-deadline", "1us", code=3)
        assert "--iteration-deadline: 1e-06 s: cannot be met; the least that can be had is " in line


@pytest.mark.parametrize("strategy", ["jointdnn", "jalad"])
def test_no_path_to_the_cloud(world: World, strategy: str) -> None:
    edited(world, "between: [server, cloud]", "between: [server, phone]")
    edited(world, "between: [phone, server]", "between: [phone, moon]")
    edited(world, "  server: {", "  moon: {tier: edge}\n  server: {")
    (line,) = world.refused("plan", strategy, *world.inputs)
    assert "phone to cloud: there is no path between them" in line
