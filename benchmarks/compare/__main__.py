"""How long one question takes, as JSON: ``python -m benchmarks.compare`` from the project's root."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks.command import parser, print_result
from benchmarks.evaluator.timing import yardstick_s

TURNS = 3
PALMETTE = str(Path(sys.executable).with_name("palmette"))
NETWORK = "alexnet?classes=200&size=64"
CLUSTER = """\
nodes:
  device: {tier: device, hardware: raspberry-pi-3, source: {samples: 50000}}
  edge: {tier: edge, hardware: nuc-i3-7100u-1}
  cloud: {tier: cloud, hardware: xeon-gtx-1080-ti}
links:
  - {between: [device, edge], bandwidth: 5 Mbit/s, latency: 2 ms}
  - {between: [edge, cloud], bandwidth: 3 Mbit/s, latency: 20 ms}
"""
PLANS = ("auto", "hiertrain", "all-cloud")


def palmette(folder: Path, *arguments: str) -> str:
    done = subprocess.run([PALMETTE, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def timed(folder: Path, turns: int, *arguments: str) -> tuple[dict[str, Any], str]:
    """Wall time of a command, several times over, and what it printed."""
    seconds, printed = [], ""
    for _ in range(turns):
        began = perf_counter()
        printed = palmette(folder, *arguments)
        seconds.append(perf_counter() - began)
    return {"median_s": round(statistics.median(seconds), 2), "most_s": round(max(seconds), 2)}, printed


def described(folder: Path, network: str, plans: Sequence[str]) -> None:
    """The cluster, the networks' profiles, a run, and the plans but for the first, which is timed."""
    (folder / "cluster.yaml").write_text(CLUSTER)
    palmette(folder, "profile", network, "--cluster", "cluster.yaml", "-o", "compared.json", "--quiet")
    palmette(folder, "profile", "lenet5", "--cluster", "cluster.yaml", "-o", "lenet5.json", "--quiet")
    for name in plans[1:]:
        palmette(folder, "plan", name, *inputs("compared"), "-o", f"{name}.json")
    palmette(folder, "plan", "all-edge", *inputs("lenet5", 16), "-o", "small.json")
    palmette(folder, "run", "small.json", "--iterations", "20", "--quiet", "-o", "run")


def inputs(network: str, batch: int = 128) -> list[str]:
    return ["--profile", f"{network}.json", "--cluster", "cluster.yaml", "--batch", str(batch)]


def main() -> None:
    """Print all figures."""
    options = parser(__doc__, "LeNet-5 instead of AlexNet, each command once, no browser, no rivals on pages")
    quick = options.parse_args().quick
    turns, network, plans = (1, "lenet5", PLANS[:1]) if quick else (TURNS, NETWORK, PLANS)
    bare = ["--no-rivals"] if quick else []
    with TemporaryDirectory() as name:
        folder = Path(name)
        described(folder, network, plans)
        commands = {
            "palmette compare": ["compare", *inputs("compared"), "--json"],
            "palmette plan auto": ["plan", "auto", *inputs("compared"), "-o", "auto.json"],
            "palmette report": ["report", "auto.json", "-o", "one.html", *bare],
        }
        took = {said: timed(folder, turns, *words) for said, words in commands.items()}
        result = {
            "network": network,
            "commands": {said: seconds for said, (seconds, _) in took.items()},
            "compared": {
                row["strategy"]: {"plan_s": round(row["plan_s"], 3), "iteration_s": row["estimate"]["iteration_s"]}
                for row in json.loads(took["palmette compare"][1])["strategies"]
                if "estimate" in row
            },
        }
        palmette(folder, "report", "run", *(f"{each}.json" for each in plans), "-o", "page.html", *bare)
        page = folder / "page.html"
        result["page"] = {"bytes": page.stat().st_size, "one_plan_bytes": (folder / "one.html").stat().st_size}
        if not quick:
            from benchmarks.compare.page import opened

            result["page"] |= {f"processor / {slow}": opened(page, slow, turns) for slow in (1, 4)}
    print_result(result | {"yardstick_ns": round(yardstick_s() * 1e9, 1)})


if __name__ == "__main__":
    main()
