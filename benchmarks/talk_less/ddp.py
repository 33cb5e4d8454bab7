"""PyTorch's DDP with and without its PowerSGD hook: really trained over gloo; its seconds are simulated.

The links of the testbed are not gloo's own, so its time is not measured here. It is told at its best: all of the
exchange hidden behind computing, or all computing behind the exchange, whichever takes longer; a ring of two, so that
each rank sends and gets every message once.
"""

from __future__ import annotations

import multiprocessing
import socket
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from benchmarks.talk_less.methods import DEVICES, EVALUATED_EVERY, SAMPLES
from benchmarks.talk_less.tasks import Task, warmup
from palmette.runtime.data.batches import Batches
from palmette.runtime.schedule import rate_factor

RANK = 2
BEGIN = 10
"""Iterations before PowerSGD begins, as PyTorch advises a warm start."""
_MIN_SAVING = 2
"""A matrix is approximated if that takes less than its part of the bytes; PyTorch's default."""


def trained(task: Task, iterations: int, seed: int, *, power_sgd: bool) -> dict[str, Any]:
    """The losses, and the bytes that both ranks send in an iteration."""
    context = multiprocessing.get_context("fork")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ends, begins = context.Pipe(duplex=False)
    ways = [_Way(rank, port, iterations, seed, power_sgd) for rank in range(len(DEVICES))]
    workers = [context.Process(target=_rank, args=(task, way, begins)) for way in ways]
    for worker in workers:
        worker.start()
    begins.close()
    evaluations = ends.recv()
    for worker in workers:
        worker.join()
    plain, coded = exchanged_bytes(task.make())
    whole = plain * iterations if not power_sgd else plain * min(BEGIN, iterations) + coded * max(0, iterations - BEGIN)
    return {"evaluations": evaluations, "bytes_an_iteration": len(DEVICES) * whole / iterations}


def exchanged_bytes(model: nn.Module) -> tuple[int, int]:
    """The bytes of all gradients, and as PowerSGD sends them."""
    plain = coded = 0
    for weight in model.parameters():
        rows = weight.shape[0]
        columns = weight.numel() // rows
        plain += 4 * weight.numel()
        thin = RANK * (rows + columns)
        coded += 4 * (thin if weight.dim() > 1 and _MIN_SAVING * thin < weight.numel() else weight.numel())
    return plain, coded


def hooked(model: DistributedDataParallel, *, power_sgd: bool) -> DistributedDataParallel:
    """The model, with the PowerSGD hook where it is asked for."""
    if power_sgd:
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=RANK, start_powerSGD_iter=BEGIN, min_compression_rate=_MIN_SAVING
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return model


def simulated_s(found: dict[str, Any], computing_s: float, bandwidth_mbit: float) -> float:
    """Seconds of an iteration at its best."""
    return max(computing_s, found["bytes_an_iteration"] / len(DEVICES) * 8 / (bandwidth_mbit * 1e6))


class _Way(NamedTuple):
    """Which of the ranks a process is, where they meet, and how they train."""

    rank: int
    port: int
    iterations: int
    seed: int
    power_sgd: bool


def _rank(task: Task, way: _Way, begins: Any) -> None:
    rank, port, iterations, seed, power_sgd = way
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=len(DEVICES))
    torch.manual_seed(seed)
    model = hooked(DistributedDataParallel(task.make()), power_sgd=power_sgd)
    optimizer = torch.optim.SGD(model.parameters(), lr=task.lr, momentum=task.momentum)
    inputs, labels = task.train.tensors
    batches, evaluations = Batches(len(inputs), SAMPLES * len(DEVICES), seed), []
    for number in range(iterations):
        own = torch.from_numpy(np.asarray(batches.indices(number))[rank * SAMPLES : (rank + 1) * SAMPLES])
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] = task.lr * rate_factor("cosine", number, iterations, warmup(iterations))
        nn.functional.cross_entropy(model(inputs[own]), labels[own]).backward()
        optimizer.step()
        if rank == 0 and (number + 1) % EVALUATED_EVERY == 0:
            evaluations.append((number + 1, round(_held_out(model.module, task), 4)))
    dist.barrier()
    if rank == 0:
        begins.send(evaluations)
    dist.destroy_process_group()


def _held_out(model: nn.Module, task: Task) -> float:
    inputs, labels = task.held_out.tensors
    with torch.no_grad():
        return float(nn.functional.cross_entropy(model(inputs), labels))
