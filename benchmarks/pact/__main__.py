"""How fast PACT plans and how near it comes to the optimum, as JSON.

python -m benchmarks.pact [speed] [quality] [--problems 20]
"""

from __future__ import annotations

from typing import Any

from benchmarks.command import parser, print_result
from benchmarks.pact.quality import COARSE, judged
from benchmarks.pact.speed import against_the_full_graph, growth, whole_trainings

NOISES, LARGE = (0.01, 0.02, 0.05), 0.1
LONG_S = 1000.0
QUICK_PROBLEMS = 3


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


def in_short() -> dict[str, Any]:
    """A little of both."""
    coarse = judged(QUICK_PROBLEMS, noise=0.02, chain=True, loss_step=COARSE, time_step_s=25 * COARSE)
    return {"full_graph": against_the_full_graph(), "short_deadline_coarse": {"0.02": coarse}}


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, f"one full graph, {QUICK_PROBLEMS} problems at coarse resolutions")
    options.add_argument("parts", nargs="*", metavar="PART", help="speed or quality; default: both")
    options.add_argument("--problems", type=int, default=20, help="random trainings in a row of quality")
    given = options.parse_args()
    parts = given.parts or ["speed", "quality"]
    if unknown := set(parts) - {"speed", "quality"}:
        options.error(f"{unknown.pop()}: expected speed or quality")
    if given.quick:
        print_result(in_short())
        return
    print_result((speed() if "speed" in parts else {}) | (quality(given.problems) if "quality" in parts else {}))


if __name__ == "__main__":
    main()
