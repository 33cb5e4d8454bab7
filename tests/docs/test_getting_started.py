"""Getting started, typed as it is written, in an empty folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from palmette.cli import execute
from tests.docs.commands import ROOT
from tests.docs.session import Typed, masked, missing, steps

PAGE = ROOT / "docs" / "getting-started.md"
LEFT_OUT = {
    "palmette watch run": "serves until it is stopped; tests/cli/test_watch.py",
    "palmette profile mypackage.nets:small --input-shape 3,32,32 --cluster cluster.yaml -o profile.json": "an example",
}


def test_masks_leave_words_and_order() -> None:
    assert masked("an iteration: 8.43 ms,  208 mJ; 3.05 MiB sent") == "an iteration: #, #; # sent"
    assert missing("a 1 s\n…\nc 3 s\n", "a 2 s\nb\nc 4 s\nd") is None
    assert missing("c 1 s\n…\na 3 s\n", "a 2 s\nb\nc 4 s\nd") == "a #"
    assert missing("an iteration: 1 s", "an epoch: 1 s") == "an iteration: #"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_can_be_typed_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "180")
    typed = []
    for step in steps(PAGE, tmp_path):
        if not isinstance(step, Typed):
            exec(compile(step, PAGE.name, "exec"), {})
            continue
        typed.append(step.text)
        if step.text in LEFT_OUT:
            continue
        code, printed = execute(shlex.split(step.text)[1:]), capsys.readouterr()
        assert code == (2 if "wrong.yaml" in step.text else 0), (step.text, printed.err)
        assert missing(step.shown or "", printed.out or printed.err) is None, (step.text, printed.out)
    assert set(LEFT_OUT) < set(typed)
