"""A run that would use samples of a stream twice is refused before anything starts, and says how long it may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.cli import execute
from tests.cost.small import instance, phase, source
from tests.runtime.world import TINY, Runs, lines

# The digits have 1,500 samples to train on, of which an epoch takes the phone's part by the cluster file, 15 of 17.
TREE = phase(source("phone", 97, "P"), instance("P", 1, 2, "phone", "R"), instance("R", 3, 5, "cloud"))


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    made = Runs(tmp_path)
    made.cluster.write_text(made.cluster.read_text().replace("{samples: 1500}", "{samples: 1500, stream: true}"))
    return made


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["--iterations", "16"], "--iterations: 16"),
        (["--epochs", "2"], "--epochs: 2"),
    ],
)
def test_a_run_longer_than_its_stream_is_refused(
    runs: Runs, capsys: pytest.CaptureFixture[str], asked: list[str], says: str
) -> None:
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, TREE), *asked, "-o", str(out)]) == 2
    why = "the stream of phone has 1500 samples, each used once; expected at most 15 iterations in all"
    assert capsys.readouterr().err.strip().endswith(f"{says}: {why}")
    assert not out.exists()


def test_all_phases_together_may_last_as_long_as_the_stream(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    two = [TREE, TREE.model_copy(update={"epochs": 3})]
    assert execute([*runs.arguments(TINY, *two), "-o", str(runs.folder / "out")]) == 2
    assert "phases[1].epochs: 3: the stream of phone" in capsys.readouterr().err
    assert execute([*runs.arguments(TINY, *two), "--iterations", "8", "-o", str(runs.folder / "out")]) == 2
    assert "--iterations: 8: the stream of phone" in capsys.readouterr().err


def test_an_epoch_of_a_stream_has_whole_batches_only(runs: Runs) -> None:
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, TREE), "--epochs", "1", "--quiet", "-o", str(out)]) == 0
    assert sum("accuracy" not in line for line in lines(out / "metrics.jsonl")) == 13  # of 13.6


def test_data_that_is_no_stream_is_used_again(runs: Runs) -> None:
    runs.cluster.write_text(runs.cluster.read_text().replace(", stream: true", ""))
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, TREE), "--iterations", "16", "--quiet", "-o", str(out)]) == 0


def test_under_async_a_tree_whose_stream_ended_leaves_its_steps_to_others(runs: Runs) -> None:
    """The phone has 15 of 17 of 1,500 samples: 13 steps; the cloud takes what is left of 20."""
    trees = phase(
        source("phone", 97, "P"),
        source("cloud", 20, "C"),
        instance("P", 1, 5, "phone"),
        instance("C", 1, 5, "cloud"),
        sync="async",
        server="server",
    )
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, trees), "--iterations", "40", "--quiet", "-o", str(out)]) == 0
    taken = [line["tree"] for line in lines(out / "metrics.jsonl") if "accuracy" not in line]
    assert len(taken) == 40
    assert taken.count("P") <= 13
