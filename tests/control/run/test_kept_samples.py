"""Samples that nodes keep of others are deleted when no later phase uses the node, unless they are to stay."""

from __future__ import annotations

from pathlib import Path

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.runtime.data.kept_samples import file_name
from palmette.runtime.training.job import ProgressUpdate
from palmette.runtime.training.loop import Training
from palmette.spec.plan import Phase
from tests.cost.small import instance, phase, source
from tests.runtime.world import NODES, TINY, Runs, lines

EPOCH = 3  # of 500 samples each


def kept_on(node: str) -> Phase:
    """The whole network on a node that keeps the phone's samples."""
    return phase(source("phone", 500, "I", delivery="once"), instance("I", 1, 5, node))


def nodes_with_samples(runs: Runs, *phases: Phase, keep: Path | None = None) -> list[set[str]]:
    """Which nodes have samples of others after each iteration, and after the workers have ended.

    What the session deletes on this machine, it cannot delete on other hosts; so this is the training alone.
    """
    request = Request(testbed="none", iterations=EPOCH, keep_samples=None if keep is None else str(keep))
    plan, profile = pt.load_plan(runs.plan(TINY, *phases)), pt.load_profile(runs.profile(TINY))
    session = prepare(plan, profile, pt.load_cluster(runs.cluster), request, runs.folder / "out")
    folder, found = session._job.samples_folder, {}

    def present() -> set[str]:
        return {node for node in NODES if (folder / file_name(node)).exists()}

    def note(update: ProgressUpdate) -> None:
        found[update.iteration] = present()

    Training(session._job, note).run()
    return [*found.values(), present()]


def test_a_node_deletes_them_when_its_last_phase_is_done(runs: Runs) -> None:
    found = nodes_with_samples(runs, kept_on("server"), kept_on("cloud"))
    assert found == [{"server"}] * EPOCH + [{"cloud"}] * EPOCH + [set()]


def test_they_stay_for_a_later_phase_that_uses_the_node(runs: Runs) -> None:
    found = nodes_with_samples(runs, kept_on("server"), kept_on("cloud"), kept_on("server"))
    assert found == [{"server"}] * EPOCH + [{"server", "cloud"}] * EPOCH + [{"server"}] * EPOCH + [set()]
    trace = lines(runs.folder / "out" / "trace.jsonl")
    sent = [line for line in trace if (line["node"], line["op"]) == ("phone", "send") and line["bytes"]]
    assert {line["iteration"] for line in sent} == set(range(2 * EPOCH))


def test_a_place_where_they_cannot_be_kept_is_refused_before_anything_starts(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    taken, out = runs.folder / "taken", runs.folder / "out"
    taken.write_text("")
    arguments = [*runs.arguments(TINY, kept_on("cloud")), "--keep-samples", str(taken), "-o", str(out)]
    assert execute(arguments) == 2
    assert capsys.readouterr().err == f"palmette: {taken}: the folder: cannot be made: File exists\n"
    assert not out.exists()


def test_with_keep_samples_they_stay(runs: Runs) -> None:
    found = nodes_with_samples(runs, kept_on("server"), kept_on("cloud"), keep=runs.folder / "kept")
    assert found[-1] == {"server", "cloud"}
