"""Every benchmark runs: ``--help`` names its options, ``--quick`` prints JSON with the figures that it is there for.

How fast something was is not held against an aim here: a busy machine would fail it. That stands in RESULTS.md.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.home_networks import why_no_networks
from benchmarks.others.published import FOLDER as PUBLISHED
from benchmarks.power_cut.disk import why_not
from palmette.errors import InputError
from palmette.testbed import iproute
from tests.runtime.world import ROOT

Found = dict[str, Any]
FOLDERS = sorted(path.parent.name for path in (ROOT / "benchmarks").glob("*/__main__.py"))
MEASURED = {"demo", "fidelity", "strategies", "talk_less"}  # measured seconds are held against others, loosely
QUICK = [pytest.param(name, marks=pytest.mark.timing) if name in MEASURED else name for name in FOLDERS]


def _why_not() -> str | None:
    try:
        iproute.require_namespaces()
    except InputError as error:
        return str(error)
    return None


def run(name: str, *words: str) -> str:
    """What a benchmark prints."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *words]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cluster_choice(found: Found) -> None:
    for goals in found["fleets"].values():
        assert goals["power"]["chosen"] == 1
        assert all(1 <= row["chosen"] <= found["devices"] for row in goals.values())


def compare(found: Found) -> None:
    assert found["compared"]["hybrid"]["iteration_s"] <= found["compared"]["all-device"]["iteration_s"]
    assert all(row["median_s"] > 0 for row in found["commands"].values())
    assert 2e4 < found["page"]["one_plan_bytes"] < found["page"]["bytes"] < 3e6


def demo(found: Found) -> None:
    assert found["table"][0].startswith("strategy ")
    assert found["times_as_fast"] > 0
    assert found["auto"]["error"] < 0.5


def evaluator(found: Found) -> None:
    rates = found["three nodes, 34 layers"]
    assert all(row["a_second"] > 0 for row in (rates["same tree"], rates["pt.estimate"]))
    assert found["growth"]
    assert found["a price by delivery"]["each"] == 1.0


def exchange(found: Found) -> None:
    (row,) = found.values()
    assert row["times_as_fast"] > 0
    assert row["added_up"]["messages"] < row["each_alone"]["messages"]
    assert row["added_up"]["exchanged_bytes"] < row["each_alone"]["exchanged_bytes"]


def fidelity(found: Found) -> None:
    assert {row["tree"] for row in found["rows"]} >= {"all-cloud", "hiertrain-like", "three-replicas"}
    assert found["paced"]["all"]["cases"] == len(found["rows"])
    assert found["paced"]["all"]["median"] < 0.3  # a busy machine; the figure itself stands in RESULTS
    kept = [row for row in found["rows"] if "delivery" in row]
    assert [row["epochs"] for row in kept] == ["first", "later"]
    assert all(abs(row["bytes_error"]) < 0.05 for row in kept)


def leak(found: Found) -> None:
    assert set(found["processes"]) == {"engine", "phone", "server", "cloud"}
    assert all(row["growth_at_most"] < 0.2 for row in found["processes"].values())


def modules(found: Found) -> None:
    assert found["equal"] == found["of"] == len(found["networks"])
    assert all(row["layers"] > 1 and row["measured_s"] > 0 for row in found["networks"].values())


def overhead(found: Found) -> None:
    (row,) = found.values()
    assert row["throughput_by_cpu_time"]["median"] > 0
    assert row["beside_a_loop_that_keeps_memory"]["iteration_s"] > 0


def pact(found: Found) -> None:
    row = found["short_deadline_coarse"]["0.02"]
    assert row["problems"] > 0
    assert row["worst"] >= row["quartiles"][1] >= 1
    assert found["full_graph"]["times_faster"] > 0


def pact_run(found: Found) -> None:
    ran = found["pact"]
    assert len(ran["losses"]) == sum(row["epochs"] for row in ran["schedule"])
    assert ran["losses"][-1] < ran["losses"][0] / 2
    assert ran["schedule"][0]["pair"] == ["0", "gold"]


def peers(found: Found) -> None:
    (case,) = found["cases"]
    assert {"palmette-hybrid", "pipeline-2", "ddp-even"} <= set(case["contenders"])
    assert case["times_faster"]["palmette-hybrid"]["better peer"] > 0  # who is faster, RESULTS tells
    assert all(row["equal"] for row in case["loss_checks"].values())


def planner(found: Found) -> None:
    (hiertrain,) = found["hiertrain"].values()
    assert hiertrain["exact_T_total_s"] <= hiertrain["algorithm_1_T_total_s"] * (1 + 1e-6)
    assert found["small_worlds"]["found_share"] == 1
    (hybrid,) = found["hybrid"].values()
    assert hybrid["lower_bound_s"] <= hybrid["iteration_s"] * (1 + 1e-9)
    assert hybrid["iteration_s"] <= min(row["iteration_s"] for row in hybrid["rivals"].values()) * (1 + 1e-9)


def power_cut(found: Found) -> None:
    assert found["flushed"]["lost"] == []
    assert found["flushed"]["nothing_lost"] == found["control"]["cuts"] > 3
    assert found["control"]["lost"]  # else these cuts show nothing


