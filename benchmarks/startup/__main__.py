"""What the command line costs before it does anything, as JSON: ``python -m benchmarks.startup`` from the root."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks.command import parser, print_result
from benchmarks.evaluator.cases import three_tiers
from benchmarks.evaluator.timing import yardstick_s

TIMES, QUICK_TIMES = 10, 2
HEAVY = ("torch", "scipy", "sklearn", "numpy")
PALMETTE = str(Path(sys.executable).with_name("palmette"))


def timed(command: list[str], times: int) -> dict[str, Any]:
    """Wall time of a command, several times over."""
    seconds = []
    for _ in range(times):
        began = perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(perf_counter() - began)
    return {
        "median_s": round(statistics.median(seconds), 3),
        "range_s": [round(min(seconds), 3), round(max(seconds), 3)],
    }


def heavy_modules(arguments: list[str]) -> list[str]:
    """The heavy packages that a palmette command imports."""
    script = "\n".join(
        [
            "import json, sys",
            "from palmette.cli import execute",
            f"execute({arguments!r})",
            f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]), file=sys.stderr)",
        ]
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return json.loads(done.stderr)


def main() -> None:
    """Print all figures."""
    times = QUICK_TIMES if parser(__doc__, "each command twice").parse_args().quick else TIMES
    with TemporaryDirectory() as folder:
        profile, cluster = three_tiers()
        files = {"profile": Path(folder, "profile.json"), "cluster": Path(folder, "cluster.yaml")}
        files["profile"].write_text(profile.to_json())
        files["cluster"].write_text(cluster.to_yaml())
        plan = ["plan", "all-edge", *(word for name, path in files.items() for word in (f"--{name}", str(path)))]
        result = {
            "python -c pass": timed([sys.executable, "-c", "pass"], times),
            "palmette --help": timed([PALMETTE, "--help"], times),
            "palmette plan all-edge": timed([PALMETTE, *plan], times),
            "import palmette": timed([sys.executable, "-c", "import palmette"], times),
            "heavy modules of palmette --help": heavy_modules(["--help"]),
            "heavy modules of palmette plan all-edge": heavy_modules(plan),
            "yardstick_ns": round(yardstick_s() * 1e9, 1),
        }
    print_result(result)


if __name__ == "__main__":
    main()
