"""Prints, as JSON, how fast PACT plans and how near it comes to the optimum."""

from __future__ import annotations

import json
import sys

from benchmarks.pact.quality import judged
from benchmarks.pact.speed import against_the_full_graph, growth, whole_trainings

NOISES = (0.01, 0.02, 0.05)
LONG_S = 1000.0


def main(many: int) -> None:
    """Measure and print."""
    made = {
        "whole_training": whole_trainings(),
        "one_plan_s": growth(),
        "full_graph": against_the_full_graph(),
        "long_deadline": {f"{noise:g}": judged(many, noise=noise, chain=True, deadline_s=LONG_S) for noise in NOISES},
        "short_deadline": {"0.02": judged(many, noise=0.02, chain=True)},
        "ways_back": judged(many, noise=0.0, chain=True, back=True, deadline_s=LONG_S),
    }
    print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
