"""What people write today: a training loop in plain PyTorch, in a process of its own."""

from __future__ import annotations

from multiprocessing.connection import Connection
from time import perf_counter, process_time
from typing import Any

import torch
from torch import nn

from benchmarks.overhead.cases import OPTIONS, Case
from palmette.runtime.data.batches import Batches
from palmette.runtime.worker.tuning import keep_freed_memory
from palmette.zoo.capture import LayerChain
from palmette.zoo.data import load_data
from palmette.zoo.models import load_network


def serve(case: Case, pipe: Connection[Any, Any], rollback: bool) -> None:
    """Run as many iterations as asked for and answer with the seconds they took, of the wall and of CPU; 0 ends.

    A loop that ``keeps`` the memory it frees, as workers do, is not left to the luck it has with the C library.
    """
    torch.set_num_threads(1)
    if rollback:
        keep_freed_memory()
    network = load_network(case.model, seed=0)
    model = LayerChain(layer.module for layer in network.layers).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=OPTIONS.lr)
    part = load_data("digits", network.input_shape).train
    batches, done = Batches(len(part), case.batch, OPTIONS.seed), 0
    while many := pipe.recv():
        began, used_s = perf_counter(), process_time()
        for number in range(done, done + many):
            inputs, labels = part.batch(batches.indices(number))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            loss.item()
        done += many
        pipe.send((perf_counter() - began, process_time() - used_s))
