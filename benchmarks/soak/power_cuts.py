"""A run whose machine loses its power: it writes to a disk in a file, and goes on from a copy that is mounted."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.overhead.cases import profile_of
from benchmarks.power_cut.__main__ import Trainee
from benchmarks.power_cut.disk import copy_image, make_image, mounted
from benchmarks.soak.faults import CLUSTER
from benchmarks.soak.runs import BATCH, ITERATIONS, MODEL, NODES, OPTIONS, TREES, weights_off
from palmette.control.adapt.supervise import Supervisor
from palmette.control.run.session import resume
from palmette.errors import PalmetteError
from palmette.runtime.training import checkpoint
from palmette.zoo.models import load_network

_PATIENCE_S = 120.0
_CHOSEN = {"optimizer": OPTIONS.optimizer, "lr": OPTIONS.lr, "seed": OPTIONS.seed, "dtype": OPTIONS.dtype}


def power_cut(tree: str, at: int) -> dict[str, Any]:
    """Cut the power once a checkpoint of iteration ``at`` is said to be saved, and resume from what is on the disk."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        make_image(folder / "image")
        with mounted(folder / "image", folder / "disk") as disk:
            words = [*_words(folder, tree), "-o", str(disk / "run")]
            trainee = Trainee(words, flushed=True)
            try:
                said = _saved(trainee, at)
                with trainee.stopped():
                    copy_image(folder / "image", folder / "copy")
            finally:
                trainee.end()
        with mounted(folder / "copy", folder / "after") as after:
            return _resumed(after / "run", said)


def _words(folder: Path, tree: str) -> list[str]:
    feeds, instances = TREES[tree]
    phase = {
        "sources": [{"node": "phone", "samples": many, "into": into} for into, many in feeds.items()],
        "instances": [{"id": i, "layers": run, "node": n, "into": into} for i, run, n, into in instances],
    }
    plan = {"format": "palmette.plan/1", "model": MODEL, "batch": BATCH, "phases": [phase]}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "profile.json").write_text(profile_of(load_network(MODEL, seed=0), NODES).to_json())
    files = ["--cluster", str(folder / "cluster.yaml"), "--profile", str(folder / "profile.json")]
    chosen = [word for name, value in _CHOSEN.items() for word in (f"--{name}", str(value))]
    length = ["--iterations", str(ITERATIONS), "--testbed", "none", "--quiet"]
    return ["run", str(folder / "plan.json"), *files, *chosen, *length]


def _saved(trainee: Trainee, at: int) -> int:
    """The last checkpoint that was said to be saved, when that is of iteration ``at`` or later."""
    until_s = time.monotonic() + _PATIENCE_S
    while not (trainee.said and (trainee.said[-1] == "done" or int(trainee.said[-1]) >= at)):
        if time.monotonic() > until_s:
            raise TimeoutError(f"no checkpoint of iteration {at}")
        time.sleep(0.01)
    return int([word for word in trainee.said if word != "done"][-1])


def _resumed(run: Path, said: int) -> dict[str, Any]:
    row = {"changes": 0, "noticed_s": None, "recovery_s": None, "left": 0, "namespaces_left": 0}
    try:
        found = checkpoint.last(run / "checkpoints").checkpoint.progress.iteration
        session = resume(run)
        ended = "done" if session.finished else Supervisor(session).run().ended
    except PalmetteError as error:
        return row | {"ended": str(error), "lost_iterations": said, "weights_off": float("inf")}
    return row | {"ended": ended, "lost_iterations": max(0, said - found), "weights_off": weights_off(run)}
