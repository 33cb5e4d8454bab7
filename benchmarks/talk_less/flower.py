"""Flower's FedAvg really doing the training of ``federated``: the same weights, batches and rates, on shaped links.

Two clients, each in a network namespace behind a router, and a SuperLink on this machine. A round's steps are padded
to what they take on the emulated device. The bandwidth changes between rounds, so that one deployment does for all.
Before every second round there is an empty one, in which a number travels and nobody computes: that is Flower's own
waiting (it polls, and starts a process that imports torch for every message), which is subtracted.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.command import progress
from benchmarks.flower.deployment import Deployment
from benchmarks.home_networks import HomeNetwork
from benchmarks.talk_less.methods import DEVICES, EVALUATED_EVERY
from benchmarks.talk_less.replay import held_out_loss, own_slices
from benchmarks.talk_less.tasks import TEXT, Task, warmup
from palmette.runtime.schedule import rate_factor
from palmette.testbed.namespace_network import HEADER_OVERHEAD

_APP, _NETWORKS = Path(__file__).parent / "app", Path(__file__).parent / "networks.py"
_FIRST_NETWORK = 50
_EMPTY = -1
_EMPTY_EVERY = 2
"""Rounds from one empty round to the next."""
_PATIENCE_S, _LOOK_EVERY_S = 300.0, 0.05


class _Round(NamedTuple):
    """A round that is done: at which bandwidth, which of the training or below 0, how long, bytes on all cables."""

    bandwidth_mbit: float
    number: int
    round_s: float
    computed_s: float
    carried_bytes: int


def trained(
    task: Task, iterations: int, computing_s: float, bandwidths: Sequence[float], environment: Path, *, seed: int
) -> dict[str, Any]:
    """The losses of a training by Flower, and the seconds and bytes of its rounds by bandwidth."""
    with tempfile.TemporaryDirectory(prefix="flower-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        _write_task(task, iterations, seed, folder)
        numbered = enumerate(DEVICES, _FIRST_NETWORK)
        homes = {device: stack.enter_context(_home(number, bandwidths[0])) for number, device in numbered}
        deployment = Deployment(folder, homes, environment, _APP)
        stack.callback(deployment.end)
        deployment.start(_run_config(task, folder, EVALUATED_EVERY * computing_s))
        rounds = _rounds(folder, homes, _turns(iterations // EVALUATED_EVERY, bandwidths))
        evaluations = [
            (EVALUATED_EVERY * (k + 1), round(_loss(task, folder / f"round-{k}.pt"), 4))
            for k in range(iterations // EVALUATED_EVERY)
        ]
    return {"evaluations": evaluations, **_summed(rounds, EVALUATED_EVERY * computing_s)}


def _home(number: int, bandwidth_mbit: float) -> HomeNetwork:
    rate = bandwidth_mbit * HEADER_OVERHEAD
    return HomeNetwork(number, rate, rate)


def _turns(rounds: int, bandwidths: Sequence[float]) -> list[tuple[float, int]]:
    """The bandwidth and the number of each round, all rounds of a bandwidth together; the first one is to warm up."""
    found = [(bandwidths[0], _EMPTY)]
    for k, bandwidth in enumerate(bandwidths):
        for number in range(rounds * k // len(bandwidths), rounds * (k + 1) // len(bandwidths)):
            begins = number - rounds * k // len(bandwidths)
            found += [(bandwidth, _EMPTY)] * (begins % _EMPTY_EVERY == 0) + [(bandwidth, number)]
    return found


def _write_task(task: Task, iterations: int, seed: int, folder: Path) -> None:
    """The app with the networks, the weights to start from, and the batches and rates of each client and round."""
    (folder / "app" / "fedavg").mkdir(parents=True)
    (folder / "app" / "fedavg" / "networks.py").write_bytes(_NETWORKS.read_bytes())
    torch.manual_seed(seed)
    torch.save(task.make().state_dict(), folder / "start.pt")
    slices, (inputs, labels) = own_slices(len(task.train), seed), task.train.tensors
    for number in range(iterations // EVALUATED_EVERY):
        steps = range(number * EVALUATED_EVERY, (number + 1) * EVALUATED_EVERY)
        rates = [task.lr * rate_factor("cosine", step, iterations, warmup(iterations)) for step in steps]
        for k, device in enumerate(DEVICES):
            taken = torch.from_numpy(np.stack([slices(step)[k] for step in steps]))
            told = {"inputs": inputs[taken], "labels": labels[taken], "rates": rates}
            torch.save(told, folder / f"{device}-{number}.pt")


def _run_config(task: Task, folder: Path, round_s: float) -> str:
    symbols = task.make()[-1].out.out_features if task.name == TEXT else 0  # type: ignore[index, union-attr]
    told = {"clients": len(DEVICES), "symbols": symbols, "momentum": task.momentum, "round_s": round(round_s, 4)}
    return " ".join([f'folder="{folder}"', *(f"{name}={value}" for name, value in told.items())])


def _rounds(folder: Path, homes: Mapping[str, HomeNetwork], turns: Sequence[tuple[float, int]]) -> list[_Round]:
    found = []
    for turn, (bandwidth_mbit, number) in enumerate(turns):
        for home in homes.values():
            home.shape(*[bandwidth_mbit * HEADER_OVERHEAD] * 2)
        before = sum(home.carried_bytes() for home in homes.values())
        _tell(folder / f"go-{turn}", str(number))
        line = _line(folder / "rounds.jsonl", turn)
        carried = sum(home.carried_bytes() for home in homes.values()) - before
        found.append(_Round(bandwidth_mbit, number, line["round_s"], line["computed_s"], carried))
        progress(f"flower: {found[-1]}")
    _tell(folder / f"go-{len(turns)}", "")
    return found[1:]


def _tell(file: Path, text: str) -> None:
    """Write a file that is whole as soon as it is there."""
    file.with_suffix(".new").write_text(text)
    file.with_suffix(".new").rename(file)


def _line(file: Path, number: int) -> dict[str, Any]:
    """A line of a file, once it is there."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        if len(lines) > number:
            found: dict[str, Any] = json.loads(lines[number])
            return found
        if time.monotonic() > until_s:
            raise TimeoutError(f"Flower's round {number} was not done within {_PATIENCE_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)


def _loss(task: Task, file: Path) -> float:
    model: nn.Module = task.make()
    weights: dict[str, Tensor] = torch.load(file, weights_only=True)
    model.load_state_dict(weights)
    return held_out_loss(model, task.held_out)


def _summed(rounds: Sequence[_Round], computing_s: float) -> dict[str, Any]:
    """The medians by bandwidth, and the seconds of an iteration without Flower's waiting.

    What a client computed longer than its device does, as this machine was busy, is subtracted, too. No less is left
    than computing and what the cables carried take: medians of rounds that wait for seconds are not exact.
    """
    empty = [each for each in rounds if each.number == _EMPTY]
    real = [each for each in rounds if each.number != _EMPTY]
    waiting_s, idle_bytes = _median(empty, "round_s"), _median(empty, "carried_bytes")
    by_bandwidth = {each.bandwidth_mbit: [r for r in real if r.bandwidth_mbit == each.bandwidth_mbit] for each in real}
    round_s = {f"{b:g}": _median(own, "round_s") for b, own in by_bandwidth.items()}
    late_s = {f"{b:g}": max(0.0, _median(own, "computed_s") - computing_s) for b, own in by_bandwidth.items()}
    carried = _median(real, "carried_bytes")
    least_s = {b: computing_s + carried / len(DEVICES) * 8 / (float(b) * HEADER_OVERHEAD * 1e6) for b in round_s}
    without_s = {b: max(least_s[b], each - waiting_s - late_s[b]) for b, each in round_s.items()}
    return {
        "bytes_an_iteration": carried / EVALUATED_EVERY,
        "round_s": round_s,
        "waiting_s": waiting_s,
        "empty_rounds": len(empty),
        "empty_round_bytes": idle_bytes,
        "least_round_s": least_s,
        "computed_too_long_s": late_s,
        "iteration_s": {b: each / EVALUATED_EVERY for b, each in without_s.items()},
        "iteration_s_with_waiting": {b: each / EVALUATED_EVERY for b, each in round_s.items()},
        "rounds": [each._asdict() for each in rounds],
    }


def _median(rounds: Sequence[_Round], what: str) -> float:
    return statistics.median(getattr(each, what) for each in rounds)
