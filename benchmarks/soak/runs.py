"""Runs of a small network to which something happens, and what came of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from benchmarks.overhead.cases import profile_of
from benchmarks.soak.faults import CLUSTER, Fault
from palmette.api import load_cluster
from palmette.control.run import Request, start
from palmette.control.supervise import Supervisor
from palmette.errors import RunError
from palmette.runtime.batches import Batches
from palmette.runtime.engine import ProcessCrew
from palmette.runtime.options import Options
from palmette.spec.files import validated
from palmette.spec.plan import Plan
from palmette.zoo.capture import state
from palmette.zoo.data import load_data
from palmette.zoo.models import load_network

MODEL, BATCH, ITERATIONS = "lenet5", 12, 120
OPTIONS = Options(optimizer="adam", lr=0.001, seed=3, dtype="float64")
NODES = ("phone", "server", "cloud")

Instances = list[tuple[str, tuple[int, int], str, str | None]]
TREES: dict[str, tuple[dict[str, int], Instances]] = {
    "replicas": (dict.fromkeys(NODES, 4), [(n, (1, 7), n, None) for n in NODES]),
    "chain": ({"a": 12}, [("a", (1, 2), "phone", "b"), ("b", (3, 4), "server", "c"), ("c", (5, 7), "cloud", None)]),
    "hierarchy": (
        {"s": 5, "l": 4, "o": 3},
        [
            ("s", (1, 2), "phone", "p"),
            ("l", (1, 4), "server", "q"),
            ("o", (1, 2), "cloud", "p"),
            ("p", (3, 4), "cloud", "q"),
            ("q", (5, 7), "cloud", None),
        ],
    ),
}


class Soaked:
    """One run, by a plan that ``hybrid`` is said to have made."""

    def __init__(self, folder: Path, tree: str) -> None:
        self._out, self._cluster = folder / "out", folder / "cluster.yaml"
        self._cluster.write_text(CLUSTER)
        feeds, instances = TREES[tree]
        phase = {
            "sources": [{"node": "phone", "samples": many, "into": into} for into, many in feeds.items()],
            "instances": [{"id": i, "layers": run, "node": n, "into": into} for i, run, n, into in instances],
        }
        asked = {"goal": "time", "options": {"lossless": True}}
        fields = {"strategy": "hybrid", "asked": asked, "model": MODEL, "batch": BATCH, "phases": [phase]}
        self._plan = validated(Plan, fields)
        self._crews: list[ProcessCrew] = []
        self._fault_s: float | None = None
        self._recovered_s: float | None = None
        self._done = 0
        self._lost = 0

    def run(self, fault: Fault, at: int) -> dict[str, Any]:
        """Run with a fault after ``at`` iterations; says what came of it."""
        request = Request(
            iterations=ITERATIONS, testbed="none", options=OPTIONS, cluster_file=str(self._cluster), transport="gloo"
        )
        profile = profile_of(load_network(MODEL, seed=0), NODES)
        running = start(self._plan, profile, load_cluster(self._cluster), request, self._out)
        supervisor = Supervisor(running, lambda change: setattr(self, "_lost", self._done - change.iteration))
        waiting = threading.Thread(target=self._wait, args=(fault, at), daemon=True)
        waiting.start()
        usual = ProcessCrew.__init__
        crews = self._crews

        def noted(crew: ProcessCrew, *arguments: Any) -> None:
            crews.append(crew)
            usual(crew, *arguments)

        ProcessCrew.__init__ = noted  # type: ignore[method-assign]
        try:
            ended = supervisor.run(self._watch, lambda _: None).ended
        except RunError as error:
            ended = str(error)
        finally:
            ProcessCrew.__init__ = usual  # type: ignore[method-assign]
        recovery_s = self._recovered_s - self._fault_s if self._recovered_s and self._fault_s else None
        return {
            "ended": ended,
            "changes": len(supervisor.running.changes),
            "lost_iterations": max(0, self._lost),
            "recovery_s": recovery_s if supervisor.running.changes else None,
            "weights_off": self._weights_off(ended),
            "left": sum(_alive(pid) for crew in crews for pid in crew.pids.values()),
        }

    def _wait(self, fault: Fault, at: int) -> None:
        while self._done < at:
            time.sleep(0.005)
        self._fault_s = time.monotonic()
        try:
            fault(self._crews[0].pids, self._cluster)
        except ProcessLookupError:
            return  # the run was over

    def _watch(self, update: Any) -> None:
        if update.judgement is None:
            if self._fault_s is not None and len(self._crews) > 1 and self._recovered_s is None:
                self._recovered_s = time.monotonic()
            self._done = update.iteration

    def _weights_off(self, ended: str) -> float:
        if ended != "done":
            return float("inf")
        found = load_file(self._out / "model.safetensors")
        return max(float((found[name] - value).abs().max()) for name, value in _alone().items())


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


_KNOWN: dict[str, Tensor] = {}


def _alone() -> Mapping[str, Tensor]:
    """The weights of one process on the same batches."""
    if not _KNOWN:
        network = load_network(MODEL, seed=OPTIONS.seed)
        whole = nn.Sequential(*(layer.module.to(torch.float64) for layer in network.layers)).train()
        optimizer = torch.optim.Adam(whole.parameters(), lr=OPTIONS.lr)
        part = load_data("digits", network.input_shape).train
        batches = Batches(len(part), BATCH, OPTIONS.seed)
        for number in range(ITERATIONS):
            inputs, labels = part.batch(batches.indices(number))
            optimizer.zero_grad()
            nn.functional.cross_entropy(whole(inputs.to(torch.float64)), labels).backward()
            optimizer.step()
        _KNOWN.update({name: value.detach().clone() for name, value in state(network.layers).items()})
    return _KNOWN
