"""Flower: its SuperLink here, a SuperNode at each client, and the app of this folder, in an environment of their own.

Over TLS with a certificate for the server; which clients may join is not checked. Nothing is installed while it
runs, and nothing is reported to Flower's makers.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from pathlib import Path

import torch

from benchmarks.flower.clients import BATCH, CLIENTS, LR, SAMPLES, Homes, Processes
from palmette.runtime.transports.keys.folder import Keys
from palmette.zoo.capture import state
from palmette.zoo.data import load_data
from palmette.zoo.models import load_network

ROUNDS = 100_000
SUPERLINK = "superlink"
_APP = Path(__file__).parent / "app"
# The weights of the app's network, in the order of the zoo's.
_NAMES = [f"{layer}.{what}" for layer in (0, 3, 7, 9, 11) for what in ("weight", "bias")]
_PATIENCE_S = 60.0


def why_no_flower(environment: Path | None) -> str | None:
    """Why Flower cannot be run from an environment; None where it can."""
    if environment is None:
        return "Flower is not installed here: make an environment with flwr 1.42 and torch, and name it by --flower"
    program = environment / "bin" / "flower-superlink"
    return None if program.exists() else f"{environment} has no Flower: there is no {program}"


class FlowerSide:
    """One turn, with all its files in a folder."""

    def __init__(self, folder: Path, homes: Homes, environment: Path) -> None:
        self._folder, self._homes, self._programs, self._port = folder, homes, environment / "bin", _free_port()
        self._processes, self._done = Processes(folder), 0
        path = f"{self._programs}:/usr/sbin:/usr/bin:/sbin:/bin"
        self._environment = {
            "FLWR_HOME": str(folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "PATH": path,
            "PYTHONPATH": "",
            "OMP_NUM_THREADS": "1",
        }
        self._keys = Keys(folder / "keys")

    def start(self) -> None:
        """Start the SuperLink and all SuperNodes, and submit the app."""
        self._write_files()
        certificate, key = (str(self._keys.file(SUPERLINK, kind)) for kind in ("crt", "key"))
        own = ["--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certfile", str(self._authority)]
        own += ["--host", "0.0.0.0", "--port", str(self._port)]
        words = [str(self._programs / "flower-superlink"), *own, "--disable-runtime-dependency-installation"]
        self._processes.start(SUPERLINK, words, self._environment)
        self._wait_until_it_listens()
        for name in CLIENTS:
            self.start_client(name)
        chosen = f'rounds={ROUNDS} clients={len(CLIENTS)} lr={LR} batch={BATCH} start="{self._folder / "start.pt"}"'
        chosen += f' log="{self._folder / "rounds.jsonl"}"'
        words = [str(self._programs / "flwr"), "run", str(self._folder / "app"), "here", "-c", chosen]
        self._processes.start("flwr", words, self._environment)

    def start_client(self, name: str) -> None:
        """Start a client's SuperNode."""
        home = self._homes.of[name]
        samples = f'samples="{self._folder / name}.pt"'
        words = ["--superlink", f"{home.hub}:{self._port}", "--root-certificates", str(self._authority)]
        node = [str(self._programs / "flower-supernode"), *words, "--node-config", samples]
        self._processes.start(name, node, self._environment, home.machine)

    def kill_client(self, name: str) -> None:
        """Kill a client's SuperNode and its children."""
        self._processes.kill(name)

    def new_rounds(self) -> list[int]:
        """The rounds whose weights have been averaged."""
        file = self._folder / "rounds.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        found, self._done = lines[self._done :], len(lines)
        return [json.loads(line)["clients"] for line in found]

    def end(self) -> None:
        """End everything."""
        self._processes.end()

    @property
    def _authority(self) -> Path:
        return self._keys.folder / "authority.crt"

    def _write_files(self) -> None:
        """Keys, the weights to start from, the samples of each client, a copy of the app, and where the server is."""
        self._keys.init()
        self._keys.issue(SUPERLINK, addresses=["127.0.0.1", *(each.hub for each in self._homes.of.values())])
        network = load_network("lenet5", seed=0)
        weights = zip(_NAMES, state(network.layers).values(), strict=True)
        torch.save(dict(weights), self._folder / "start.pt")
        part = load_data("digits", network.input_shape).train
        for number, name in enumerate(CLIENTS):
            inputs, labels = part.batch(list(range(number * SAMPLES, (number + 1) * SAMPLES)))
            torch.save({"inputs": inputs, "labels": labels}, self._folder / f"{name}.pt")
        shutil.copytree(_APP, self._folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
        (self._folder / "home").mkdir()
        where = f'address = "127.0.0.1:{self._port}"\nroot-certificates = "{self._authority}"\n'
        (self._folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\n{where}'
        )

    def _wait_until_it_listens(self) -> None:
        until_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                if time.monotonic() > until_s:
                    raise TimeoutError(f"Flower's SuperLink does not listen within {_PATIENCE_S:.0f} s") from None
                time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
