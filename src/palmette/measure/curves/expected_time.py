"""How long the trainings of a collection will take, from a few batches of the whole network on this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping

from palmette.measure.curves.grid import FIRST, Branch
from palmette.measure.curves.node_sets import NodeSetData
from palmette.measure.curves.trainer import Trainer
from palmette.spec.curves import Key

_BATCHES = 3  # the first of them also warms up


def expected_s(
    missing: Mapping[Branch, frozenset[Key]], trainer: Trainer, data: Mapping[str, NodeSetData], jobs: int
) -> float:
    """Seconds until all missing curves are trained, so many at a time; a smaller network counts by what is left."""
    samples = {nodes: len(each.labels) for nodes, each in data.items()}
    return seconds_per_sample(trainer, data[FIRST]) * sample_passes(missing, samples) / jobs


def sample_passes(missing: Mapping[Branch, frozenset[Key]], samples: Mapping[str, int]) -> float:
    """How many samples of the whole network take as long to train; ``samples`` are those of an epoch, by set."""
    trunks: dict[int, int] = {}
    for branch in missing:
        trunks[branch.seed] = max(trunks.get(branch.seed, 0), branch.k1)
    passes = float(samples[FIRST] * sum(trunks.values()))
    return passes + sum(_of_branch(branch, wanted, samples) for branch, wanted in missing.items())


def _of_branch(branch: Branch, wanted: frozenset[Key], samples: Mapping[str, int]) -> float:
    grid = branch.grid
    again = [(k2, f2) for k2 in grid.k2 for f2 in grid.f2 if branch.twice_key(k2, f2) in wanted]
    epochs = max([grid.last * (branch.once_key() in wanted), *(k2 for k2, _ in again)])
    thirds = sum(1 - branch.twice(f2) for _, f2 in again) * grid.last * samples[branch.third]
    return (1 - branch.pruning) * epochs * samples[branch.nodes] + thirds


def seconds_per_sample(trainer: Trainer, data: NodeSetData) -> float:
    """The time of a sample in training, by a copy that is then forgotten."""
    few = min(len(data.labels), trainer.batch)
    part = NodeSetData(data.inputs[:few], data.labels[:few], data.classes)
    copied, times_s = trainer.clone(), []
    for _ in range(_BATCHES):
        began = time.perf_counter()
        copied.train(part, 1, seed=0)
        times_s.append(time.perf_counter() - began)
    return min(times_s) / few
