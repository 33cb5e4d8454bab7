"""Every claim has a verdict and a command; a paper that fails leaves the others alone."""

from __future__ import annotations

from typing import Any

import pytest

from palmette.errors import RunError
from palmette.report.claims import claims_page
from palmette.reproduce import everything as module
from palmette.reproduce.everything import PAPERS, claim, everything

ROW = {"figure": "7", "claim": "<b>faster</b>", "paper": 2.3, "ours": 2.2, "agrees": True}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "reproduced"),
        ({"agrees": False, "why": "links"}, "not reached"),
        ({"agrees": False, "better": True, "ours": 9.0, "why": "machines"}, "better"),
        ({"better": False}, "reproduced"),
        ({"agrees": False, "why": "links", "fitted": "cannot all be true"}, "cannot all be true"),
    ],
)
def test_verdicts(changes: dict[str, Any], verdict: str) -> None:
    found = claim(ROW | changes, "palmette reproduce x")
    assert (found["verdict"], found["command"], found["figure"]) == (verdict, "palmette reproduce x", "Fig. 7")
    assert found["why"] == changes.get("why")


def test_all_papers_are_there_whatever_becomes_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def reproduce(name: str, progress: Any) -> dict[str, Any]:
        progress("its figures")
        if name == "pact":
            raise RunError("no <light>")
        return {"claims": [ROW, ROW | {"agrees": False, "why": "links & batches"}]}

    monkeypatch.setattr(module, "_reproduce", reproduce)
    heard: list[str] = []
    made = everything(heard.append)
    assert [paper["name"] for paper in made["papers"]] == list(PAPERS)
    failed = {paper["name"]: paper["failed"] for paper in made["papers"]}
    assert failed["pact"] == "no <light>"
    assert failed["righttrain"] is None
    assert made["counts"] == {
        "better": 0,
        "reproduced": 3,
        "reproduced with fitted machines": 0,
        "cannot all be true": 0,
        "not reached": 3,
    }
    assert heard[0] == "hiertrain: its figures"

    page = claims_page(made)
    assert "&lt;b&gt;faster&lt;/b&gt;" in page
    assert "no &lt;light&gt;" in page
    assert "links &amp; batches" in page
    assert "palmette reproduce cluster" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
