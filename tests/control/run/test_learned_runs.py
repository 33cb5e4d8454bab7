"""What runs that really trained tell a learning curve: the loss after each of their whole epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.control.learn import learned_run
from palmette.spec.plan import Phase
from tests.cost.small import instance, phase, source
from tests.runtime.world import TINY, Runs


def trees(sync: str) -> Phase:
    """Two whole networks; an epoch of 100 and of 50 samples."""
    feeds = source("phone", 20, "A", epoch_samples=100), source("server", 10, "B", epoch_samples=50)
    return phase(*feeds, instance("A", 1, 5, "phone"), instance("B", 1, 5, "server"), sync=sync)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def ran(runs: Runs, sync: str, *length: str) -> Path:
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, trees(sync)), *length, "--quiet", "-o", str(out)]) == 0
    return out


@pytest.mark.parametrize("sync", ["step", "epoch", "async"])
def test_there_is_a_loss_for_each_epoch(sync: str, runs: Runs) -> None:
    points = learned_run(ran(runs, sync, "--epochs", "2")).points.points
    assert [point.epochs for point in points] == [1.0, 2.0]


@pytest.mark.parametrize("sync", ["step", "epoch", "async"])
def test_a_part_of_an_epoch_is_none(sync: str, runs: Runs) -> None:
    with pytest.raises(pt.InputError, match="no whole epoch: expected a run of at least one"):
        learned_run(ran(runs, sync, "--iterations", "3"))


@pytest.mark.parametrize("owners", [("phone",), ("phone", "server"), ("phone", "server", "cloud")])
def test_epochs_take_data_in_turn_unless_a_source_is_left_out(owners: tuple[str, ...], runs: Runs) -> None:
    data = 'samples: 100, data: "tests.runtime.networks:small_digits"}'
    runs.cluster.write_text(runs.cluster.read_text().replace("samples: 100}", data).replace("samples: 1500}", data))
    feeds = [source(node, 10, node[0], epoch_samples=20) for node in owners]
    out, whole = runs.folder / "out", [instance(node[0], 1, 5, node) for node in owners]
    assert execute([*runs.arguments(TINY, phase(*feeds, *whole)), "--epochs", "2", "--quiet", "-o", str(out)]) == 0
    points = learned_run(out).points.points
    assert [point.in_turn for point in points] == [len(owners) == 3] * 2
