"""Palmette: ``palmette run --engine hub`` with a plan of ``federated``, and ``palmette worker`` at each client.

A worker on the hub's own machine averages. A round is done when its weights have been evaluated; Flower's are not.
"""

from __future__ import annotations

import json
import socket
import sys
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path

from benchmarks.flower.clients import BATCH, CLIENTS, DOWN_MBIT, LR, SAMPLES, UP_MBIT, Homes, Processes
from benchmarks.overhead.cases import profile_of
from palmette.cli import execute
from palmette.runtime.transports.keys.folder import Keys
from palmette.zoo.models import load_network

SERVER = "server"
EPOCHS = 100_000
_PALMETTE = (sys.executable, "-m", "palmette")


class PalmetteSide:
    """One turn, with all its files in a folder."""

    def __init__(self, folder: Path, homes: Homes) -> None:
        self._folder, self._homes, self._port = folder, homes, _free_port()
        self._processes = Processes(folder)
        self._keys = Keys(folder / "keys")
        self._epoch = -1

    def start(self) -> None:
        """Start the hub's run, and all workers."""
        self._keys.init()
        for name in ("hub", SERVER, *CLIENTS):
            self._keys.issue(name)
        words = ["run", str(self._plan()), "--engine", "hub", "--listen", f"0.0.0.0:{self._port}", "--allow-data-loss"]
        words += ["--keys", str(self._keys.folder), "--epochs", str(EPOCHS), "--lr", str(LR), "--optimizer", "sgd"]
        self._processes.start("run", [*_PALMETTE, *words, "--quiet", "-o", str(self._folder / "out")], {})
        self._processes.start(SERVER, self._worker(SERVER, "127.0.0.1"), {})
        for name in CLIENTS:
            self.start_client(name)

    def start_client(self, name: str) -> None:
        """Start a client's worker."""
        home = self._homes.of[name]
        self._processes.start(name, self._worker(name, home.hub), {}, home.machine)

    def kill_client(self, name: str) -> None:
        """Kill a client's worker."""
        self._processes.kill(name)

    def new_rounds(self) -> list[int]:
        """The epochs that have been evaluated; one that is done again after a loss, when that is."""
        file = self._folder / "out" / "metrics.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        found = []
        for before, line in pairwise(lines):
            if "accuracy" in line and (epoch := json.loads(line)["epoch"]) > self._epoch:
                self._epoch = epoch
                found.append(json.loads(before)["samples"] // BATCH)
        return found

    def end(self) -> None:
        """End the run, and all workers."""
        self._processes.end()

    def _worker(self, name: str, hub: str) -> list[str]:
        return [*_PALMETTE, "worker", f"{hub}:{self._port}", "--keys", str(self._keys.folder), "--node", name]

    def _plan(self) -> Path:
        cluster, profile, plan = (self._folder / name for name in ("cluster.yaml", "profile.json", "plan.json"))
        own = f"tier: device, threads: 1, source: {{samples: {SAMPLES}, private: true}}"
        nodes = [f"  {name}: {{{own}}}" for name in CLIENTS]
        rates = f"up: {UP_MBIT} Mbit/s, down: {DOWN_MBIT} Mbit/s"
        links = [f"  - {{between: [{name}, {SERVER}], {rates}}}" for name in CLIENTS]
        server = f"  {SERVER}: {{tier: cloud, threads: 1}}"
        cluster.write_text("\n".join(["nodes:", *nodes, server, "links:", *links, ""]))
        profile.write_text(profile_of(load_network("lenet5", seed=0), (SERVER, *CLIENTS)).to_json())
        words = ["--cluster", str(cluster), "--profile", str(profile), "--batch", str(BATCH), "--quiet"]
        with redirect_stdout(sys.stderr):  # where only the figures go
            code = execute(["plan", "federated", *words, "-o", str(plan)])
        if code != 0:
            raise RuntimeError("palmette plan federated failed")
        return plan


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