def flower(found: Found) -> None:
    row = found["palmette"]
    assert found["without_flower"].startswith("Flower is not installed here")
    assert 1_488_144 < row["round_bytes"] < 3_000_000
    assert all(row[name] > 0 for name in ("round_s", "after_a_kill_s", "all_back_s"))


def recovery(found: Found) -> None:
    assert 0 < found["palmette"]["median_s"] < 60


def replanning(found: Found) -> None:
    assert min(row["time"]["replanned"] for row in found["worlds"]) > 0.5
    assert found["summary"]["replanned_behind_fixed_at_most"] < 0.1


def righttrain(found: Found) -> None:
    assert found["against_optimum"]["both_planned"] > 0
    assert -1e-3 < found["against_optimum"]["worst_excess"] < 1
    assert all(row["plan_s"] > 0 for row in found["growth"]["fleets"])


def soak(found: Found) -> None:
    assert found["runs"] == found["ended_well"] == found["weights_right"] > 0
    assert found["processes_left"] == 0
    assert found["wrong"] == []


def startup(found: Found) -> None:
    assert found["heavy modules of palmette --help"] == []
    assert all(found[command]["median_s"] > 0 for command in ("palmette plan all-edge", "python -c pass"))


def strategies(found: Found) -> None:
    assert [row["strategy"] for row in found["rows"]] == ["hiertrain", "hybrid"]
    assert found["median"] < 0.3  # a busy machine


def talk_less(found: Found) -> None:
    (task,) = (each for each in found.values() if "methods" in each)
    assert set(task["methods"]) == {"step", "diloco 50", "diloco 50, int8"}
    assert task["beside_step"]["diloco 50"]["times_fewer_bytes"] > 40
    assert task["beside_step"]["diloco 50, int8"]["times_fewer_bytes"] > 150
    times = [row["iteration_s"]["20"] for row in task["methods"].values()]
    assert times[0] > 2 * max(times[1:])


def others(found: Found) -> None:
    assert all(row["estimated_s"] > 0 for row in found["rows"])
    assert found["mit"]["mean_error"] < 0.15


def tls(found: Found) -> None:
    (row,) = found["trees"].values()
    assert row["ratio"] > 0
    assert found["worst"] == row["ratio"]


def upload_first(found: Found) -> None:
    assert [row["epochs"] for row in found["cases"]] == [1, 5]
    for row in found["cases"]:
        assert set(row["seconds"]) == {"auto", "plain script", "DDP", "pipelining"}
        assert row["ratio"] == row["seconds"]["auto"] / min(v for k, v in row["seconds"].items() if k != "auto")
    (run,) = found["runs"]
    assert run["how"] == "run"
    assert run["ratio"] == run["seconds"]["auto"] / run["seconds"]["upload"]


def summary(found: Found) -> None:
    assert found == {"ran": ["python -m benchmarks.startup --quick"], "known": [], "left": [], "failed": []}


CHECKS: dict[str, Callable[[Found], None]] = {
    check.__name__: check
    for check in (
        *(
            cluster_choice,
            compare,
            demo,
            evaluator,
            exchange,
            fidelity,
            flower,
            leak,
            modules,
            others,
            overhead,
            pact,
            pact_run,
            peers,
            replanning,
        ),
        *(planner, power_cut, recovery, righttrain, soak, startup, strategies, summary, talk_less, tls, upload_first),
    )
}


def test_every_benchmark_has_its_check_its_readme_and_its_row() -> None:
    assert sorted(CHECKS) == FOLDERS
    table = (ROOT / "benchmarks" / "README.md").read_text()
    for name in FOLDERS:
        assert f"`python -m benchmarks.{name}`" in table
        assert f"python -m benchmarks.{name}" in Path(ROOT, "benchmarks", name, "README.md").read_text()


@pytest.mark.parametrize("name", FOLDERS)
def test_help_names_the_options(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process, which has imported torch already."""
    monkeypatch.setattr(sys, "argv", ["benchmark", "--help"])
    for variable in ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.setenv(variable, "0")  # peers sets them: not beyond this test
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert said.startswith("usage: ")
    assert "--quick" in said


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", QUICK)
def test_quick_prints_figures(name: str, tmp_path: Path) -> None:
    if name == "power_cut" and why_not() is not None:
        pytest.skip(str(why_not()))
    if name == "flower" and why_no_networks("nft", "tc") is not None:
        pytest.skip(str(why_no_networks("nft", "tc")))
    if name == "others" and not (ROOT / PUBLISHED).is_dir():
        pytest.skip("needs what others published")
    here = ("--only", "startup", "--into", str(tmp_path / "R.md"), "--values", str(tmp_path / "values.json"))
    CHECKS[name](json.loads(run(name, "--quick", *(here if name == "summary" else ()))))


@pytest.mark.slow
@pytest.mark.namespaces
@pytest.mark.timeout(300)
@pytest.mark.skipif(_why_not() is not None, reason=str(_why_not()))
def test_peers_train_for_real() -> None:
    found = json.loads(run("peers", "--quick", "--rounds", "1"))
    peers(found)
    (case,) = found["cases"]
    assert {row["how"] for row in case["contenders"].values()} == {"measured"}
    assert set(case["loss_checks"]) >= {"palmette-hybrid", "pipeline-2", "ddp"}
