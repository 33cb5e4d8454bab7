"""Watts of a node that are fitted to what its meter measured in runs; the meters are computed, or replayed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palmette.cli import execute
from palmette.errors import InputError
from palmette.measure.learned_power import MeteredRun, fit_power
from palmette.spec.cluster import Cluster, Power
from palmette.spec.files import load

IDLE_W, BUSY_W = 3.0, 8.0


def run_of(seconds: float, computing_s: float) -> MeteredRun:
    return MeteredRun(seconds, computing_s, IDLE_W * (seconds - computing_s) + BUSY_W * computing_s)


def test_runs_that_differ_tell_both() -> None:
    found, fitted = fit_power("phone", [run_of(100, 20), run_of(50, 45), run_of(80, 40)], None)
    assert (found.idle_w, found.busy_w) == (pytest.approx(IDLE_W), pytest.approx(BUSY_W))
    assert fitted


def test_runs_that_do_not_differ_take_the_idle_watts_that_are_declared() -> None:
    found, fitted = fit_power("phone", [run_of(100, 50), run_of(50, 24)], Power(idle_w=3.0, busy_w=99.0, exponent=2.0))
    assert (found.idle_w, found.busy_w, found.exponent) == (3.0, pytest.approx(BUSY_W), 2.0)
    assert not fitted


@pytest.mark.parametrize(
    ("runs", "declared", "says"),
    [
        ([run_of(100, 50)], None, "expected power: in the cluster file"),
        ([run_of(100, 50)], Power(idle_w=20.0, busy_w=30.0), "no node draws that"),
        ([MeteredRun(100, 10, 800), MeteredRun(100, 90, 300)], None, "no node draws that"),
    ],
)
def test_what_no_watts_explain(runs: list[MeteredRun], declared: Power | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        fit_power("phone", runs, declared)


CLUSTER = "nodes:\n  phone: {tier: device, power: {idle: 3 W, busy: 5 W}}\n  cloud: {tier: cloud}\n"
TREE = {
    "sources": [{"node": "phone", "samples": 4, "into": "I"}],
    "instances": [{"id": "I", "layers": [1, 2], "node": "phone", "cpu_share": 1.0}],
}


def record(folder: Path, name: str, computing_s: float, share: float = 1.0, **more: object) -> Path:
    """A run of 100 s on the wall clock, of which the emulated clock counts half."""
    phase = {**TREE, "instances": [{**TREE["instances"][0], "cpu_share": share}]}
    found = run_of(100, 2 * computing_s)
    data = {
        "format": "palmette.run/1",
        "plan": {"format": "palmette.plan/1", "model": "m", "batch": 4, "phases": [phase]},
        "dilation": 2.0,
        "time_s": 48.0,
        "nodes": {"phone": {"computing_s": computing_s, "whole_s": 48.0}},
        "metered": {"phone": {"energy_j": found.joules, "seconds": 100.0, "source": "measured: plug", "failed": None}},
    } | more
    (folder / name).mkdir()
    (folder / name / "run.json").write_text(json.dumps(data))
    return folder / name


def learned(folder: Path, *runs: Path) -> int:
    (folder / "c.yaml").write_text(CLUSTER)
    words = ["power", "learn", *map(str, runs), "--cluster", str(folder / "c.yaml")]
    return execute([*words, "-o", str(folder / "learned.yaml")])


def test_a_cluster_learns_from_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learned(tmp_path, record(tmp_path, "one", 10), record(tmp_path, "two", 40)) == 0
    found = load(Cluster, tmp_path / "learned.yaml").nodes
    assert found["phone"].power is not None
    assert found["phone"].power.idle_w == pytest.approx(IDLE_W)
    assert found["phone"].power.busy_w == pytest.approx(BUSY_W)
    assert found["cloud"].power is None
    line = "phone: 3 W idle, 8 W busy (both fitted), 2 runs, measured: plug"
    assert capsys.readouterr().out.splitlines()[0] == line
    assert (tmp_path / "learned.yaml").read_text().startswith(f"# power of {line}\n")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"metered": {}}, "no meter measured a node of this cluster; expected runs with --meter"),
        ({"time_s": 96.0}, "it was resumed, or its plan has changed"),
        ({"share": 0.5}, "expected its whole CPU"),
        ({"nodes": {"phone": {"computing_s": 60.0, "whole_s": 60.0}}}, "expected less than the 100 s of its meter"),
    ],
)
def test_runs_that_tell_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, object], says: str
) -> None:
    assert learned(tmp_path, record(tmp_path, "one", 10, **more)) == 2  # type: ignore[arg-type]
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
