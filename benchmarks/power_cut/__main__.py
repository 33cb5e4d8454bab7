"""Whether a power cut loses what a run said to be saved, as JSON: ``python -m benchmarks.power_cut`` from the root.

LeNet-5 trains on three nodes into an ext4 image. At random moments all its processes are stopped, the image is copied,
and training goes on; the copy is mounted, as a machine would its disk after a power cut. The control does not flush.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from benchmarks.command import parser, print_result, progress
from benchmarks.overhead.cases import profile_of
from benchmarks.power_cut.disk import copy_image, make_image, mounted, why_not
from benchmarks.soak.faults import CLUSTER
from palmette.errors import InputError
from palmette.runtime.training import checkpoint
from palmette.zoo.models import load_network

NODES = ("phone", "server", "cloud")
CUTS, QUICK_CUTS = 20, 3
_SETTLE_S = 0.1
_PATIENCE_S = 120.0


class Trainee:
    """A training in processes of its own, and what it said to be saved."""

    def __init__(self, words: list[str], *, flushed: bool) -> None:
        given = {} if flushed else {"PALMETTE_UNFLUSHED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.power_cut.trainee", *words],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **given},
        )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.strip())

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Meanwhile nothing is written."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        time.sleep(_SETTLE_S)
        yield
        os.killpg(self._process.pid, signal.SIGCONT)

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait(_PATIENCE_S)
        self._reader.join()

    def end(self) -> None:
        """End it, however it is."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()


def lost(folder: Path, said: str) -> str | None:
    """What is missing of what was said to be saved; None where nothing is."""
    try:
        written = json.loads((folder / "run.json").read_text())
        found = checkpoint.last(folder / "checkpoints")
        metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().split("\n")[:-1]]
        if said == "done":
            load_file(folder / "model.safetensors")
            return None if written["ended"] == "done" else f"run.json says {written['ended']}"
    except (OSError, ValueError, InputError, SafetensorError) as error:
        return " ".join(str(error).split())
    iteration = found.checkpoint.progress.iteration
    if iteration < int(said):
        return f"iteration {said} was saved, {iteration} is there"
    return None if len({line["iteration"] for line in metrics}) >= iteration else "metrics are missing"


def _cut(image: Path, folder: Path, run: str, said: str) -> str | None:
    copy = folder / "copy"
    copy_image(image, copy)
    with mounted(copy, folder / "after") as after:
        return lost(after / run, said)


def _files(folder: Path) -> list[str]:
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "profile.json").write_text(profile_of(load_network("lenet5", seed=0), NODES).to_json())
    phase = {
        "sources": [{"node": "phone", "samples": 4, "into": node} for node in NODES],
        "instances": [{"id": node, "layers": [1, 7], "node": node} for node in NODES],
    }
    plan = {"format": "palmette.plan/1", "model": "lenet5", "batch": 12, "phases": [phase]}
    (folder / "plan.json").write_text(json.dumps(plan))
    files = ["--cluster", str(folder / "cluster.yaml"), "--profile", str(folder / "profile.json")]
    return ["run", str(folder / "plan.json"), *files, "--testbed", "none", "--optimizer", "adam", "--quiet"]


def series(cuts: int, seed: int, *, flushed: bool) -> dict[str, Any]:
    """Cut the power so many times during a training, and once after its end."""
    draw, losses = random.Random(seed), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_image(folder / "image")
        words = _files(folder)
        with mounted(folder / "image", folder / "disk") as disk:
            losses += list(_during(words, disk, folder, cuts, draw, flushed=flushed))
            short = Trainee([*words, "--iterations", "30", "-o", str(disk / "whole")], flushed=flushed)
            short.wait()
            losses.append(_cut(folder / "image", folder, "whole", short.said[-1]))
    return {
        "cuts": len(losses),
        "nothing_lost": losses.count(None),
        "lost": [each for each in losses if each is not None],
    }


def _during(
    words: list[str], disk: Path, folder: Path, cuts: int, draw: random.Random, *, flushed: bool
) -> Iterator[str | None]:
    trainee = Trainee([*words, "--iterations", "1000000", "-o", str(disk / "run")], flushed=flushed)
    try:
        until_s = time.monotonic() + _PATIENCE_S
        while len(trainee.said) < 3 and time.monotonic() < until_s:
            time.sleep(0.01)
        for number in range(cuts):
            time.sleep(draw.uniform(0.1, 0.8))
            with trainee.stopped():
                found = _cut(folder / "image", folder, "run", trainee.said[-1])
            progress(f"{'flushed' if flushed else 'control'} {number + 1}: {found or 'nothing lost'}")
            yield found
    finally:
        trainee.end()


def main() -> None:
    """Print how many cuts lost something, flushed and not."""
    options = parser(__doc__, f"{QUICK_CUTS} cuts")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    reason = why_not()
    if reason is not None:
        print(f"benchmark: {reason}", file=sys.stderr)
        sys.exit(2)
    cuts = QUICK_CUTS if given.quick else CUTS
    print_result(
        {
            "flushed": series(cuts, given.seed, flushed=True),
            "control": series(cuts, given.seed, flushed=False),
        }
    )


if __name__ == "__main__":
    main()
