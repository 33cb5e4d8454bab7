"""Every claim of the four papers beside ours, with the command that shows it.

A claim is reproduced, ours is better, or it is not reached; a claim about machines that the paper does not describe may
be reproduced with fitted ones, or exclude other claims of the paper.
"""

from __future__ import annotations

import importlib
from typing import Any

from palmette.errors import PalmetteError
from palmette.reproduce.fitted import CONTRADICTORY, REPRODUCED
from palmette.reproduce.progress import Progress, Record, silent

PAPERS = {
    "hiertrain": "HierTrain: Fast Hierarchical Edge AI Learning with Hybrid Parallelism in Mobile-Edge-Cloud Computing",
    "righttrain": "Energy-efficient Training of Distributed DNNs in the Mobile-edge-cloud Continuum (RightTrain)",
    "cluster": "A Framework for Distributed Deep Neural Network Training with Heterogeneous Computing Platforms",
    "pact": "Matching DNN Compression and Cooperative Training with Resources and Data Availability (PACT)",
}
VERDICTS = ("better", "reproduced", REPRODUCED, CONTRADICTORY, "not reached")


def everything(progress: Progress = silent) -> Record:
    """All claims, paper by paper; ``progress`` is called with what is being worked on."""
    papers = [_paper(name, title, progress) for name, title in PAPERS.items()]
    rows = [row for paper in papers for row in paper["claims"]]
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    return {"format": "palmette.reproduction/1", "paper": "all", "counts": counts, "papers": papers}


def typical_s() -> float:
    """Seconds that it typically takes."""
    return sum(float(_figures(name).TYPICAL_S) for name in PAPERS)


def _paper(name: str, title: str, progress: Progress) -> Record:
    command = f"palmette reproduce {name}"
    paper: Record = {"name": name, "title": title, "command": command, "claims": [], "failed": None}
    try:
        made = _reproduce(name, lambda what: progress(f"{name}: {what}"))
    except PalmetteError as error:
        return paper | {"failed": str(error)}
    return paper | {"claims": [claim(row, command) for row in made["claims"]]}


def _reproduce(name: str, progress: Progress) -> Record:
    """A paper's record: every ``figures`` module has the same ``reproduce(progress)``."""
    made: Record = _figures(name).reproduce(progress)
    return made


def _figures(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}.figures")


def claim(row: Record, command: str) -> Record:
    """A claim with its verdict and its command; ``better`` in a row says that ours is ahead of the paper's."""
    differs = row.get("fitted", "not reached")
    verdict = "better" if row.get("better") else "reproduced" if row["agrees"] else differs
    figure = str(row["figure"])
    return {
        "figure": f"Fig. {figure}" if figure.isdigit() else figure,
        "claim": row["claim"],
        "paper": row["paper"],
        "ours": row["ours"],
        "verdict": verdict,
        "why": None if row["agrees"] else row.get("contradiction") or row.get("why"),
        "command": command,
    }
