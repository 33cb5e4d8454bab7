"""Runs of a small network to which something happens, and what came of them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from benchmarks.overhead.cases import profile_of
from benchmarks.soak.faults import CLUSTER, Fault, Scene
from benchmarks.soak.hub_place import HubPlace
from palmette.api import load_cluster
from palmette.control.adapt.supervise import Supervisor
from palmette.control.run.record import PlanChange
from palmette.control.run.request import Request
from palmette.control.run.session import TrainingSession, prepare, resume
from palmette.errors import NodeLost, RunError
from palmette.runtime.data.batches import Batches
from palmette.runtime.engines.hub.crew import HubCrew
from palmette.runtime.engines.local import ProcessCrew
from palmette.runtime.options import Options
from palmette.runtime.training.job import ProgressUpdate
from palmette.spec.files import validated
from palmette.spec.plan import Plan
from palmette.zoo.capture import LayerChain, state
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
    """One run, by a plan that ``hybrid`` is said to have made; ``how`` is of its request, ``hub`` has its workers."""

    def __init__(self, folder: Path, tree: str, how: Mapping[str, Any], hub: HubPlace | None = None) -> None:
        self._folder, self._out, self._cluster, self._hub = folder, folder / "out", folder / "cluster.yaml", hub
        self._cluster.write_text(CLUSTER)
        feeds, instances = TREES[tree]
        phase = {
            "sources": [{"node": "phone", "samples": many, "into": into} for into, many in feeds.items()],
            "instances": [{"id": i, "layers": run, "node": n, "into": into} for i, run, n, into in instances],
        }
        asked = {"goal": "time", "options": {"lossy": False}}
        fields = {"strategy": "hybrid", "asked": asked, "model": MODEL, "batch": BATCH, "phases": [phase]}
        self._plan = validated(Plan, fields)
        self._request = Request(iterations=ITERATIONS, options=OPTIONS, cluster_file=str(self._cluster), **how)
        self._crews: list[Any] = []
        self._fault_s: float | None = None
        self._noticed_s: float | None = None
        self._recovered_s: float | None = None
        self._done = 0
        self._lost = 0

    def run(self, fault: Fault, at: int) -> dict[str, Any]:
        """Run with a fault after ``at`` iterations; says what came of it."""
        profile = profile_of(load_network(MODEL, seed=0), NODES)
        running = prepare(self._plan, profile, load_cluster(self._cluster), self._request, self._out)
        waiting = threading.Thread(target=self._wait, args=(fault, at), daemon=True)
        waiting.start()
        with self._noted():
            ended, changes = self._supervised(running)
            if "No space left" in ended:  # whoever looks after the disk makes room, and the run goes on
                waiting.join()
                (self._folder / "filler").unlink()
                ended, changes = self._supervised(resume(self._out))
        waiting.join()
        noticed_s, recovery_s = (
            moment_s - self._fault_s if moment_s and self._fault_s else None
            for moment_s in (self._noticed_s, self._recovered_s)
        )
        return {
            "ended": ended,
            "changes": changes,
            "lost_iterations": max(0, self._lost),
            "noticed_s": noticed_s,
            "recovery_s": recovery_s if changes else None,
            "weights_off": self._weights_off(ended),
            "left": 0 if self._hub else sum(_alive(pid) for crew in self._crews for pid in crew.pids.values()),
            "namespaces_left": len(_namespaces()),
        }

    def _supervised(self, running: TrainingSession) -> tuple[str, int]:
        """How a run ends, and how often its plan changes."""
        supervisor = Supervisor(running, [self])
        try:
            ended = supervisor.run().ended
        except RunError as error:
            ended = str(error)
        return ended, len(supervisor.session.changes)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Keep all crews that are hired meanwhile, and when one first misses somebody."""
        kind: Any = HubCrew if self._hub else ProcessCrew
        hired, heard = kind.__init__, kind.receive

        def noted(crew: Any, *arguments: Any) -> None:
            self._crews.append(crew)
            hired(crew, *arguments)

        def missed(crew: Any, *arguments: Any) -> Any:
            try:
                return heard(crew, *arguments)
            except NodeLost:
                self._noticed_s = self._noticed_s or time.monotonic()
                raise

        kind.__init__, kind.receive = noted, missed
        try:
            yield
        finally:
            kind.__init__, kind.receive = hired, heard

    def _wait(self, fault: Fault, at: int) -> None:
        while self._done < at:
            time.sleep(0.005)
        self._fault_s = time.monotonic()
        spaces, hub = dict(zip(NODES, _namespaces(), strict=False)), self._hub
        try:
            if hub is None:
                fault(Scene(self._crews[0].pids, self._cluster, spaces, self._folder))
            else:
                fault(Scene(hub.pids, self._cluster, {}, self._folder, hub.networks, hub.keys))
        except ProcessLookupError:
            return  # the run was over

    def on_replan(self, change: PlanChange) -> None:
        self._lost = self._done - change.iteration

    def on_step(self, update: ProgressUpdate) -> None:
        if self._fault_s is not None and len(self._crews) > 1 and self._recovered_s is None:
            self._recovered_s = time.monotonic()
        self._done = update.iteration

    def _weights_off(self, ended: str) -> float:
        return weights_off(self._out) if ended == "done" else float("inf")


def weights_off(folder: Path) -> float:
    """How far the weights that a run has written are from those of one process."""
    found = load_file(folder / "model.safetensors")
    return max(float((found[name] - value).abs().max()) for name, value in _alone().items())


def _namespaces() -> list[str]:
    """The namespaces of this process, oldest first."""
    found = Path("/var/run/netns").glob(f"palmette-{os.getpid()}-*")
    return [path.name for path in sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))]


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
        whole = LayerChain(layer.module.to(torch.float64) for layer in network.layers).train()
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
