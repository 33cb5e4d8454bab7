"""How long a program's calls take on this machine when nothing is padded, on made-up data and copied weights."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from palmette.cost.steps import Kind
from palmette.runtime.compute import Compute
from palmette.runtime.packing import weights_of
from palmette.runtime.program import Operation, Program, samples_by_instance
from palmette.runtime.server import ParameterServer

if TYPE_CHECKING:
    from palmette.runtime.worker import Setup

TIMES = 3


def rehearsed(program: Program, setup: Setup) -> dict[int, float]:
    """Seconds of each forward, backward and update, the best of a few: by the operation's number."""
    calls = [operation for operation in program.operations if operation.op in ("forward", "backward", "update")]
    seconds: dict[int, float] = {}
    if not calls:
        return seconds
    layers = {number: copy.deepcopy(module) for number, module in setup.layers.items()}
    compute = Compute(program.phase, setup.node, layers, setup.options, setup.device)
    for _ in range(TIMES):
        for segments in _whole_calls(calls):
            serves = program.phase.sync == "async" and segments[0].op == "update"
            timed = _timed_server(layers, setup) if serves else _timed(compute, program, segments[0], setup)
            for call in segments:
                each = timed / len(segments)
                seconds[call.number] = min(each, seconds.get(call.number, each))
    return seconds


def _whole_calls(calls: Sequence[Operation]) -> list[list[Operation]]:
    """Calls, each as the segments that it is cut into."""
    found: dict[tuple[Kind, int], list[Operation]] = {}
    for call in calls:
        found.setdefault((call.what, call.instance), []).append(call)
    return list(found.values())


def _timed_server(layers: dict[int, nn.Module], setup: Setup) -> float:
    """Seconds of a parameter server's update of the whole network."""
    server = ParameterServer(setup.node, layers, setup.options, setup.device)
    gradients = {n: [torch.zeros_like(weight) for weight in weights_of(m)] for n, m in server.compute.layers.items()}
    began = time.monotonic()
    server.update(gradients, {})
    return time.monotonic() - began


def _timed(compute: Compute, program: Program, call: Operation, setup: Setup) -> float:
    k, kind = call.instance, call.what
    instance = program.phase.instances[k]
    many = samples_by_instance(program.phase)[k]
    if kind is Kind.FORWARD:
        shape = (many, *setup.shapes[instance.layers[0] - 1])
        integers = instance.layers[0] == 1 and not setup.input_dtype.is_floating_point
        inputs = torch.zeros(shape, dtype=setup.input_dtype) if integers else torch.randn(shape, dtype=compute.dtype)
        labels = torch.zeros(many, dtype=torch.int64)
        began = time.monotonic()
        compute.forward(k, [inputs], [labels], 0)
    elif kind is Kind.BACKWARD:
        shape = (many, *setup.shapes[instance.layers[1]])
        gradient = None if instance.into is None else torch.randn(shape, dtype=compute.dtype)
        began = time.monotonic()
        compute.backward(k, gradient)
    else:
        began = time.monotonic()
        compute.update(k)
    return time.monotonic() - began
