"""PACT's Table I and Figs. 4, 6 to 9: predictions of the loss, and schedules of models and nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palmette.predict.learned import load_shipped_predictor
from palmette.predict.shipped_curves import load_shipped_curves
from palmette.reproduce.pact.predictions import claims, predictions
from palmette.reproduce.pact.schedule_claims import schedule_claims
from palmette.reproduce.pact.schedules import schedules

Record = dict[str, Any]
Told = Callable[[str], None]


def reproduce(told: Told = lambda _: None) -> Record:
    """All figures and the table, and the paper's claims beside them; ``told`` hears what is being worked on."""
    told("Table I and Fig. 4")
    foretold = predictions(load_shipped_predictor(), load_shipped_curves())
    figures = {"4": foretold.pop("figure_4")} | schedules(told)
    return {
        "format": "palmette.reproduction/1",
        "paper": "PACT",
        "figures": figures,
        "predictions": foretold,
        "claims": [*claims(foretold), *schedule_claims(figures)],
    }
