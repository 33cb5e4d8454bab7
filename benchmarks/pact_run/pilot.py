"""What PACT is told beforehand: how the loss fell in an earlier training of the network, pruned once on the way."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from palmette.compress.channels import origin_of
from palmette.compress.pruning import prune
from palmette.cost.handover import change_price
from palmette.plan.pact_search.stages import stages
from palmette.plan.strategy import Task
from palmette.spec.files import validated
from palmette.spec.problem import Problem
from palmette.zoo.data import load_data
from palmette.zoo.models import load_network

EPOCHS, PRUNED_AT, AFTER, SEED, LR = 13, 6, 3, 7, 2e-4
CAREFUL = 0.85  # of an expected fall, the part that is counted on


def epoch(module: nn.Module, optimizer: torch.optim.Optimizer, data: Any, batch: int) -> float:
    order, losses = torch.randperm(len(data)), []
    for begin in range(0, len(data) - batch + 1, batch):
        inputs, labels = data.batch(order[begin : begin + batch])
        loss = nn.functional.cross_entropy(module(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def pilot(model: str, fractions: tuple[float, ...], batch: int) -> tuple[list[float], dict[float, list[float]]]:
    """The losses of the epochs of a training, and those that follow a pruning in its middle."""
    torch.manual_seed(SEED)
    network = load_network(model, seed=SEED)
    module, data = network.module, load_data("digits", network.input_shape).train
    assert module is not None
    example = data.batch(range(2))[0]
    optimizer, origin = torch.optim.Adam(module.parameters(), lr=LR), origin_of(module, example)
    losses, smaller = [], {}
    for number in range(EPOCHS):
        if number == PRUNED_AT:
            for fraction in fractions:
                twin = copy.deepcopy(module)
                own = torch.optim.Adam(twin.parameters(), lr=LR)
                prune(twin, example, fraction, origin=origin, optimizer=own)
                smaller[fraction] = [epoch(twin, own, data, batch) for _ in range(AFTER)]
        losses.append(epoch(module, optimizer, data, batch))
    return losses, smaller


def table(task: Task, model: str, fractions: tuple[float, ...], target: float, deadline_s: float) -> Problem:
    """PACT's problem for the task, with losses by the pilot: a smaller model stays as far above as it was there."""
    losses, smaller = pilot(model, fractions, task.batch)
    falls = [min(0.0, after - before) for before, after in pairwise([2.302585, *losses])]
    above = {0.0: 0.0} | {f: max(0.0, row[0] - losses[PRUNED_AT]) for f, row in smaller.items()}
    whole = losses[PRUNED_AT] - losses[PRUNED_AT + AFTER - 1]
    pace = {0.0: 1.0} | {f: max(0.2, min(1.0, (row[0] - row[-1]) / whole)) for f, row in smaller.items()}
    pairs = stages(task)
    run = []
    for (name, nodes), phase in pairs.items():
        price = task.evaluator.price(phase)
        expected = [pace[phase.pruning] * fall for fall in falls]
        run.append(
            {"model": name, "nodes": nodes, "time_s": price.epoch_s, "energy_j": price.epoch_j}
            | {"loss_expected": expected, "loss_robust": [CAREFUL * fall for fall in expected]}
        )
    change = []
    for a, before in pairs.items():
        for b, after in pairs.items():
            if a != b and after.pruning >= before.pruning:
                time_s, energy_j = change_price(before, after, task.evaluator)
                rise = above[after.pruning] - above[before.pruning]
                change.append(
                    {"from": a, "to": b, "time_s": time_s, "energy_j": energy_j}
                    | {"loss_expected": rise, "loss_robust": rise + (1 - CAREFUL) * abs(rise)}
                )
    start = {"model": "0", "nodes": next(iter(task.cluster.sets)), "loss": 2.302585}
    fields = {"models": list(dict.fromkeys(m for m, _ in pairs)), "node_sets": list(task.cluster.sets)}
    fields |= {"start": start, "target_loss": target, "deadline_s": deadline_s, "loss_step": 0.005, "time_step_s": 0.5}
    return validated(Problem, fields | {"run": run, "change": change})
