"""Structured pruning in the middle of a training: whole channels are removed, by magnitude, and the rest trains on.

    pruned = prune(module, example, 0.5, optimizer=optimizer)        # in place; half of the parameters are gone
    pruned = prune(module, example, 0.75, origin=pruned.origin, optimizer=optimizer)   # a quarter is left in all

A fraction is always that of the parameters of the original network (``origin``; the module itself where none is
given). Torch-Pruning finds which channels belong together and how much they matter (the L2 norm of all their weights);
``channels`` says how many go. The module keeps its structure and its names; weights that shrink are new parameters,
all others stay the same, and so does the optimizer's state of them (momentum, Adam's moments). A network of
the zoo's form (consecutive layers) is pruned by ``compress.networks``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
import torch_pruning as tp
from torch import Tensor, nn

from palmette.compress.channels import PruningOrigin, pruning_origin
from palmette.compress.kept_indices import KeptIndices, carry_over
from palmette.compress.tracing import Graph, cut_channels, groups, root, traceable, traced
from palmette.errors import Fault, InputError


@dataclass(frozen=True, eq=False)
class Pruned:
    """The result of a pruning: ``removed`` is the fraction of the original's parameters that was really removed.

    ``places`` are the kept indices of the weights and buffers that shrank, by their names.
    """

    origin: PruningOrigin
    fraction: float
    removed: float
    places: Mapping[str, KeptIndices] = field(repr=False)


def prune(
    module: nn.Module,
    example: Tensor,
    fraction: float,
    *,
    origin: PruningOrigin | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> Pruned:
    """Remove channels from a module, in place, until ``fraction`` of the original's parameters is gone.

    ``example`` is a batch of two samples or more. ``optimizer`` goes on with what is left.

    Raises:
        InputError: the fraction is none, more than can be removed, or less than was removed before.
    """
    origin = pruning_origin(module, example) if origin is None else origin
    widths = origin.widths(fraction)
    with traceable(module):
        graph = traced(module, example)
        cuts = _chosen(graph, module, origin, widths)
    places = _cut(module, graph, cuts, optimizer) if cuts else {}
    left = sum(weight.numel() for weight in module.parameters())
    return Pruned(origin, fraction, 1 - left / origin.parameters if origin.parameters else 0.0, places)


def _chosen(
    graph: Graph, module: nn.Module, origin: PruningOrigin, widths: Mapping[str, int]
) -> dict[nn.Module, list[int]]:
    """The channels to be cut off each group's layer: those that matter least.

    Raises:
        InputError: more is gone already.
    """
    matters = tp.importance.GroupMagnitudeImportance(p=2, normalizer=None)
    whole = {root(group): group for group in groups(graph)}
    found: dict[nn.Module, list[int]] = {}
    for group in origin.groups:
        layer = module.get_submodule(group.layer)
        parts, channels = group.cohorts, len(whole[layer][0].idxs)
        width = channels // parts
        if width < widths[group.layer]:
            gone = 1 - sum(weight.numel() for weight in module.parameters()) / origin.parameters
            raise InputError(Fault("pruning", f"{gone:.4g} removed", "more than asked for; expected a larger fraction"))
        scores = matters(whole[layer]).view(parts, width).mean(0)
        least = torch.argsort(scores, stable=True)[: width - widths[group.layer]].tolist()
        if least:
            found[layer] = sorted(part * width + channel for part in range(parts) for channel in least)
    return found


def _cut(
    module: nn.Module, graph: Graph, cuts: Mapping[nn.Module, list[int]], optimizer: torch.optim.Optimizer | None
) -> dict[str, KeptIndices]:
    """Cut channels off; what is pruned for this are the places, and then all that stood there is taken to them."""
    before = dict(_tensors(module))
    stood = {id(tensor): (tensor.data, tensor.grad) for tensor in before.values()}
    for tensor in before.values():
        tensor.grad = None
        tensor.data = torch.arange(tensor.numel(), dtype=torch.float64, device=tensor.device).view(tensor.shape)
    for layer, channels in cuts.items():
        assert cut_channels(graph, layer, channels), "pruning_origin() offers no group that cannot lose a channel"
    after = dict(_tensors(module))
    places = {
        name: KeptIndices(old.shape, after[name].shape, after[name].detach().reshape(-1).long())
        for name, old in before.items()
        if after[name] is not old
    }
    for old in before.values():
        old.data, old.grad = stood[id(old)]
    shrunk = _take_places(module, before, places)
    if optimizer is not None:
        carry_over(optimizer, shrunk)
    return places


def _take_places(
    module: nn.Module, before: Mapping[str, Tensor], places: Mapping[str, KeptIndices]
) -> dict[nn.Parameter, tuple[nn.Parameter, KeptIndices]]:
    """Put what is left of each tensor where it was; tensors with several names stay one. Returns the weights' heirs."""
    made: dict[int, Tensor] = {}
    shrunk: dict[nn.Parameter, tuple[nn.Parameter, KeptIndices]] = {}
    for name, found in places.items():
        old = before[name]
        if id(old) not in made:
            made[id(old)] = _smaller(old, found)
        new = made[id(old)]
        owner, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(owner), leaf, new)
        if isinstance(old, nn.Parameter) and isinstance(new, nn.Parameter):
            shrunk[old] = (new, found)
    return shrunk


def _smaller(old: Tensor, places: KeptIndices) -> Tensor:
    values = places.taken(old)
    if not isinstance(old, nn.Parameter):
        return values
    made = nn.Parameter(values, requires_grad=old.requires_grad)
    made.grad = None if old.grad is None else places.taken(old.grad)
    return made


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Weights and buffers of floats, also those with several names under each."""
    yield from module.named_parameters(remove_duplicate=False)
    for name, buffer in module.named_buffers(remove_duplicate=False):
        if buffer.is_floating_point():
            yield name, buffer
