"""Which instances recompute their activations: only where the memory of a node would otherwise forbid the phase.

Recomputation takes time and joules and saves memory alone, so a phase that fits is best without it, and one that does
not fit with as little of it as will do: sets of a node's instances that make it fit, and of which none can be left out.
The evaluator then says which of them costs the least. Instances of different nodes are chosen independently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

from palmette.cost.operations import samples_by_instance
from palmette.plan.core.delivery import fits
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Phase
from palmette.spec.tree import Instance

_MOST_WEIGHED = 6
"""Instances of a node of which all sets are weighed; of more, those that save most go first."""
_MOST_VARIANTS = 24
"""Combinations over all nodes that are returned; of more, the one that saves most on each node with the fewest."""


class RecomputeChoice:
    """Finds the instances of a task's phases that have to recompute.

    Phases with the same instances get the same ones back, so that the evaluator need not work out their order again.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._made: dict[tuple[int, frozenset[int]], tuple[Sequence[Instance], tuple[Instance, ...]]] = {}

    def variants(self, phase: Phase) -> list[Phase]:
        """The phase with each set of instances recomputing that makes it fit and has none to spare.

        None where it fits as it is, or does not fit whatever recomputes.
        """
        choices = [self._sets(phase, node, excess) for node, excess in self._excess(phase).items()]
        found = list(product(*choices)) if choices else []
        if len(found) > _MOST_VARIANTS:
            found = [tuple(sets[0] for sets in choices)]
        return [self._recomputing(phase, [k for own in sets for k in own]) for sets in found]

    def closest(self, phase: Phase) -> Phase:
        """The phase with all instances recomputing for which that saves memory on nodes where it does not fit."""
        excess, savings = self._excess(phase), self._savings(phase)
        chosen = [k for k, each in enumerate(phase.instances) if each.node in excess and savings[k] > 0]
        return self._recomputing(phase, chosen) if chosen else phase

    def _excess(self, phase: Phase) -> dict[str, float]:
        """Bytes by which the memory of nodes is too small."""
        memory = {name: node.memory_bytes for name, node in self._task.cluster.nodes.items()}
        peaks = self._task.evaluator.peak_bytes(phase).items()
        return {name: peak - size for name, peak in peaks if (size := memory[name]) is not None and peak > size}

    def _savings(self, phase: Phase) -> list[float]:
        """Bytes that each instance would save."""
        sizes = self._task.evaluator.sizes(phase.pruning)
        return [
            0.0
            if each.recompute
            else sizes.activation_bytes(each.layers, many) - sizes.recompute_bytes(each.layers, many)
            for each, many in zip(phase.instances, samples_by_instance(phase), strict=True)
        ]

    def _sets(self, phase: Phase, node: str, excess: float) -> list[tuple[int, ...]]:
        """The smallest sets of a node's instances that save as much."""
        savings = self._savings(phase)
        own = [k for k, each in enumerate(phase.instances) if each.node == node and savings[k] > 0]
        own.sort(key=lambda k: -savings[k])
        found: list[tuple[int, ...]] = []
        for chosen in _subsets(own):
            spare = any(set(other) <= set(chosen) for other in found)
            if not spare and sum(savings[k] for k in chosen) >= excess:
                found.append(chosen)
        return found

    def _recomputing(self, phase: Phase, chosen: Iterable[int]) -> Phase:
        key = (id(phase.instances), frozenset(chosen))
        if key not in self._made:
            instances = [
                each.model_copy(update={"recompute": True}) if k in key[1] else each
                for k, each in enumerate(phase.instances)
            ]
            self._made[key] = phase.instances, tuple(instances)
        return phase.model_copy(update={"instances": self._made[key][1]})


def _subsets(own: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Sets of instances, small ones first: all sets, or of many only the first so many."""
    for many in range(1, len(own) + 1):
        yield from combinations(own, many) if len(own) <= _MOST_WEIGHED else (tuple(own[:many]),)


def recompute_to_fit(phase: Phase, task: Task) -> Phase:
    """The phase, with instances recomputing if it does not fit otherwise: the fastest, else the nearest to fitting."""
    if fits(phase, task):
        return phase
    choice = RecomputeChoice(task)
    variants = [each for each in choice.variants(phase) if fits(each, task)]
    if len(variants) < 2:
        return variants[0] if variants else choice.closest(phase)
    return min(variants, key=lambda each: task.evaluator.price(each).mean_iteration(task.horizon)[0])


def without_recompute(phase: Phase) -> Phase:
    """The same phase with all activations kept."""
    instances = [each.model_copy(update={"recompute": False}) for each in phase.instances]
    return phase.model_copy(update={"instances": tuple(instances)})


def recompute_price(phase: Phase, task: Task) -> dict[str, Any]:
    """What recomputation costs and saves in a phase, as it stands in a decision; nothing where there is none."""
    chosen = [each for each in phase.instances if each.recompute]
    if not chosen:
        return {}
    prices, kept = task.evaluator, without_recompute(phase)
    peaks, others = prices.peak_bytes(phase), prices.peak_bytes(kept)
    price, other = prices.price(phase), prices.price(kept)
    spent = [each.iteration_j for each in (price, other)]
    found = {
        "instances": [each.id for each in chosen],
        "added_s": price.iteration_s - other.iteration_s,
        "added_j": None if spent[0] is None or spent[1] is None else spent[0] - spent[1],
        "peak_bytes": {each.node: peaks[each.node] for each in chosen},
        "otherwise_bytes": {each.node: others[each.node] for each in chosen},
    }
    return {"recompute": found}
