"""Meters of nodes in a run, here replayed logs: what they measure is written, and limits of energy hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palmette.cli import execute
from palmette.control.run.metering import RunMeters
from palmette.errors import NodeLost
from palmette.measure.meters.base import EnergyReading
from palmette.measure.meters.replay import ReplayMeter
from palmette.spec.cluster import Cluster
from palmette.spec.files import load
from tests.control.adapt.test_recovery import REPLICAS, Eventful
from tests.control.hub_workers import HubWorkers
from tests.cost.small import instance, phase, source
from tests.runtime.world import TINY, Runs

LIMITED = "phone: {tier: device, power: {idle: 2 W, busy: 5 W}, limits: {energy: 100 J}}"


class Ticking:
    """A meter of so many watts, whose intervals last ten seconds."""

    source = "measured: ticking"

    def __init__(self, watts: float) -> None:
        self.watts = watts

    def begin(self) -> None:
        pass

    def end(self) -> EnergyReading:
        return EnergyReading(10.0, 10.0 * self.watts, self.source)


def plug(folder: Path, watts: float = 3.0, seconds: float = 1e6) -> str:
    file = folder / "plug.csv"
    file.write_text(f"time_s,power_w\n0,{watts}\n{seconds},{watts}\n")
    return f"phone=replay:{file}"


@pytest.fixture
def meters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunMeters:
    monkeypatch.setattr("palmette.control.run.metering.open_meter", lambda _: Ticking(3.0))
    (tmp_path / "c.yaml").write_text(f"nodes:\n  {LIMITED}\n")
    return RunMeters(["phone=zeus"], load(Cluster, tmp_path / "c.yaml"), here=True)


def steps_until_spent(meters: RunMeters) -> int:
    for step in range(1, 100):
        try:
            meters.on_step(None)  # type: ignore[arg-type]
        except NodeLost:
            return step
    raise AssertionError("the limit does not hold")


def test_a_limit_stops_a_node_before_it_is_spent_and_once(meters: RunMeters) -> None:
    for _ in range(2):
        meters.on_step(None)  # type: ignore[arg-type]
    with pytest.raises(NodeLost, match="phone: its limit of energy is reached: 90 J of 100 J are used"):
        meters.on_step(None)  # type: ignore[arg-type]  # another ten seconds would make it 120 J
    meters.on_step(None)  # type: ignore[arg-type]


def test_idle_and_busy_are_told_apart(meters: RunMeters) -> None:
    meters.on_step(None)  # type: ignore[arg-type]
    source = "measured: ticking"
    assert meters.record() == {
        "phone": {"energy_j": 30, "seconds": 10, "source": source, "failed": None, "idle_j": 20, "busy_j": 10}
    }


def test_what_was_used_before_a_run_was_resumed_counts(meters: RunMeters) -> None:
    meters.restore({"phone": {"energy_j": 60.0, "seconds": 20.0}})
    assert steps_until_spent(meters) == 1
    for damaged in ({"phone": 3}, {"phone": {"energy_j": "x", "seconds": float("nan")}}, {}):
        meters.restore(damaged)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("phone", "expected NODE=METER, such as phone=replay:plug.csv"),
        ("phon=zeus", "no such node; did you mean phone?"),
        ("phone=zeus", "reads this machine, which is none of the nodes alone"),
        ("phone=catalogue:raspberry-pi-3", "reads this machine, which is none of the nodes alone"),
        ("phone=replay", "expected one of zeus, replay:FILE, catalogue:NAME"),
        ("phone=replay:none.csv", "none.csv"),
    ],
)
def test_wrong_meters_are_one_line(runs: Runs, capsys: pytest.CaptureFixture[str], asked: str, says: str) -> None:
    tree = phase(source("phone", 4, "I"), instance("I", 1, 5, "phone"))
    words = [*runs.arguments(TINY, tree)[:-2], "--iterations", "1", "-o", str(runs.folder / "out")]
    assert execute([*words, "--testbed", "paced", "--meter", asked]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_replayed_meter_is_written_beside_the_model(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    tree = phase(source("phone", 4, "I"), instance("I", 1, 5, "phone"))
    out = runs.folder / "out"
    words = [*runs.arguments(TINY, tree), "--iterations", "5", "-o", str(out)]
    assert execute([*words, "--meter", plug(runs.folder)]) == 0
    record = json.loads((out / "run.json").read_text())
    found = record["metered"]["phone"]
    assert found["energy_j"] == pytest.approx(3.0 * found["seconds"])
    assert found["idle_j"] == pytest.approx(2.0 * found["seconds"])
    assert found["source"].startswith("measured: replayed from")
    assert record["energy_source"].startswith("modelled")
    assert "(measured: replayed from" in capsys.readouterr().out.replace("\n", " ")


def test_a_log_that_is_too_short_does_not_end_the_run(runs: Runs) -> None:
    tree = phase(source("phone", 4, "I"), instance("I", 1, 5, "phone"))
    out = runs.folder / "out"
    words = [*runs.arguments(TINY, tree), "--iterations", "2", "--quiet", "-o", str(out)]
    assert execute([*words, "--meter", plug(runs.folder, seconds=1e-6)]) == 0
    assert "the log ends after" in json.loads((out / "run.json").read_text())["metered"]["phone"]["failed"]


@pytest.mark.slow
def test_a_run_plans_on_when_a_node_has_used_its_energy(runs: Runs) -> None:
    eventful = Eventful(runs, REPLICAS, 150)
    limited = "server: {tier: edge, limits: {energy: 1 J}, power"
    runs.cluster.write_text(runs.cluster.read_text().replace("server: {tier: edge, power", limited))
    log = plug(runs.folder, 1e-3).replace("phone=", "server=")
    watts = Path(log.partition("replay:")[2])
    watts.write_text("time_s,power_w\n0,0\n0.3,0.01\n0.8,2000\n1000000,2000\n")
    assert execute([*eventful.arguments, "--meter", log, "-o", str(eventful.out)]) == 0
    (change,) = eventful.record["changes"]
    assert change["reason"].startswith("node server: its limit of energy is reached")
    assert "server" not in change["nodes"]
    eventful.assert_nothing_is_missing()


def test_meters_of_workers_at_a_hub_are_read_where_they_are(runs: Runs) -> None:
    """The phone's own, by its worker, and the cloud's log, where the run was started."""
    out = runs.folder / "out"
    tree = phase(source("phone", 4, "A"), instance("A", 1, 2, "phone", "B"), instance("B", 3, 5, "cloud"))
    log = plug(runs.folder, 7.0).replace("phone=", "cloud=")
    with HubWorkers(runs.folder) as place:
        place.meters["phone"] = ReplayMeter([0.0, 1e6], [4.0, 4.0], "battery.csv")
        place.start(["phone", "cloud"])
        words = [*runs.arguments(TINY, tree)[:-2], *place.options, "--iterations", "5", "--quiet", "-o", str(out)]
        assert execute([*words, "--meter", "phone=worker", "--meter", log]) == 0
    found = json.loads((out / "run.json").read_text())["metered"]
    assert {node: each["energy_j"] / each["seconds"] for node, each in found.items()} == {
        "phone": pytest.approx(4.0),
        "cloud": pytest.approx(7.0),
    }
    assert found["phone"]["source"] == "measured: replayed from battery.csv"


def test_a_worker_without_a_meter_is_named(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    tree = phase(source("phone", 4, "I"), instance("I", 1, 5, "phone"))
    with HubWorkers(runs.folder) as place:
        place.start(["phone"])
        words = [*runs.arguments(TINY, tree)[:-2], *place.options, "--iterations", "1", "--meter", "phone=worker"]
        assert execute([*words, "--quiet", "-o", str(runs.folder / "out")]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "its owner may name one: palmette worker --meter" in line
