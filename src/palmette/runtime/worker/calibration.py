"""Times a program's calls on this machine without padding, on synthetic data and copied weights.

A profile assumes that all weights are trained that the module has not frozen itself, in single precision, with plain
SGD. Where a run differs (weights frozen by an option, another optimizer, another dtype), the calls are also timed as
the profile assumes them, alternating with those of the run: the ratio of the two is the fraction of the profiled work
that a call does. A ratio within noise counts as 1. All times are CPU time, the minimum of a few; what a busy machine
adds is detected during the run (``sync/dilation``).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import nn

from palmette.cost.steps import GRADIENT_CALLS, Kind
from palmette.runtime.options import Options, Precision
from palmette.runtime.program import Program, ProgramOperation, samples_by_instance
from palmette.runtime.worker.commands import Calibration
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.messages import weights_of
from palmette.runtime.worker.parameter_server import ParameterServer
from palmette.runtime.worker.setup import Setup
from palmette.runtime.worker.state import compute_for, message_format

TIMES = 3
TIMES_IN_TURNS = 5
# Long calls are repeated fewer times.
ENOUGH_S = 10.0
CHANCE = 0.1

Timer = Callable[[], float]


def calibrate(program: Program, setup: Setup) -> Calibration:
    """Seconds of each forward, backward and update, and the fraction of the profiled work that it does."""
    calls = [operation for operation in program.operations if operation.op in ("forward", "backward", "update")]
    if not calls:
        return Calibration({})
    real = _Calls(program, setup, {n: copy.deepcopy(module) for n, module in setup.layers.items()}, setup.options)
    timer = time.thread_time if setup.device == "cpu" else time.monotonic
    seconds = _least([real], calls, TIMES, timer)[0]
    if as_profiled(setup.options, setup.profiled_precision):
        return Calibration(seconds)
    try:
        both = _least([real, _profiled(program, setup)], calls, TIMES_IN_TURNS, timer)
    except RuntimeError:
        # The run's own calls were timed above; layers that were cut in its dtype may not compute in single precision.
        return Calibration(seconds)
    computes = computes_as_profiled(setup.options, setup.profiled_precision)
    changed = {call.number for call in calls if call.op == "update" or not computes}
    return Calibration(seconds, {k: part for k, part in work_ratios(*both).items() if k in changed})


def as_profiled(options: Options, precision: Precision | None = None) -> bool:
    """Whether calls do what a profile assumes: train in its precision, with plain SGD; it knows what is frozen."""
    plain = options.optimizer == "sgd" and options.has_plain_optimizer and options.accumulate == 1
    return plain and options.clip_norm is None and computes_as_profiled(options, precision)


def computes_as_profiled(options: Options, precision: Precision | None) -> bool:
    """Whether forward and backward calls do what a profile assumes; an optimizer changes updates alone."""
    return options.dtype == "float32" and options.autocast == precision


def work_ratios(done_s: Mapping[int, float], assumed_s: Mapping[int, float]) -> dict[int, float]:
    """The fraction of the assumed work that each call does, by number; those within noise of 1 are left out.

    A call that takes no time does no work.
    """
    parts = {number: done_s[number] / max(assumed, 1e-9) for number, assumed in assumed_s.items()}
    return {number: part for number, part in parts.items() if abs(part - 1) > CHANCE}


def _least(ways: list[_Calls], calls: list[ProgramOperation], times: int, timer: Timer) -> list[dict[int, float]]:
    """Seconds of each call in each variant: the minimum of a few rounds in which the variants alternate."""
    found: list[dict[int, float]] = [{} for _ in ways]
    until_s = time.monotonic() + ENOUGH_S
    for turn in range(times):
        if turn and time.monotonic() > until_s:
            break
        for way, seconds in zip(ways, found, strict=True):
            for segments in _whole_calls(calls):
                each_s = way.timed(segments[0], timer) / len(segments)
                for call in segments:
                    seconds[call.number] = min(each_s, seconds.get(call.number, each_s))
    return found


def _whole_calls(calls: Sequence[ProgramOperation]) -> list[list[ProgramOperation]]:
    """The calls, each as a list of its partial calls; those of different blocks are apart."""
    found: dict[object, list[ProgramOperation]] = {}
    for call in calls:
        found.setdefault((call.what, call.instance, call.layers), []).append(call)
    return list(found.values())


def _profiled(program: Program, setup: Setup) -> _Calls:
    """The calls as a profile assumes them."""
    layers = {number: copy.deepcopy(module) for number, module in setup.layers.items()}
    assumed = Options(seed=setup.options.seed, precision=setup.profiled_precision, freeze=setup.options.freeze)
    return _Calls(program, setup, layers, assumed)


class _Calls:
    """The calls of a program, with their own layers and options."""

    def __init__(self, program: Program, setup: Setup, layers: dict[int, nn.Module], options: Options) -> None:
        self._program, self._setup, self._layers, self._options = program, setup, layers, options
        self._compute = compute_for(Compute, setup, program.phase, layers, options)
        self._wire = replace(message_format(setup), dtype=self._compute.dtype)

    def timed(self, call: ProgramOperation, timer: Timer) -> float:
        """Seconds that a call takes, by ``timer``."""
        serves = self._program.phase.sync_kind.has_server and call.op == "update"
        ready = self._of_server() if serves else self._of_instance(call)
        began_s = timer()
        ready()
        return timer() - began_s

    def _of_server(self) -> Callable[[], object]:
        """A parameter server's update of the whole network."""
        server = ParameterServer(self._setup.node, self._layers, self._options, self._setup.device)
        held = server.compute.layers.items()
        gradients = {n: [torch.zeros_like(weight) for weight in weights_of(m)] for n, m in held}
        return lambda: server.update(gradients, {})

    def _of_instance(self, call: ProgramOperation) -> Callable[[], object]:
        k, compute = call.instance, self._compute
        instance = self._program.phase.instances[k]
        many = samples_by_instance(self._program.phase)[k]
        if call.what is Kind.FORWARD:
            inputs = self._wire.after(instance.layers[0] - 1).example(many)
            labels = torch.zeros(many, self._wire.labels.row_bytes, dtype=torch.uint8)
            return lambda: compute.forward(k, [inputs], [labels], 0, call.layers)
        if call.what is Kind.RECOMPUTE:
            return lambda: compute.recompute(k)
        if call.what is Kind.BACKWARD_WEIGHTS:
            return lambda: compute.backward_weights(k)
        if call.what in GRADIENT_CALLS:
            gradient = None if instance.into is None else self._wire.after(instance.layers[1]).gradient.example(many)
            back = compute.backward if call.what is Kind.BACKWARD else compute.backward_input
            return lambda: back(k, gradient)
        numbers = compute.held.trained(call.layers) if call.layers else None
        if all(each.what not in GRADIENT_CALLS for each in self._program.operations):  # an update apart
            held = compute.held
            compute.gradients.put(k, {n: list(map(torch.zeros_like, held.weights[n])) for n in held.updated[k]})
            return lambda: compute.optimizers.update(k, iterations=self._options.accumulate)
        return lambda: compute.optimizers.update(k, numbers=numbers)
