"""PACT's Table I and Figs. 4, 6 to 9: predictions of the loss, and schedules of models and nodes."""

from __future__ import annotations

from palmette.predict.learned import load_shipped_predictor
from palmette.predict.shipped_curves import load_shipped_curves
from palmette.reproduce.pact.predictions import claims, predictions
from palmette.reproduce.pact.schedule_claims import schedule_claims
from palmette.reproduce.pact.schedules import schedules
from palmette.reproduce.progress import Progress, Record, silent

# Typical seconds of all figures on two cores; said before anything is known of this machine.
TYPICAL_S = 60.0


def reproduce(progress: Progress = silent) -> Record:
    """Table I, Figs. 4 and 6 to 9, and the claims about them."""
    progress("Table I and Fig. 4")
    predicted = predictions(load_shipped_predictor(), load_shipped_curves())
    figures = {"4": predicted.pop("figure_4")} | schedules(progress)
    return {
        "format": "palmette.reproduction/1",
        "paper": "PACT",
        "figures": figures,
        "predictions": predicted,
        "claims": [*claims(predicted), *schedule_claims(figures)],
    }
