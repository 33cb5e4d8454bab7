"""Flower: LeNet-5 by the app of this folder, on its deployment engine."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from benchmarks.flower.clients import BATCH, CLIENTS, LR, SAMPLES, Homes
from benchmarks.flower.deployment import Deployment
from palmette.zoo.capture import state
from palmette.zoo.data import load_data
from palmette.zoo.models import load_network

ROUNDS = 100_000
_APP = Path(__file__).parent / "app"
# The weights of the app's network, in the order of the zoo's.
_NAMES = [f"{layer}.{what}" for layer in (0, 3, 7, 9, 11) for what in ("weight", "bias")]


class FlowerSide:
    """One turn, with all its files in a folder."""

    def __init__(self, folder: Path, homes: Homes, environment: Path) -> None:
        self._folder, self._done = folder, 0
        self._deployment = Deployment(folder, homes.of, environment, _APP)

    def start(self) -> None:
        """Write what to start from, start the SuperLink and all SuperNodes, and submit the app."""
        self._write_files()
        chosen = f'rounds={ROUNDS} clients={len(CLIENTS)} lr={LR} batch={BATCH} start="{self._folder / "start.pt"}"'
        self._deployment.start(f'{chosen} log="{self._folder / "rounds.jsonl"}"')

    def start_client(self, name: str) -> None:
        """Start a client's SuperNode."""
        self._deployment.start_client(name)

    def kill_client(self, name: str) -> None:
        """Kill a client's SuperNode and its children."""
        self._deployment.kill_client(name)

    def new_rounds(self) -> list[int]:
        """The rounds whose weights have been averaged."""
        file = self._folder / "rounds.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        found, self._done = lines[self._done :], len(lines)
        return [json.loads(line)["clients"] for line in found]

    def end(self) -> None:
        """End everything."""
        self._deployment.end()

    def _write_files(self) -> None:
        """The weights to start from, and the samples of each client."""
        network = load_network("lenet5", seed=0)
        weights = zip(_NAMES, state(network.layers).values(), strict=True)
        torch.save(dict(weights), self._folder / "start.pt")
        part = load_data("digits", network.input_shape).train
        for number, name in enumerate(CLIENTS):
            inputs, labels = part.batch(list(range(number * SAMPLES, (number + 1) * SAMPLES)))
            torch.save({"inputs": inputs, "labels": labels}, self._folder / f"{name}.pt")
