"""Bad input: an exit code, one line per fault on stderr, nothing on stdout, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import palmette as pt
from palmette.errors import not_below
from tests.cli.world import LEARNING, TREE, World


def edited(world: World, old: str, new: str) -> Path:
    """The cluster file with one text put for another."""
    text = world.cluster.read_text()
    assert old in text
    return world.write("cluster.yaml", text.replace(old, new))


class TestGoalsThatCannotBeMet:
    def test_a_private_source(self, world: World) -> None:
        edited(world, "samples: 1000", "private: true, samples: 1000")
        (line,) = world.refused("plan", "all-edge", *world.inputs, code=3)
        assert "the source of phone is private" in line

    def test_memory(self, world: World) -> None:
        edited(world, "memory: 8 GiB", "memory: 8 kB")
        (line,) = world.refused("plan", "all-edge", *world.inputs, code=3)
        assert "does not fit the memory of server" in line

    def test_a_deadline_of_an_iteration(self, world: World) -> None:
        best_s = world.json("plan", "all-edge", *world.inputs)["estimate"]["iteration_s"]
        (line,) = world.refused("plan", "all-edge", *world.inputs, "--iteration-deadline", "1 ms", code=3)
        assert "--iteration-deadline" in line
        assert f"{not_below(best_s)} s" in line

    def test_an_energy_limit(self, world: World) -> None:
        edited(world, "energy: 2 Wh", "energy: 1 mJ")
        (line,) = world.refused("plan", "all-device", *world.inputs, code=3)
        assert "1 mJ, its energy limit" in line

    @pytest.mark.slow
    def test_compare_where_no_strategy_meets_it(self, world: World) -> None:
        compared = world.json("compare", *world.inputs)["strategies"]
        least_s = min(row["estimate"]["iteration_s"] for row in compared if "estimate" in row)
        for command in (("compare",), ("plan", "auto")):
            (line,) = world.refused(*command, *world.inputs, "--iteration-deadline", "1us", code=3)
            told, value = line.split("; the least that can be had is ")
            assert told == "--iteration-deadline: 1e-06 s: cannot be met"
            closest_s, strategy = value.split(" s, by ")
            assert float(closest_s) <= least_s * 1.00001
            assert strategy in {row["strategy"] for row in compared}

    @pytest.mark.slow
    def test_the_closest_to_a_deadline_of_the_whole_training(self, world: World) -> None:
        learning = ("--learning", world.write("learning.json", LEARNING), "--loss", 0.3)
        compared = world.json("compare", *world.inputs, *learning)["strategies"]
        (line,) = world.refused("compare", *world.inputs, *learning, "--deadline", "1ms", code=3)
        least_s = float(line.partition("the least that can be had is ")[2].partition(" s")[0])
        assert least_s <= min(row["estimate"]["total_s"] for row in compared if "estimate" in row) * 1.00001

    def test_a_loss_below_the_curve_is_told_once_for_all(self, world: World) -> None:
        learning = ("--learning", world.write("learning.json", LEARNING), "--loss", 0.01)
        (line,) = world.refused("compare", *world.inputs, *learning, code=3)
        assert line.startswith("all-cloud, all-device, all-edge, ")
        assert line.count("split-learning") == line.count("all-device") == 1

    def test_a_loss_without_a_learning_curve(self, world: World) -> None:
        (line,) = world.refused("plan", "auto", *world.inputs, "--loss", 0.3)
        assert line == "--loss: 0.3: a loss does not say how long to train; expected --learning, too"
        compared = world.json("compare", *world.inputs, "--loss", 0.3)
        assert compared["note"].startswith("no learning curve says when the loss 0.3 is reached: ranked by an epoch;")
        assert compared["strategies"][0]["estimate"]["total_s"] is None

    def test_compare_where_no_strategy_may_run(self, world: World) -> None:
        edited(world, "memory: 8 GiB", "memory: 1 kB")
        edited(world, "memory: 1 GiB", "memory: 1 kB")
        edited(world, "hardware: xeon-gtx-1080-ti", "memory: 1 kB")
        (line,) = world.refused("compare", *world.inputs, code=3)
        assert "all-edge: instances: " in line
        assert "all-device, federated: instances: " in line
        assert "does not fit the memory" in line


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--batch", "x", "expected an integer"),
        ("--seed", "1.5", "expected an integer"),
        ("--loss", "low", "expected a number"),
        ("--goal", "", "expected time|energy|power|edp|cost|carbon or a weighted sum such as 0.3*time+0.7*energy"),
        ("--deadline", "1 s", "all-edge does not decide how long to train; expected --iteration-deadline or neither"),
    ],
)
def test_an_option_is_told_with_its_value(world: World, option: str, value: str, expected: str) -> None:
    (line,) = world.refused("plan", "all-edge", *world.inputs, option, value)
    assert line == f"{option}: {value or repr('')}: {expected}"


class TestWhatIsNotThere:
    @pytest.mark.parametrize(
        ("command", "goal"), [("compare", "energy"), ("compare", "0.5*time+0.5*energy"), ("plan auto", "edp")]
    )
    def test_a_power_that_the_goal_needs(self, world: World, command: str, goal: str) -> None:
        edited(world, "    power: {idle: 2 W, busy: 5 W, exponent: 3}\n", "")
        (line,) = world.refused(*command.split(), *world.inputs, "--goal", goal)
        assert line.startswith(f"{world.cluster}: nodes.phone.power: missing: the goal {goal} needs it")

    def test_no_source_is_told_once_for_all(self, world: World) -> None:
        edited(world, "    source: {samples: 1000, data: digits}\n", "")
        for command in (("compare",), ("plan", "auto")):
            (line,) = world.refused(*command, *world.inputs)
            assert line.startswith(f"{world.cluster}: nodes: no source: expected ")

    def test_a_node_that_the_profile_does_not_know(self, world: World) -> None:
        known = json.loads(world.profile.read_text())
        del known["nodes"]["server"]
        world.write("profile.json", json.dumps(known))
        (line,) = world.refused("plan", "all-edge", *world.inputs)
        assert line.startswith(f"{world.cluster}: nodes.server: server: the profile has no times for it")

    def test_no_node_of_the_tier(self, world: World) -> None:
        edited(world, "tier: edge", "tier: cloud")
        (line,) = world.refused("plan", "all-edge", *world.inputs)
        assert line == f"{world.cluster}: nodes: no node of tier edge: expected at least one"

    def test_no_source(self, world: World) -> None:
        edited(world, "    source: {samples: 1000, data: digits}\n", "")
        (line,) = world.refused("plan", "all-edge", *world.inputs)
        assert line.startswith(f"{world.cluster}: nodes: no source")

    def test_no_path(self, world: World) -> None:
        edited(world, "between: [phone, server]", "between: [phone, cloud]")
        edited(world, "between: [server, cloud]", "between: [cloud, phone]")
        lines = world.refused("plan", "all-edge", *world.inputs)
        assert any("joins them already" in line for line in lines)
        text = world.cluster.read_text().splitlines()
        world.write("cluster.yaml", "\n".join(line for line in text if "3 Mbit/s" not in line))
        (line,) = world.refused("plan", "all-edge", *world.inputs)
        assert "phone to server: there is no path between them" in line

    def test_no_power_for_a_goal_of_energy(self, world: World) -> None:
        edited(world, ", power: {idle: 7 W, busy: 22 W}", "")
        (line,) = world.refused("plan", "all-edge", *world.inputs, "--goal", "energy")
        assert line == f"{world.cluster}: nodes.server.power: missing: the goal energy needs it"

    def test_compare_with_a_batch_of_nothing(self, world: World) -> None:
        (line,) = world.refused("compare", *world.inputs, "--batch", 0)
        assert line.startswith("--batch: 0: expected at least 1")

    def test_a_plan_without_inputs(self, world: World) -> None:
        lines = world.refused("estimate", world.tree)
        assert [line.split(":")[0] for line in lines] == ["--profile", "--cluster"]

    @pytest.mark.parametrize("option", ["--profile", "--cluster"])
    def test_a_file(self, world: World, option: str) -> None:
        nowhere = world.folder / "nowhere.yaml"
        other = {"--profile": ("--cluster", world.cluster), "--cluster": ("--profile", world.profile)}[option]
        (line,) = world.refused("plan", "all-edge", option, nowhere, *other)
        assert line.startswith(str(nowhere))
        assert "No such file" in line

    def test_hardware_of_another_name(self, world: World) -> None:
        edited(world, "xeon-gtx-1080-ti", "xeon-gtx-1080")
        (line,) = world.refused("plan", "all-edge", *world.inputs)
        assert line.startswith(f"{world.cluster}: nodes.cloud.hardware: xeon-gtx-1080: ")
        assert "did you mean xeon-gtx-1080-ti?" in line


class TestFaultsInAPlan:
    def priced(self, world: World, **changes: object) -> list[str]:
        phase = {**TREE["phases"][0], **changes}
        file = world.write("wrong.json", json.dumps({**TREE, "phases": [phase]}))
        lines = world.refused("estimate", file, *world.inputs)
        assert all(line.startswith(f"{file}: phases[0]") for line in lines), lines
        return lines

    def test_a_node_that_is_not_in_the_cluster(self, world: World) -> None:
        instances = [
            dict(i, node="servr" if i["node"] == "server" else i["node"]) for i in TREE["phases"][0]["instances"]
        ]
        (line,) = self.priced(world, instances=instances)
        assert "instances[1].node: servr: no such node; did you mean server?" in line

    def test_a_share_above_the_limit(self, world: World) -> None:
        instances = [dict(i, cpu_share=1.0) for i in TREE["phases"][0]["instances"]]
        (line,) = self.priced(world, instances=instances)
        assert "cpu_share: 1.0: expected at most 0.5, the CPU limit of phone" in line

    def test_a_cycle(self, world: World) -> None:
        instances = [
            dict(i, into="front" if i["id"] == "back" else i.get("into")) for i in TREE["phases"][0]["instances"]
        ]
        (line,) = self.priced(world, instances=instances)
        assert "cycle" in line

    def test_several_at_once_are_a_line_each(self, world: World) -> None:
        instances = [dict(i, layers=[0, 1], node=7) for i in TREE["phases"][0]["instances"]]
        assert len(self.priced(world, instances=instances)) == 6


class TestTheCommandLineItself:
    def test_an_unknown_strategy_names_the_nearest(self, world: World) -> None:
        assert world.refused("plan", "all-egde", *world.inputs) == [
            "strategy: all-egde: no such strategy; did you mean all-edge?"
        ]

    def test_an_unknown_command_names_the_nearest(self, world: World) -> None:
        (line,) = world.refused("estimat")
        assert line == "estimat: no such command; did you mean estimate?"

    def test_an_unknown_option_names_the_nearest(self, world: World) -> None:
        (line,) = world.refused("plan", "all-edge", "--profle", world.profile)
        assert "--profile" in line

    def test_a_missing_option_is_named(self, world: World) -> None:
        (line,) = world.refused("plan", "all-edge", "--profile", world.profile)
        assert "--cluster" in line

    @pytest.mark.parametrize(
        ("option", "value", "expected"),
        [
            ("--batch", "many", "integer"),
            ("--batch", "0", "expected at least 1"),
            ("--batch", "9" * 15, "at most 1000000000000"),
            ("--goal", "speed", "no such goal"),
            ("--goal", "tme", "did you mean time?"),
            ("--goal", "0.3*time+", "expected time|energy|power|edp"),
            ("--goal", "-1*time", "expected a weight above 0"),
            ("--goal", "time+time", "stands there twice"),
            ("--iteration-deadline", "5", "expected a duration with a unit"),
            ("--iteration-deadline", "0 s", "expected more than 0"),
            ("--deadline", "2h", "does not decide how long to train"),
            ("--loss", "-1", "expected a number above 0"),
            ("--loss", "nan", "expected a number above 0"),
            ("--loss", "0.2", "does not decide how long to train"),
            ("--optimizer", "adm", "did you mean adam?"),
            ("--seed", "x", "integer"),
        ],
    )
    def test_a_value_that_cannot_be_used(self, world: World, option: str, value: str, expected: str) -> None:
        (line,) = world.refused("plan", "all-edge", *world.inputs, option, value)
        assert expected in line
        assert option in line or "strategy" in line

    def test_no_command_prints_the_help(self, world: World) -> None:
        done = world.palmette()
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("Usage: palmette")

    @pytest.mark.parametrize(
        "command", [[], ["plan"], ["plan", "all-edge"], ["estimate"], ["compare"], ["check"], ["strategies"]]
    )
    def test_every_command_has_help_with_an_example(self, world: World, command: list[str]) -> None:
        done = world.palmette(*command, "--help")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("Usage: palmette")
        assert not command or "Example: palmette" in done.out

    def test_the_version(self, world: World) -> None:
        done = world.palmette("--version")
        assert (done.code, done.err) == (0, "")
        assert done.out == f"{pt.__version__}\n"
        assert pt.__version__.count(".") == 2


class TestWriting:
    def test_into_a_folder_that_is_not_there(self, world: World) -> None:
        file = world.folder / "nowhere" / "plan.json"
        (line,) = world.refused("plan", "all-edge", *world.inputs, "-o", file)
        assert line == f"{file}: the file: cannot be written: No such file or directory"

    def test_onto_a_folder(self, world: World) -> None:
        (line,) = world.refused("plan", "all-edge", *world.inputs, "-o", world.folder)
        assert "cannot be written" in line
        assert not list(world.folder.parent.glob(f".{world.folder.name}*"))

    def test_where_nobody_may_write(self, world: World) -> None:
        (line,) = world.refused("plan", "all-edge", *world.inputs, "-o", "/proc/plan.json")
        assert line.startswith("/proc/plan.json")
        assert "cannot be written" in line

    def test_a_refused_plan_leaves_no_file(self, world: World) -> None:
        file = world.folder / "plan.json"
        world.refused("plan", "all-edge", *world.inputs, "--iteration-deadline", "1us", "-o", file, code=3)
        assert not file.exists()


def test_check_tells_every_fault_of_every_file(world: World) -> None:
    edited(world, "5 Mbit/s", "5")
    edited(world, "busy: 22 W", "busy: 1 W")
    world.write("profile.json", world.profile.read_text().replace("input_bytes", "input_byte"))
    lines = world.refused("check", world.cluster, world.tree, world.profile, world.folder / "none.json")

    files = [world.cluster, world.cluster, world.profile, world.folder / "none.json"]
    assert [line.split(": ")[0] for line in lines] == list(map(str, files))
    assert any("links[0].bandwidth: 5: expected a bandwidth with a unit" in line for line in lines)
    assert any("nodes.server.power.busy" in line for line in lines)
    assert any("did you mean input_bytes?" in line for line in lines)


def test_check_reads_the_trace_of_a_link(world: World) -> None:
    world.write("lte.csv", "time_s,down_bps\n0,5e6\n1,0\n")
    traced = (
        "nodes: {phone: {tier: device}, edge: {tier: edge}}\nlinks: [{between: [phone, edge], bandwidth_trace: FILE}]"
    )
    good, bad = (world.write(f"{name}.yaml", traced.replace("FILE", f"{name}.csv")) for name in ("lte", "none"))
    inline = "".join(f"\n  {line}" for line in traced.replace("FILE", "lte.csv").splitlines())
    training = world.write("training.yaml", f"model: lenet5\ncluster:{inline}\n")
    assert world.palmette("check", good, training).code == 0
    assert world.refused("check", bad) == [
        f"{world.folder / 'none.csv'}: the file: cannot be read: No such file or directory"
    ]


def test_check_knows_the_formats(world: World) -> None:
    file = world.write("odd.json", '{"format": "palmette.plan/2"}')
    (line,) = world.refused("check", file)
    assert "did you mean palmette.plan/1?" in line


def test_an_interrupted_command_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("palmette.compare", interrupted)
    done = world.palmette("compare", *world.inputs)
    assert done == (130, "", "palmette: interrupted\n")


def test_a_folder_that_cannot_be_made_is_told_before_the_work(world: World) -> None:
    for paper in ("all", "hiertrain", "righttrain", "cluster", "pact"):
        (line,) = world.refused("reproduce", paper, "-o", world.cluster)
        assert line == f"{world.cluster}: the folder: cannot be made: File exists"


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("plan hiertrain --profil x", "--profil: no such option; did you mean --profile?"),
        ("run --zzz", "--zzz: no such option; palmette run --help shows what is expected"),
        (
            "plan righttrain --profile a --cluster b",
            "--learning: missing; palmette plan righttrain --help shows what is expected",
        ),
        ("check", "files: missing; palmette check --help shows what is expected"),
        ("doctor extra more", "extra more: not expected here; palmette doctor --help shows what is expected"),
        ("keys inti", "inti: no such command; did you mean init?"),
        ("frobnicate", "frobnicate: no such command; palmette --help shows what is expected"),
        ("plan hiertrain --batch", "--batch: missing: expected a value"),
        ("hardware --json=3", "--json: expected no value"),
        ("run plan.json --seed many", "--seed: many: expected an integer"),
    ],
)
def test_what_is_wrong_with_the_words_of_a_command_has_the_form_of_all_faults(
    world: World, typed: str, line: str
) -> None:
    assert world.refused(*typed.split()) == [line]
