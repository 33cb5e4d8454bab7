"""Pages about planning and running, typed as they are written: what a page shows of the output is there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.control.detached import detached_runs
from tests.docs.commands import ROOT
from tests.docs.session import Type, interrupted, masked, missing, typed
from tests.plan.problems import profile, three_tiers
from tests.testbed.test_namespaces import eventually

QUOTE = re.compile(r"((?:^> .*\n)+)", re.MULTILINE)
WATTS = "time_s,power_w\n0,3\n1,4\n600,4\n"


def quoted(page: str) -> list[list[str]]:
    """The quotations of a page, each in its parts, masked."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = (each.replace("\n> ", " ").removeprefix("> ") for each in QUOTE.findall(text))
    return [[masked(part) for part in each.split("…")] for each in found]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_plan_without_hardware(run: Type, tmp_path: Path) -> None:
    page, printed, file = "docs/plan-without-hardware.md", "", tmp_path / "cluster.yaml"
    for step in typed(page, tmp_path):
        if "small" in step.text and "sample: 30 kB" in file.read_text():
            file.write_text(file.read_text().replace(", sample: 30 kB", ""))
        printed = run(step.text)
        assert missing(step.shown or "", printed) is None, printed
        if step.text.startswith("palmette init"):
            file.write_text(file.read_text().replace("{samples: 50000}", "{samples: 50000, sample: 30 kB}"))
        if step.text.startswith("palmette plan auto"):
            private = file.read_text().replace("sample: 30 kB}", "sample: 30 kB, private: true}")
            (tmp_path / "private.yaml").write_text(private)
            both = [printed, run(step.text.replace("cluster.yaml", "private.yaml"))]
            for parts, said in zip(quoted(page), map(masked, both), strict=True):
                assert [part for part in parts if part not in said] == [], said


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_three_tiers_after_the_demo(demo: Type, tmp_path: Path) -> None:
    ran = [demo(step.text) for step in typed("examples/three-tiers/README.md", tmp_path)]
    assert len(ran) == 4
    assert all(ran)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_busy_phone_after_the_demo(demo: Type, tmp_path: Path) -> None:
    files = "--profile build/demo/profile.json --cluster examples/busy-phone/cluster.yaml"
    demo(f"palmette plan hiertrain {files} --batch 128 -o build/demo/auto.json")
    ran = [demo(step.text.rstrip(" &")) for step in typed("examples/busy-phone/README.md", tmp_path)]
    assert len(ran) == 4
    assert "done" in ran[-1]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_running_a_plan_and_its_report(started: Type, tmp_path: Path) -> None:
    for name in ("plug.csv", "battery.csv"):
        (tmp_path / name).write_text(WATTS)
    for step in typed("docs/running.md", tmp_path):
        if "3f2a" in step.text or "--detach" in step.text or step.text.startswith("palmette ls"):
            continue
        if step.text.startswith("palmette run plan.json"):
            shutil.rmtree(tmp_path / "run", ignore_errors=True)
        started(step.text)
    for step in typed("docs/read-the-report.md", tmp_path):
        assert interrupted(started, step.text, "http://") if "watch" in step.text else started(step.text)
    assert (tmp_path / "report.html").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_runs_without_a_terminal(started: Type, tmp_path: Path) -> None:
    files = "--profile profile.json --cluster cluster.yaml"
    started(f"palmette plan all-device {files} --batch 4 -o plan.json")
    shown = {step.command.split()[1]: step.text for step in typed("docs/running.md", tmp_path) if "  #" in step.text}
    name = {"3f2a": started(shown["run"]).split()[1][:4]}
    assert name["3f2a"] in started(shown["ls"])
    (found,) = detached_runs()
    assert eventually(lambda: found.entry().iterations > 0, 60)
    assert f"palmette run --resume {tmp_path / 'run'} --detach" in started(shown["stop"], name)
    assert "stopped" in started(shown["logs"], name)
    assert interrupted(started, "palmette watch 3f2a", "http://", name)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_add_a_strategy(started: Type, tmp_path: Path) -> None:
    (tmp_path / "cut.json").rename(tmp_path / "by-hand.json")
    said = [started(step.text) for step in typed("docs/add-a-strategy.md", tmp_path)]
    assert "front" in said[0]
    assert "open it in any browser" in said[1]
    assert said[2].splitlines()[0].split()[:2] == ["strategy", "iteration"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_measure_your_machines(started: Type, tmp_path: Path) -> None:
    said = [started(step.text) for step in typed("docs/measure-your-machines.md", tmp_path)]
    assert "server: measured on" in said[0]
    assert "a stored sample: 64 B" in said[1]
    assert pt.load_profile("phone.json").nodes["phone"].source == "measured"
    assert "an iteration: measured" in said[-2]


def test_code_that_a_file_names_is_refused_in_the_words_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = pt.plan("all-edge", profile=profile(3), cluster=three_tiers(), batch=8)
    Path("plan.json").write_text(made.model_copy(update={"model": "training:network"}).to_json())
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    shown = page.partition("## Code that files name")[2].split("```")[1].strip()
    assert (execute(["run", "plan.json"]), capsys.readouterr().err.strip()) == (2, shown)
