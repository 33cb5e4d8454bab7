"""Federated averaging of LeNet-5 by ``palmette run --engine hub`` and by Flower's deployment engine, in turns, as JSON:
``python -m benchmarks.flower --flower ENVIRONMENT`` from the project's root.

Three clients, each behind a router of its own with 10 Mbit/s up and 20 down. Bytes and seconds of a round; then one
client is killed: seconds until the next round is done, and from its new start until a round with all three is.
"""

from __future__ import annotations

import signal
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.command import parser, print_result, progress
from benchmarks.flower.clients import BATCH, CLIENTS, DOWN_MBIT, SAMPLES, UP_MBIT, Homes, Side, Watched
from benchmarks.flower.deployment import why_no_flower
from benchmarks.flower.flower_side import FlowerSide
from benchmarks.flower.palmette_side import PalmetteSide
from benchmarks.home_networks import why_no_networks

ROUNDS, QUICK_ROUNDS = 8, 3
TURNS = 2
AWAY_S, QUICK_AWAY_S = 20.0, 2.0
PATIENCE_S = 240.0

Makers = dict[str, Callable[[Path, Homes], Side]]


def turns(makers: Makers, many: int, rounds: int, away_s: float) -> dict[str, list[dict[str, Any]]]:
    """Each side in turn, so many times, over the same cables."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in makers}
    with Homes() as homes:
        for _ in range(many):
            for name, made in makers.items():
                with tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as folder:
                    found[name].append(Watched(made(Path(folder), homes), homes, PATIENCE_S).turn(rounds, away_s))
                progress(f"{name}: {found[name][-1]}")
    return found


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over all turns, beside the turns."""
    return {
        "round_s": round(statistics.median(each for row in rows for each in row["round_s"]), 3),
        "round_bytes": round(statistics.median(each for row in rows for each in row["round_bytes"])),
        "first_round_s": statistics.median(row["first_round_s"] for row in rows),
        "after_a_kill_s": statistics.median(row["after_a_kill_s"] for row in rows),
        "all_back_s": statistics.median(row["all_back_s"] for row in rows),
        "turns": rows,
    }


def main() -> None:
    """Print the figures of both sides, or of Palmette alone with the reason."""
    options = parser(__doc__, f"{QUICK_ROUNDS} rounds of Palmette, and of Flower where it is named")
    options.add_argument(
        "--flower", type=Path, metavar="ENVIRONMENT", help="folder of an environment with flwr and torch"
    )
    options.add_argument("--turns", type=int, default=TURNS, help=f"default: {TURNS}")
    options.add_argument("--rounds", type=int, help=f"before a client is killed; default: {ROUNDS}")
    given = options.parse_args()
    missing = why_no_networks("nft", "tc")
    if missing is not None:
        print(f"benchmark: {missing}", file=sys.stderr)
        sys.exit(2)
    makers: Makers = {"palmette": PalmetteSide}
    why = why_no_flower(given.flower)
    if why is None:
        makers["flower"] = lambda folder, homes: FlowerSide(folder, homes, given.flower)
    elif given.flower is None and given.quick:
        progress(f"benchmark: {why}")
    else:
        print(f"benchmark: {why}", file=sys.stderr)
        sys.exit(2)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left behind
    rounds, away_s = (QUICK_ROUNDS, QUICK_AWAY_S) if given.quick else (ROUNDS, AWAY_S)
    found = turns(makers, 1 if given.quick else given.turns, given.rounds or rounds, away_s)
    print_result(
        {
            "clients": len(CLIENTS),
            "samples_a_client": SAMPLES,
            "batch": BATCH,
            "up_mbit_s": UP_MBIT,
            "down_mbit_s": DOWN_MBIT,
            "away_s": away_s,
            "without_flower": why,
            **{name: summed(rows) for name, rows in found.items()},
        }
    )


if __name__ == "__main__":
    main()
