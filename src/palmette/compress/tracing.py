"""Torch-Pruning's view of a module: which channels of which layers can only go together.

Tracing goes by autograd, so that it needs weights that want gradients; and a local response norm, whose inner views
Torch-Pruning misreads, is skipped: it has no weights and as many maps behind as before it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch_pruning as tp
from torch import Tensor, nn

Group = Any  # Torch-Pruning has no types
Graph = Any

_ROOTS = (nn.modules.conv._ConvNd, nn.Linear)  # noqa: SLF001  (the common base of all convolutions)


@contextmanager
def traceable(module: nn.Module) -> Iterator[None]:
    """The module as Torch-Pruning can trace it; afterwards it is as it was, but for what was pruned."""
    modes = [(inner, inner.training) for inner in module.modules()]
    fixed = [weight for weight in module.parameters() if not weight.requires_grad and weight.is_floating_point()]
    passed = [inner for inner in module.modules() if isinstance(inner, nn.LocalResponseNorm)]
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")  # it advertises options that Palmette does not offer
        try:
            for weight in fixed:
                weight.requires_grad_(True)
            for norm in passed:
                vars(norm)["forward"] = _unchanged
            yield
        finally:
            for weight in fixed:
                weight.requires_grad_(False)
            for norm in passed:
                del vars(norm)["forward"]
            for inner, training in modes:
                inner.training = training


def _unchanged(values: Tensor) -> Tensor:
    return values


def traced(module: nn.Module, example: Tensor) -> Graph:
    """The graph of a module that is ``traceable``."""
    return tp.DependencyGraph().build_dependency(module, example_inputs=(example,))


def groups(graph: Graph, without: Sequence[nn.Module] = ()) -> list[Group]:
    """All groups of channels that go together, each whole."""
    return list(graph.get_all_groups(ignored_layers=list(without), root_module_types=_ROOTS))


def root(group: Group) -> nn.Module:
    """The layer whose outputs a group is named by."""
    module: nn.Module = group[0].dep.target.module
    return module


def cohorts(graph: Graph, group: Group) -> int:
    """Into how many equal parts layers with channels in groups divide these channels; each has to lose as many."""
    found = [1]
    for dep, _ in group:
        module, pruner = dep.target.module, graph.get_pruner_of_module(dep.target.module)
        if not isinstance(module, nn.Module) or _is_depthwise(module):
            continue
        outwards = graph.is_out_channel_pruning_fn(dep.handler)
        found.append(pruner.get_out_channel_groups(module) if outwards else pruner.get_in_channel_groups(module))
    return max(found)


def _is_depthwise(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.conv._ConvNd) and module.groups == module.out_channels  # noqa: SLF001


def cut_channels(graph: Graph, layer: nn.Module, channels: Sequence[int]) -> bool:
    """Take output channels off a layer, with all that goes with them; False if that would leave nothing somewhere."""
    handler = graph.get_pruner_of_module(layer).prune_out_channels
    group = graph.get_pruning_group(layer, handler, list(channels))
    if not graph.check_pruning_group(group):
        return False
    group.prune()
    return True


def skeleton(module: nn.Module, example: Tensor) -> tuple[nn.Module, Tensor]:
    """A copy that may be pruned, and an example for it: on the meta device if the module runs there."""
    nothing: dict[int, Any] = {id(buffer): buffer.detach().to("meta") for buffer in module.buffers()}
    nothing |= {id(w): nn.Parameter(w.detach().to("meta"), w.requires_grad) for w in module.parameters()}
    light, without = copy.deepcopy(module, nothing), example.to("meta")
    try:
        with torch.no_grad(), traceable(light):
            light.eval()(without)
    except Exception:  # noqa: BLE001  (a module may do anything; then the copy has to be a real one)
        return copy.deepcopy(module), example
    return light, without
