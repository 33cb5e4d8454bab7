"""A client: the steps of a round on its own samples, padded to what they take on its device; or nothing at all.

Its node names a file ``NAME.pt``; the batches and learning rates of round k are beside it, in ``NAME-k.pt``.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor, nn

from fedavg.networks import small_gpt, small_vgg

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for a round; an empty one is answered at once."""
    began_s, number = time.monotonic(), int(message.content["config"]["number"])
    arrays = message.content["arrays"]
    computed_s = 0.0
    if number >= 0:
        arrays = ArrayRecord(_trained(arrays.to_torch_state_dict(), number, context))
        computed_s = time.monotonic() - began_s
        time.sleep(max(0.0, float(context.run_config["round_s"]) - computed_s))
    metrics = MetricRecord({"computed_s": computed_s, "num-examples": 1})  # all clients have as many
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def _trained(weights: dict[str, Tensor], number: int, context: Context) -> dict[str, Tensor]:
    torch.set_num_threads(1)
    own, symbols = Path(str(context.node_config["samples"])), int(context.run_config["symbols"])
    told = torch.load(own.with_name(f"{own.stem}-{number}.pt"), weights_only=True)
    network = small_gpt(symbols) if symbols else small_vgg()
    network.load_state_dict(weights)
    optimizer = torch.optim.SGD(network.parameters(), momentum=float(context.run_config["momentum"]))
    for inputs, labels, rate in zip(told["inputs"], told["labels"], told["rates"], strict=True):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), labels).backward()
        optimizer.step()
    return network.state_dict()
