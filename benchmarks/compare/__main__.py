"""How long one question takes, as JSON: ``python -m benchmarks.compare`` from the project's root."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks.compare.page import opened
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


def timed(folder: Path, *arguments: str) -> dict[str, Any]:
    """Wall time of a command, several times over."""
    seconds = []
    for _ in range(TURNS):
        began = perf_counter()
        palmette(folder, *arguments)
        seconds.append(perf_counter() - began)
    return {"median_s": round(statistics.median(seconds), 2), "most_s": round(max(seconds), 2)}


def described(folder: Path) -> None:
    """The cluster, the networks' profiles, plans and a run."""
    (folder / "cluster.yaml").write_text(CLUSTER)
    palmette(folder, "profile", NETWORK, "--cluster", "cluster.yaml", "-o", "alexnet.json", "--quiet")
    palmette(folder, "profile", "lenet5", "--cluster", "cluster.yaml", "-o", "lenet5.json", "--quiet")
    for name in PLANS:
        palmette(folder, "plan", name, *inputs("alexnet"), "-o", f"{name}.json")
    palmette(folder, "plan", "all-edge", *inputs("lenet5", 16), "-o", "small.json")
    palmette(folder, "run", "small.json", "--iterations", "20", "--quiet", "-o", "run")


def inputs(network: str, batch: int = 128) -> list[str]:
    return ["--profile", f"{network}.json", "--cluster", "cluster.yaml", "--batch", str(batch)]


def main() -> None:
    """Print all figures."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        described(folder)
        commands = {
            "palmette compare": ["compare", *inputs("alexnet"), "--json"],
            "palmette plan auto": ["plan", "auto", *inputs("alexnet"), "--json"],
            "palmette report": ["report", "auto.json", "-o", "one.html"],
        }
        result = {
            "commands": {said: timed(folder, *words) for said, words in commands.items()},
            "compared": {
                row["strategy"]: {"plan_s": round(row["plan_s"], 3), "iteration_s": row["estimate"]["iteration_s"]}
                for row in json.loads(palmette(folder, *commands["palmette compare"]))["strategies"]
                if "estimate" in row
            },
        }
        palmette(folder, "report", "run", *(f"{each}.json" for each in PLANS), "-o", "page.html")
        page = folder / "page.html"
        result["page"] = {"bytes": page.stat().st_size, "one_plan_bytes": (folder / "one.html").stat().st_size}
        result["page"] |= {f"processor / {slow}": opened(page, slow, TURNS) for slow in (1, 4)}
    print(json.dumps(result | {"yardstick_ns": round(yardstick_s() * 1e9, 1)}, indent=1))


if __name__ == "__main__":
    main()
