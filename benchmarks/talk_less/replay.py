"""What DiLoCo learns beside ``step``, replayed in one process with the same arithmetic, as JSON.

    python -m benchmarks.talk_less.replay [--task images] [--iterations 1000] [--momentum 0.7] [--optimizer adamw]

Batches, slices, schedule and outer optimizer are those of the real runs, so that settings can be tried in a minute.
"""

from __future__ import annotations

import copy
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.command import parser, print_result, progress
from benchmarks.talk_less.methods import DEVICES, SAMPLES
from benchmarks.talk_less.tasks import ARCHIVE, Task, images, text, warmup
from palmette.runtime.data.batches import Batches
from palmette.runtime.schedule import rate_factor

MOMENTA = (0.0, 0.5, 0.7, 0.9)
RATE = 0.7
EVALUATIONS = 10
ADAMW_LR = 1e-3


def main() -> None:
    """Replay ``step``, and DiLoCo with each momentum."""
    asked = _arguments()
    torch.set_num_threads(1)
    samples = len(DEVICES) * SAMPLES * asked.iterations
    task = images(asked.images, samples) if asked.task == "images" else text(samples)
    step = _Replay(task, asked, replicas=1).losses(None)
    found: dict[str, Any] = {"step": step}
    for momentum in asked.momentum or MOMENTA:
        progress(f"{task.name}: outer momentum {momentum:g}")
        losses = _Replay(task, asked, replicas=len(DEVICES)).losses(momentum)
        behind = [round(own / other - 1, 4) for (_, own), (_, other) in zip(losses, step, strict=True)]
        found[f"momentum {momentum:g}"] = {"losses": losses, "behind_step": behind}
    print_result({task.name: found, "how": "replayed in one process"})


def _arguments() -> Namespace:
    made = parser(__doc__, "one momentum, 100 iterations")
    made.add_argument("--task", choices=["images", "text"], default="images")
    made.add_argument("--iterations", type=int, default=1000)
    made.add_argument("--every", type=int, default=50, help="steps of a window")
    made.add_argument("--momentum", action="append", type=float, help="of the outer optimizer; may be repeated")
    made.add_argument("--optimizer", choices=["sgd", "adamw"], default="sgd", help="of the replicas")
    made.add_argument("--images", type=Path, default=ARCHIVE, help="CIFAR-10, an archive in the official layout")
    asked = made.parse_args()
    if asked.quick:
        asked.iterations, asked.momentum = 100, [0.7]
    return asked


class _Replay:
    """Replicas with slices of common batches; one of them with the whole is ``step``."""

    def __init__(self, task: Task, asked: Namespace, replicas: int) -> None:
        torch.manual_seed(0)
        self._task, self._asked, self._global = task, asked, task.make()
        self._replicas = [copy.deepcopy(self._global) for _ in range(replicas)]
        self._rate = task.lr if asked.optimizer == "sgd" else ADAMW_LR
        self._optimizers = [self._optimizer(each) for each in self._replicas]

    def _optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        if self._asked.optimizer == "sgd":
            return torch.optim.SGD(model.parameters(), self._rate, momentum=self._task.momentum)
        return torch.optim.AdamW(model.parameters(), self._rate)

    def losses(self, momentum: float | None) -> list[tuple[int, float]]:
        """The held-out losses after some iterations; of the first replica where there is no outer optimizer."""
        total, found = self._asked.iterations, []
        batches = Batches(len(self._task.train), len(DEVICES) * SAMPLES, 0)
        outer = None if momentum is None else self._outer(momentum)
        for number in range(total):
            self._step(number, np.array_split(np.asarray(batches.indices(number)), len(self._replicas)))
            if outer is not None and (number + 1) % self._asked.every == 0:
                self._exchange(outer)
            if (number + 1) % max(1, total // EVALUATIONS) == 0:
                model = self._replicas[0] if outer is None else self._global
                found.append((number + 1, round(self._held_out(model), 4)))
        return found

    def _outer(self, momentum: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(self._global.parameters(), RATE, momentum=momentum, nesterov=momentum > 0)

    def _step(self, number: int, slices: list[np.ndarray]) -> None:
        inputs, labels = self._task.train.tensors
        factor = rate_factor("cosine", number, self._asked.iterations, warmup(self._asked.iterations))
        for model, optimizer, own in zip(self._replicas, self._optimizers, slices, strict=True):
            optimizer.param_groups[0]["lr"] = factor * self._rate
            optimizer.zero_grad()
            taken = torch.from_numpy(own)
            nn.functional.cross_entropy(model(inputs[taken]), labels[taken]).backward()
            optimizer.step()

    def _exchange(self, outer: torch.optim.Optimizer) -> None:
        with torch.no_grad():
            for weight, *own in zip(
                self._global.parameters(), *(each.parameters() for each in self._replicas), strict=True
            ):
                weight.grad = weight - torch.stack(own).mean(0)
        outer.step()
        for each in self._replicas:
            each.load_state_dict(self._global.state_dict())

    def _held_out(self, model: nn.Module) -> float:
        inputs, labels = self._task.held_out.tensors
        with torch.no_grad():
            return float(nn.functional.cross_entropy(model(inputs), labels))


if __name__ == "__main__":
    main()
