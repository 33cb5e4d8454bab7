"""palmette init on the command line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import palmette as pt
from palmette.cli import init
from palmette.cli.init import ENGINES
from palmette.runtime.engines import registry
from palmette.zoo.data.registry import usages
from palmette.zoo.training_names import DATA
from tests.cli.world import World


def test_flags_are_enough(world: World) -> None:
    file = world.folder / "new.yaml"
    done = world.palmette("init", file, "--devices", 2, "--bandwidth", "40 Mbit/s", "--private", "--yes")
    assert (done.code, done.err) == (0, "")
    cluster = pt.load_cluster(file)
    assert list(cluster.nodes) == ["device1", "device2", "edge", "cloud"]
    assert world.palmette("check", file).code == 0


def test_questions_are_asked_and_an_empty_line_is_the_usual(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file = world.folder / "new.yaml"
    monkeypatch.setattr("sys.stdin", io.StringIO("3\n\n0\n\n\n5 Mbit/s\n100\ny\n"))
    done = world.palmette("init", file)
    assert done.code == 0
    assert "How many devices" in done.err
    assert "cloud server?" not in done.err.partition("How many cloud")[2].partition("links near")[0]
    cluster = pt.load_cluster(file)
    assert list(cluster.nodes) == ["device1", "device2", "device3", "edge"]
    assert {link.bandwidth_bps for link in cluster.links} == {5e6}
    source = cluster.nodes["device1"].source
    assert source is not None
    assert (source.samples, source.private) == (100, True)


def test_flags_say_how_samples_are_stored(world: World) -> None:
    file = world.folder / "new.yaml"
    flags = ["--sample", "3 KiB", "--stream", "--storage", "32 GiB"]
    assert world.palmette("init", file, "--clouds", 2, *flags, "--yes").code == 0
    cluster = pt.load_cluster(file)
    source = cluster.nodes["device"].source
    assert source is not None
    assert (source.sample_bytes, source.stream) == (3072, True)
    kept = {name: node.storage_bytes for name, node in cluster.nodes.items()}
    assert kept == {"device": None, "edge": 2**35, "cloud1": 2**35, "cloud2": 2**35}


def test_how_samples_are_stored_is_asked_last(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file = world.folder / "new.yaml"
    monkeypatch.setattr("sys.stdin", io.StringIO("\n" * 10 + "500 B\nyes\n2 GB\n"))
    done = world.palmette("init", file)
    assert done.code == 0
    assert "How large is a sample on disk, such as 3 KiB? [none]" in done.err
    cluster = pt.load_cluster(file)
    source = cluster.nodes["device"].source
    assert source is not None
    assert (source.sample_bytes, source.stream, cluster.nodes["edge"].storage_bytes) == (500, True, 2e9)


def test_sizes_that_cannot_be_used_are_told(world: World) -> None:
    lines = world.refused("init", world.folder / "n.yaml", "--sample", "3", "--storage", "0 B", "--yes")
    assert [line.partition(": exp")[0] for line in lines] == ["--sample: 3", "--storage: 0 B"]


def test_a_file_that_is_there_stays(world: World) -> None:
    before = world.cluster.read_text()
    (line,) = world.refused("init", world.cluster, "--yes")
    assert "choose another name or pass --force" in line
    assert world.cluster.read_text() == before
    assert world.palmette("init", world.cluster, "--yes", "--force").code == 0
    assert world.cluster.read_text() != before


@pytest.mark.parametrize(("typed", "told"), [("", "end of file"), ("two\n", "expected a whole number")])
def test_an_answer_that_cannot_be_used(world: World, monkeypatch: pytest.MonkeyPatch, typed: str, told: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    done = world.palmette("init", world.folder / "new.yaml")
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert not (world.folder / "new.yaml").exists()


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--goal", "tiem"], "--goal: tiem: no such goal; did you mean time?"),
        (["--model", "lenet6"], "--model: lenet6: no such network of the zoo; did you mean lenet5?"),
        (["--data", "digit"], "--data: digit: no such data set; did you mean digits?"),
        (["--data", "cifar10"], "--data: cifar10: no such data set; did you mean cifar10:FOLDER?"),
    ],
)
def test_a_training_that_cannot_be_used_leaves_no_file(world: World, flags: list[str], line: str) -> None:
    (found,) = world.refused("init", world.folder / "new" / "new.yaml", *flags, "--yes")
    assert found == line
    assert not (world.folder / "new").exists()


def test_who_stops_at_a_question_about_the_training_can_start_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StopsAtTheGoal(io.StringIO):
        def readline(self, *_: object) -> str:
            if "What to minimise" in asked[-1]:
                raise KeyboardInterrupt
            return "\n"

    asked: list[str] = []
    monkeypatch.setattr("sys.stdin", StopsAtTheGoal())
    real = init._ask
    monkeypatch.setattr(init, "_ask", lambda question, default: asked.append(question) or real(question, default))
    file = world.folder / "new.yaml"
    assert world.palmette("init", file).code == 130
    assert not file.exists()


def test_a_training_file_stays_unless_options_are_about_it(world: World) -> None:
    file, training = world.folder / "new.yaml", world.folder / "training.yaml"
    training.write_text("mine")
    done = world.palmette("init", file, "--yes")
    assert "training.yaml: exists and was not changed" in done.out
    assert training.read_text() == "mine"
    (line,) = world.refused("init", world.folder / "other.yaml", "--goal", "energy", "--yes")
    assert line.endswith("training.yaml: file exists: choose another name or pass --force")
    assert world.palmette("init", file, "--goal", "energy", "--yes", "--force").code == 0
    assert "goal: energy" in training.read_text()


@pytest.mark.parametrize("name", ["my cluster.yaml", "#1.yaml", "a: b.yaml", "ünï.YML", "'.yaml"])
def test_a_cluster_file_of_any_name_is_found_again(world: World, name: str) -> None:
    folder = world.folder / "with a space"
    folder.mkdir()
    done = world.palmette("init", folder / name, "--yes")
    assert f"Next: palmette up '{folder / 'training.yaml'}'" in done.out
    assert world.palmette("check", folder / "training.yaml").code == 0


def test_a_name_under_which_it_could_not_be_read_is_refused(world: World) -> None:
    for arguments in (["cluster"], ["c.json"], ["c.yaml", "--training", "training"]):
        (line,) = world.refused("init", *arguments, "--yes")
        assert line == f"{arguments[-1]}: the file: expected a name that ends in .yaml"
        assert not Path(arguments[0]).exists()


def test_the_names_of_data_are_those_that_can_be_loaded() -> None:
    assert list(DATA) == usages()


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_question_is_asked_until_its_answer_can_be_used(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = "two\n-1\n2\n\n\nabacus\ngalaxy-s25\n\n\n5\n5 Mbit/s\n\n0\n10\nperhaps\nno\n"
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    done = world.palmette("init", world.folder / "new.yaml")
    assert done.code == 0
    assert done.err.count("How many devices") == 5  # three times asked, twice told
    for told in ("two: expected a whole number", "abacus: no such hardware", "5: expected a bandwidth", "perhaps: exp"):
        assert told in done.err
    cluster = pt.load_cluster(world.folder / "new.yaml")
    assert list(cluster.nodes) == ["device1", "device2", "edge", "cloud"]
    assert cluster.nodes["device1"].hardware == "galaxy-s25"
    assert cluster.links[0].bandwidth_bps == 5e6


def test_a_terminal_that_goes_away_ends_the_questions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("1\n"))
    done = world.palmette("init", world.folder / "new.yaml")
    assert (done.code, done.out) == (2, "")
    assert not (world.folder / "new.yaml").exists()


def test_wrong_flags_are_told_all_at_once(world: World) -> None:
    lines = world.refused("init", world.folder / "n.yaml", "--devices", -1, "--edge-hardware", "abacus", "--yes")
    assert [line.partition(":")[0] for line in lines] == ["--devices", "--edge-hardware"]


def test_an_unknown_engine_is_refused_before_anything_is_asked(world: World) -> None:
    file = world.folder / "new.yaml"
    done = world.palmette("init", file, "--engine", "rey")
    assert (done.code, done.err) == (2, "palmette: --engine: rey: no such engine; expected one of local, ray, hub\n")
    assert not file.exists()
    assert tuple(registry.ENGINES) == ENGINES
