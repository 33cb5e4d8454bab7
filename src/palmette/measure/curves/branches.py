"""One trunk on the gold set, and the branches that go on from it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from palmette.compress.channels import Origin, origin_of
from palmette.compress.pruning import prune
from palmette.errors import Fault, InputError
from palmette.measure.curves.grid import FIRST, Branch, Grid
from palmette.measure.curves.node_sets import Shard, labels_of, shards
from palmette.measure.curves.trainer import Learner, Recipe, fresh
from palmette.spec.curves import Curve, Key, Stretch
from palmette.zoo.data import DataSet, load_data
from palmette.zoo.models import load_network

DIGITS = 5  # of a loss, behind the point


@dataclass(frozen=True)
class Trunk:
    """A training on the gold set, and the learner as it was after each K1 epochs."""

    seed: int
    stretch: Stretch
    saved: dict[int, bytes]


def check_recipe(recipe: Recipe, grid: Grid) -> None:
    """Find out now what would stop a training later.

    Raises:
        InputError: the network or the data cannot be used, or the network cannot be pruned that far.
    """
    learner, network = fresh(recipe, 0), load_network(recipe.model)
    origin_of(learner.module, learner.example).widths(grid.most_pruned)
    _, labels = _data(recipe.data, network.input_shape)
    known, told_apart = int(labels.max()) + 1, network.classes
    if known > told_apart:
        raise InputError(Fault("data", recipe.data, f"has {known} classes; the network tells {told_apart} apart"))
    _shards(recipe, 0)


def train_trunk(recipe: Recipe, seed: int, k1: tuple[int, ...]) -> Trunk:
    """Train the whole network on the gold set, and keep it as it was after each of ``k1`` epochs.

    Raises:
        InputError: the network or the data cannot be used.
        RunError: the loss is not finite any more.
    """
    learner, shard = fresh(recipe, seed), _shards(recipe, seed)[FIRST]
    start = learner.loss(shard)
    trained = learner.train(shard, max(k1), _number(seed), k1)
    saved = {k: kept.saved() for k, kept in trained.kept.items()}
    return Trunk(seed, _stretch(FIRST, shard, pruning=0.0, removed=0.0, start=start, losses=trained.losses), saved)


def train_branch(recipe: Recipe, trunk: Trunk, branch: Branch, wanted: frozenset[Key]) -> list[Curve]:
    """Train on from a trunk: the curves of a branch that are wanted.

    Raises:
        InputError: the network cannot be pruned that far.
        RunError: the loss is not finite any more.
    """
    grid, once = branch.grid, branch.once_key() in wanted
    again = [(k2, f2) for k2 in grid.k2 for f2 in grid.f2 if branch.twice_key(k2, f2) in wanted]
    epochs = max([grid.last * once, *(k2 for k2, _ in again)])
    ground = _Ground(recipe, trunk.seed)
    learner = ground.learner(trunk.saved[branch.k1])
    path = (trunk.seed, branch.k1, branch.f1, branch.nodes)
    second, kept = ground.go_on(
        learner, branch.nodes, branch.pruning, epochs=epochs, path=path, keep={k2 for k2, _ in again}
    )
    first = _first(trunk.stretch, branch.k1)
    curves = [Curve(seed=trunk.seed, phases=(first, _first(second, grid.last)))] if once else []
    for k2, f2 in again:
        third, _ = ground.go_on(kept[k2].twin(), branch.third, branch.twice(f2), epochs=grid.last, path=(*path, k2, f2))
        curves.append(Curve(seed=trunk.seed, phases=(first, _first(second, k2), third)))
    return curves


class _Ground:
    """What the phases of a seed have in common: the data of each set, and the network before any pruning."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        self._fresh = fresh(recipe, seed)
        self._origin: Origin = origin_of(self._fresh.module, self._fresh.example)
        self._shards = _shards(recipe, seed)

    def learner(self, saved: bytes) -> Learner:
        """The network as it was saved."""
        found = self._fresh.twin()
        found.load(saved)
        return found

    def go_on(
        self,
        learner: Learner,
        nodes: str,
        pruning: float,
        *,
        epochs: int,
        path: tuple[object, ...],
        keep: Collection[int] = (),
    ) -> tuple[Stretch, dict[int, Learner]]:
        """Prune, hand over and train; also what the learner was after the epochs in ``keep``."""
        done = prune(learner.module, learner.example, pruning, origin=self._origin, optimizer=learner.optimizer)
        shard = self._shards[nodes]
        start = learner.loss(shard)
        trained = learner.train(shard, epochs, _number(*path), keep)
        made = _stretch(nodes, shard, pruning=pruning, removed=done.removed, start=start, losses=trained.losses)
        return made, trained.kept


def _stretch(
    nodes: str, shard: Shard, *, pruning: float, removed: float, start: float, losses: tuple[float, ...]
) -> Stretch:
    return Stretch(
        nodes=nodes,
        samples=len(shard.labels),
        classes=shard.classes,
        pruning=pruning,
        removed=round(removed, 4),
        start_loss=round(start, DIGITS),
        losses=tuple(round(loss, DIGITS) for loss in losses),
    )


def _first(stretch: Stretch, epochs: int) -> Stretch:
    return stretch.model_copy(update={"losses": stretch.losses[:epochs]})


def _number(*path: object) -> int:
    """A seed for each phase of each training, the same on every machine."""
    return int.from_bytes(hashlib.sha256(repr(path).encode()).digest()[:7], "big")


@lru_cache(maxsize=1)
def _shards(recipe: Recipe, seed: int) -> dict[str, Shard]:
    data, labels = _data(recipe.data, load_network(recipe.model).input_shape)
    return shards(data, labels, seed)


@lru_cache(maxsize=1)
def _data(name: str, input_shape: tuple[int, ...]) -> tuple[DataSet, Tensor]:
    data = load_data(name, input_shape)
    return data, labels_of(data.train)
