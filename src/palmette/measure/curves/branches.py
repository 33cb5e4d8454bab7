"""Trains one trunk on the gold set, and the branches that continue from it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from palmette.compress.channels import PruningOrigin, pruning_origin
from palmette.compress.pruning import prune
from palmette.errors import Fault, InputError
from palmette.measure.curves.grid import FIRST, Branch, CurveGrid
from palmette.measure.curves.node_sets import NodeSetData, labels_of, split_data
from palmette.measure.curves.trainer import CurveRecipe, Trainer, new_trainer
from palmette.spec.curves import Curve, CurvePhase, Key
from palmette.zoo.data import DataSet, load_data

DIGITS = 5  # of a loss, after the decimal point


@dataclass(frozen=True)
class Trunk:
    """A training on the gold set, and the trainer's saved state after each K1 epochs."""

    seed: int
    phase: CurvePhase
    saved: dict[int, bytes]


def check_recipe(recipe: CurveRecipe, grid: CurveGrid) -> tuple[Trainer, dict[str, NodeSetData]]:
    """Check in advance whatever would stop a training later; the first seed's trainer and data.

    Raises:
        InputError: the network or the data cannot be used, or the network cannot be pruned that far.
    """
    trainer, network = new_trainer(recipe, 0), recipe.network()
    pruning_origin(trainer.module, trainer.example).widths(grid.most_pruned)
    _, labels = _data(recipe.data, network.input_shape)
    classes = int(labels.max()) + 1
    if classes > network.classes:
        expected = f"has {classes} classes; the network distinguishes {network.classes}"
        raise InputError(Fault("data", recipe.data, expected))
    return trainer, _node_set_data(recipe, 0)


def train_trunk(recipe: CurveRecipe, seed: int, k1: tuple[int, ...]) -> Trunk:
    """Train the whole network on the gold set, and save its state after each of ``k1`` epochs.

    Raises:
        InputError: the network or the data cannot be used.
        RunError: the loss is not finite any more.
    """
    trainer, data = new_trainer(recipe, seed), _node_set_data(recipe, seed)[FIRST]
    start = trainer.loss(data)
    trained = trainer.train(data, max(k1), _phase_seed(seed), k1)
    saved = {k: kept.state_bytes() for k, kept in trained.kept.items()}
    return Trunk(seed, _curve_phase(FIRST, data, pruning=0.0, removed=0.0, start=start, losses=trained.losses), saved)


def train_branch(recipe: CurveRecipe, trunk: Trunk, branch: Branch, wanted: frozenset[Key]) -> list[Curve]:
    """Continue from a trunk: the wanted curves of a branch.

    Raises:
        InputError: the network cannot be pruned that far.
        RunError: the loss is not finite any more.
    """
    grid, once = branch.grid, branch.once_key() in wanted
    again = [(k2, f2) for k2 in grid.k2 for f2 in grid.f2 if branch.twice_key(k2, f2) in wanted]
    epochs = max([grid.last * once, *(k2 for k2, _ in again)])
    context = _SeedContext(recipe, trunk.seed)
    trainer = context.trainer(trunk.saved[branch.k1])
    path = (trunk.seed, branch.k1, branch.f1, branch.nodes)
    second, kept = context.continue_training(
        trainer, branch.nodes, branch.pruning, epochs=epochs, path=path, keep={k2 for k2, _ in again}
    )
    first = _first_epochs(trunk.phase, branch.k1)
    curves = [Curve(seed=trunk.seed, phases=(first, _first_epochs(second, grid.last)))] if once else []
    for k2, f2 in again:
        third, _ = context.continue_training(
            kept[k2].clone(), branch.third, branch.twice(f2), epochs=grid.last, path=(*path, k2, f2)
        )
        curves.append(Curve(seed=trunk.seed, phases=(first, _first_epochs(second, k2), third)))
    return curves


class _SeedContext:
    """What the phases of a seed share: the data of each set, and the network before any pruning."""

    def __init__(self, recipe: CurveRecipe, seed: int) -> None:
        self._untrained = new_trainer(recipe, seed)
        self._origin: PruningOrigin = pruning_origin(self._untrained.module, self._untrained.example)
        self._node_set_data = _node_set_data(recipe, seed)

    def trainer(self, saved: bytes) -> Trainer:
        """The trainer with a saved state."""
        trainer = self._untrained.clone()
        trainer.load(saved)
        return trainer

    def continue_training(
        self,
        trainer: Trainer,
        nodes: str,
        pruning: float,
        *,
        epochs: int,
        path: tuple[object, ...],
        keep: Collection[int] = (),
    ) -> tuple[CurvePhase, dict[int, Trainer]]:
        """Prune, hand over and train; also copies of the trainer after the epochs in ``keep``."""
        pruned = prune(trainer.module, trainer.example, pruning, origin=self._origin, optimizer=trainer.optimizer)
        data = self._node_set_data[nodes]
        start = trainer.loss(data)
        trained = trainer.train(data, epochs, _phase_seed(*path), keep)
        phase = _curve_phase(nodes, data, pruning=pruning, removed=pruned.removed, start=start, losses=trained.losses)
        return phase, trained.kept


def _curve_phase(
    nodes: str, data: NodeSetData, *, pruning: float, removed: float, start: float, losses: tuple[float, ...]
) -> CurvePhase:
    return CurvePhase(
        nodes=nodes,
        samples=len(data.labels),
        classes=data.classes,
        pruning=pruning,
        removed=round(removed, 4),
        start_loss=round(start, DIGITS),
        losses=tuple(round(loss, DIGITS) for loss in losses),
    )


def _first_epochs(phase: CurvePhase, epochs: int) -> CurvePhase:
    return phase.model_copy(update={"losses": phase.losses[:epochs]})


def _phase_seed(*path: object) -> int:
    """A seed for each phase of each training, the same on every machine."""
    return int.from_bytes(hashlib.sha256(repr(path).encode()).digest()[:7], "big")


@lru_cache(maxsize=1)
def _node_set_data(recipe: CurveRecipe, seed: int) -> dict[str, NodeSetData]:
    data, labels = _data(recipe.data, recipe.network().input_shape)
    return split_data(data, labels, seed)


@lru_cache(maxsize=1)
def _data(name: str, input_shape: tuple[int, ...]) -> tuple[DataSet, Tensor]:
    data = load_data(name, input_shape)
    return data, labels_of(data.train)
