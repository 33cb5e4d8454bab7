"""A client: one epoch over its own samples, which are in a file that its node names."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from fedavg.network import lenet5

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for an epoch."""
    torch.set_num_threads(1)
    samples = torch.load(str(context.node_config["samples"]), weights_only=True)
    network = lenet5()
    network.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(network.parameters(), lr=float(context.run_config["lr"]))
    inputs, labels = samples["inputs"], samples["labels"]
    for part in torch.randperm(len(labels)).split(int(context.run_config["batch"])):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(inputs[part]), labels[part])
        loss.backward()
        optimizer.step()
    metrics = MetricRecord({"loss": float(loss), "num-examples": len(labels)})
    return Message(
        RecordDict({"arrays": ArrayRecord(network.state_dict()), "metrics": metrics}),
        reply_to=message,
    )
