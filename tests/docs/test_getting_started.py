"""Getting started, typed as it is written, in an empty folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.commands import ROOT
from tests.docs.session import Type, Typed, interrupted, masked, missing, steps

PAGE = ROOT / "docs" / "getting-started.md"
NETWORK = """\
from torch import nn


def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 16), nn.ReLU(), nn.Linear(16, 10))
"""


def test_masks_leave_words_and_order() -> None:
    assert masked("an iteration: 8.43 ms,  208 mJ; 3.05 MiB sent") == "an iteration: #, #; # sent"
    assert missing("a 1 s\n…\nc 3 s\n", "a 2 s\nb\nc 4 s\nd") is None
    assert missing("c 1 s\n…\na 3 s\n", "a 2 s\nb\nc 4 s\nd") == "a #"
    assert missing("an iteration: 1 s", "an epoch: 1 s") == "an iteration: #"


@pytest.fixture
def typed(run: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Types a command; the page speaks of a network of the reader's own, which is there."""
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage" / "nets.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(str(tmp_path))

    def type_(text: str) -> str:
        if "watch" in text:
            return interrupted(run, text, "http://")
        if "mypackage" in text:
            return run(text.replace("-o profile.json", "-o mine.json"))
        return run(text, code=2 if "wrong.yaml" in text else 0)

    return type_


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_can_be_typed_as_it_is_written(typed: Type, tmp_path: Path) -> None:
    for step in steps(PAGE, tmp_path):
        if not isinstance(step, Typed):
            exec(compile(step, PAGE.name, "exec"), {})
            continue
        printed = typed(step.text)
        assert missing(step.shown or "", printed) is None, (step.text, printed)
    for name in [name for name in sys.modules if name.startswith("mypackage")]:
        del sys.modules[name]
