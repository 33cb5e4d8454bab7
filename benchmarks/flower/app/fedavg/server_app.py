"""Federated averaging of the clients that are there, with a line in a file for each round that is done."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class Told(FedAvg):
    """Federated averaging that says when a round was done, and how many clients took part."""

    def __init__(self, log: Path, clients: int) -> None:
        super().__init__(
            fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=clients - 1, min_available_nodes=clients - 1
        )
        self._log = log

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average, and say so."""
        came = list(replies)
        result = super().aggregate_train(server_round, came)
        line = {"round": server_round, "at_s": time.time(), "clients": sum(not each.has_error() for each in came)}
        with self._log.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return result


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Wait for all clients, then train."""
    chosen = context.run_config
    while len(list(grid.get_node_ids())) < int(chosen["clients"]):
        time.sleep(0.2)
    start = torch.load(str(chosen["start"]), weights_only=True)
    strategy = Told(Path(str(chosen["log"])), int(chosen["clients"]))
    strategy.start(grid=grid, initial_arrays=ArrayRecord(start), num_rounds=int(chosen["rounds"]))
