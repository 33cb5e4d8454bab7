"""Pages that are typed as they are written: every command runs, and what the page shows of its output is there."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import palmette as pt
from palmette.cli import execute
from tests.docs.commands import ROOT, TYPED
from tests.docs.session import Typed, masked, missing, steps
from tests.plan.problems import profile, three_tiers

Type = Callable[[str], str]
QUOTE = re.compile(r"((?:^> .*\n)+)", re.MULTILINE)


def typed(page: str, folder: Path) -> Iterator[Typed]:
    """The commands of a page but those that are left out."""
    for step in steps(ROOT / page, folder):
        if isinstance(step, Typed) and step.text.startswith("palmette ") and step.command not in TYPED[page]:
            yield step


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Types a command in an empty folder; what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "180")
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    def type_(text: str) -> str:
        words = [str(name) for word in shlex.split(text, comments=True)[1:] for name in sorted(_expanded(word))]
        assert execute(words) == 0, (text, capsys.readouterr().err)
        return capsys.readouterr().out

    return type_


def _expanded(word: str) -> list[Path] | list[str]:
    """The files that a pattern stands for, as a shell has it."""
    return list(Path().glob(word)) if "*" in word and "=" not in word and list(Path().glob(word)) else [word]


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


@pytest.fixture
def _demo(tmp_path: Path) -> None:
    """The profile that scripts/demo leaves behind."""
    (tmp_path / "build" / "demo").mkdir(parents=True)
    cluster = pt.load_cluster(ROOT / "examples" / "busy-phone" / "cluster.yaml")
    (tmp_path / "build" / "demo" / "profile.json").write_text(
        pt.profile("lenet5", cluster=cluster, data="digits").to_json()
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_demo")
@pytest.mark.parametrize("page", ["examples/three-tiers/README.md", "examples/busy-phone/README.md"])
def test_examples_after_the_demo(page: str, run: Type, tmp_path: Path) -> None:
    ran = [run(step.text) for step in typed(page, tmp_path)]
    assert len(ran) >= 2
    assert all(ran)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_demo")
def test_running_a_plan_and_its_report(run: Type, tmp_path: Path) -> None:
    task = "--profile build/demo/profile.json --cluster examples/three-tiers/cluster.yaml --batch 128"
    run(f"palmette plan all-edge {task} -o plan.json")
    for page in ("docs/running.md", "docs/read-the-report.md"):
        for step in typed(page, tmp_path):
            if step.text.startswith("palmette run plan.json"):
                shutil.rmtree(tmp_path / "run", ignore_errors=True)
            run(step.text)
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_code_that_a_file_names_is_refused_in_the_words_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = pt.plan("all-edge", profile=profile(3), cluster=three_tiers(), batch=8)
    Path("plan.json").write_text(made.model_copy(update={"model": "training:network"}).to_json())
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    shown = page.partition("## Code that files name")[2].split("```")[1].strip()
    assert (execute(["run", "plan.json"]), capsys.readouterr().err.strip()) == (2, shown)


@pytest.mark.parametrize("page", TYPED)
def test_what_is_left_out_of_a_page_is_in_it(page: str, tmp_path: Path) -> None:
    lines = [step.command for step in steps(ROOT / page, tmp_path) if isinstance(step, Typed)]
    assert set(TYPED[page]) <= set(lines)
