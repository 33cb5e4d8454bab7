"""The demo of the README, as JSON: ``python -m benchmarks.demo`` from the project's root.

The commands of ``scripts/demo``: all strategies estimated, then the best plan and its best rival run for real.
``--write`` puts what came out into README.md, between two marks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.command import parser, print_result, progress
from benchmarks.demo.page import put_into_readme, table
from palmette.spec.files import read

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "examples" / "busy-phone" / "cluster.yaml"
PLANS = {"auto": "auto", "pipeline": "jointdnn+"}


def palmette(*words: str | Path, folder: Path) -> str:
    """What a command prints."""
    progress(f"palmette {' '.join(map(str, words))}")
    environment = {**os.environ, "COLUMNS": "200"}
    command = [sys.executable, "-m", "palmette", *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def shown(folder: Path, iterations: int) -> dict[str, Any]:
    """The table of all strategies, and what the two runs measured beside what was predicted."""
    palmette("profile", "lenet5", "--cluster", CLUSTER, "--data", "digits", "-o", "profile.json", folder=folder)
    task = ("--profile", "profile.json", "--cluster", CLUSTER, "--batch", "128", "--epochs", "20")
    compared = palmette("compare", *task, folder=folder)
    found: dict[str, Any] = {"table": table(compared)}
    for name, strategy in PLANS.items():
        palmette("plan", strategy, *task, "-o", f"{name}.json", folder=folder)
        options = ("--data", "digits", "--iterations", str(iterations), "--lr", "0.05", "--quiet", "-o", name)
        palmette("run", f"{name}.json", *options, folder=folder)
        record = read(folder / name / "run.json")
        measured_s, predicted_s = record["iteration_s"], record["estimate_s"]
        error = abs(measured_s / predicted_s - 1)
        found[name] = {"measured_s": measured_s, "predicted_s": predicted_s, "error": error}
    found["times_as_fast"] = found["pipeline"]["measured_s"] / found["auto"]["measured_s"]
    return found


def main() -> None:
    """Run it, and print what came out."""
    made = parser(__doc__, "four iterations of each run")
    made.add_argument("--write", action="store_true", help="also put it into README.md")
    asked = made.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = shown(Path(folder), 4 if asked.quick else 20)
    if asked.write:
        put_into_readme(ROOT / "README.md", found)
    print_result(found)


if __name__ == "__main__":
    main()
