"""Prints, as JSON, how fast PACT plans and how near it comes to the optimum."""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.pact.quality import COARSE, judged
from benchmarks.pact.speed import against_the_full_graph, growth, whole_trainings

NOISES, LARGE = (0.01, 0.02, 0.05), 0.1
LONG_S = 1000.0


def main(parts: set[str], many: int) -> None:
    """Measure and print."""
    made = (speed() if "speed" in parts else {}) | (quality(many) if "quality" in parts else {})
    print(json.dumps(made, indent=1))


def speed() -> dict[str, Any]:
    """How fast plans are made."""
    return {
        "whole_training": whole_trainings(),
        "one_plan_s": growth(),
        "full_graph": against_the_full_graph(),
    }


def quality(many: int) -> dict[str, Any]:
    """How near they come to the optimum."""
    return {
        "long_deadline": {f"{noise:g}": judged(many, noise=noise, chain=True, deadline_s=LONG_S) for noise in NOISES},
        "short_deadline": {f"{noise:g}": judged(many, noise=noise, chain=True) for noise in NOISES},
        "short_deadline_independent": {
            f"{noise:g}": judged(many, noise=noise, chain=True, independent=True) for noise in (*NOISES, LARGE)
        },
        "short_deadline_errors_alike": {
            name: judged(many, noise=0.05, alike=True, chain=True, independent=independent)
            for name, independent in (("pact", False), ("pact --independent", True))
        },
        "short_deadline_coarse": {
            "0.02": judged(many, noise=0.02, chain=True, loss_step=COARSE, time_step_s=25 * COARSE)
        },
        "ways_back": judged(many, noise=0.0, chain=True, back=True, deadline_s=LONG_S),
    }


if __name__ == "__main__":
    chosen = {name for name in sys.argv[1:] if not name.isdigit()}
    main(chosen or {"speed", "quality"}, next((int(name) for name in sys.argv[1:] if name.isdigit()), 20))
