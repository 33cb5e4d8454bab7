"""The layers of some instances of one node: the modules that each runs, and the weights that each updates.

Instances that hold the same layer on one node share its weights under ``step``; a layer is updated by the first that
holds it. Buffers of a layer (the running statistics of batch norm) belong to each instance, and those of the first
instance in the plan count, so that the result does not depend on timing. A weight that several layers use (a tie)
counts as a layer of its own, whose number follows the last layer's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from torch import nn

from palmette.cost.replicas import held_numbers, updated_layers
from palmette.cost.sizes import Run
from palmette.runtime.program import numbers_of
from palmette.runtime.worker.weights import named_weights, shared_copy, tie, trained_weights
from palmette.spec.plan import Phase
from palmette.zoo.capture import TiedWeight


class InstanceLayers:
    """Layers by number from 1, for instances of a phase.

    ``weights`` are the trained weights of each layer that it shares with no other, and those of ties; ``updated`` the
    layers and ties whose weights each instance updates; ``tied`` the layers that use each tie.
    """

    def __init__(
        self, phase: Phase, own: Sequence[int], layers: Mapping[int, nn.Module], ties: Sequence[TiedWeight]
    ) -> None:
        self._phase, self.layers = phase, dict(layers)
        ties_here = {number: tie(self.layers, each) for number, each in enumerate(ties, phase.depth + 1)}
        self.weights = trained_weights(self.layers, {n: w for n, w in ties_here.items() if w is not None})
        self.tied = [each.layers for each in ties]
        runs = updated_layers([phase.instances[k] for k in own], self.tied, phase.depth)
        self.updated = {k: numbers_of(updated) for k, updated in zip(own, runs, strict=True)}
        self._modules = {k: self._modules_of(k) for k in own}

    def _modules_of(self, k: int) -> list[nn.Module]:
        first, last = self._phase.instances[k].layers
        return [self.layers[n] if n in self.updated[k] else shared_copy(self.layers[n]) for n in range(first, last + 1)]

    def modules(self, k: int, run: Run) -> list[nn.Module]:
        """Some layers of an instance, in order; those that an earlier instance on the node holds share its weights."""
        first = self._phase.instances[k].layers[0]
        return self._modules[k][run[0] - first : run[1] + 1 - first]

    def numbers(self, run: Run) -> list[int]:
        """The layers of a run, and the ties that it holds."""
        return held_numbers(run, self.tied, self._phase.depth)

    def by_instance(self) -> dict[int, list[int]]:
        """The layers and ties that each instance holds."""
        return {k: self.numbers(self._phase.instances[k].layers) for k in self.updated}

    def trained(self, runs: Iterable[Run]) -> list[int]:
        """The layers and ties of some runs that have weights that are trained."""
        return [number for number in numbers_of(runs) if self.weights[number]]

    def named(self, number: int) -> Iterator[tuple[str, nn.Parameter]]:
        """The trained weights of a layer or tie, with every name that they have in the layers here."""
        modules = [self.layers[number]] if number in self.layers else self.layers.values()
        return named_weights(modules, self.weights[number])

    def names(self, weight: nn.Parameter, number: int) -> list[str]:
        """The names of a trained weight of a layer or tie in the layers here."""
        return [name for name, each in self.named(number) if each is weight]
