"""Federated averaging, one round at a time: ``go-K`` says which, a line in ``rounds.jsonl`` when it is done.

A round of weights begins with those of the last one and leaves its own in ``round-K.pt``. In an empty round a number
travels to all clients and back, and nobody computes: what Flower itself takes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()
_LOOK_EVERY_S = 0.05


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Wait for all clients, then do what is told until it is to end."""
    folder, clients = Path(str(context.run_config["folder"])), int(context.run_config["clients"])
    while len(list(grid.get_node_ids())) < clients:
        time.sleep(_LOOK_EVERY_S)
    strategy = FedAvg(
        fraction_train=1.0,
        fraction_evaluate=0.0,
        min_train_nodes=clients,
        min_available_nodes=clients,
        train_metrics_aggr_fn=_slowest,
    )
    weights, turn = ArrayRecord(torch.load(folder / "start.pt", weights_only=True)), 0
    while (number := _told(folder / f"go-{turn}")) is not None:
        sent, began_s = weights if number >= 0 else ArrayRecord({"none": torch.zeros(1)}), time.time()
        config = ConfigRecord({"number": number})
        result = strategy.start(grid=grid, initial_arrays=sent, num_rounds=1, train_config=config)
        round_s = time.time() - began_s
        if number >= 0:
            weights = result.arrays
            torch.save(weights.to_torch_state_dict(), folder / f"round-{number}.pt")
        computed_s = float(result.train_metrics_clientapp[1]["computed_s"])
        with (folder / "rounds.jsonl").open("a") as file:
            file.write(json.dumps({"round": number, "round_s": round_s, "computed_s": computed_s}) + "\n")
        turn += 1


def _slowest(replies: list[RecordDict], _: str) -> MetricRecord:
    """The longest that a client has computed."""
    return MetricRecord({"computed_s": max(float(each["metrics"]["computed_s"]) for each in replies)})


def _told(file: Path) -> int | None:
    """The number of a round, below 0 for an empty one; None to end."""
    while not file.exists():
        time.sleep(_LOOK_EVERY_S)
    told = file.read_text()
    return int(told) if told else None
