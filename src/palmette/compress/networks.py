"""Networks as consecutive layers made smaller: as many layers as before, under the same names, with fewer channels."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from palmette.compress.channels import PruningOrigin, pruning_origin
from palmette.compress.pruning import Pruned, prune
from palmette.zoo.capture import state
from palmette.zoo.example_inputs import example_input
from palmette.zoo.models import Network, recut


def network_origin(network: Network) -> PruningOrigin:
    """What can be removed from a network as it is."""
    return pruning_origin(_whole(network), _example(network))


def prune_network(network: Network, fraction: float, *, origin: PruningOrigin | None = None) -> tuple[Network, Pruned]:
    """The network with ``fraction`` of the original's parameters removed, and what was done; it stays as it is itself.

    Weights, buffers and, through ``Pruned.places`` by their names, the optimizer's state (``places.carried``) are
    those of before. ``origin`` is that of the network before any pruning, by default the network's own.

    Raises:
        InputError: the fraction is none, more than can be removed, or less than was removed before.
    """
    module = _whole(network)
    found = prune(module, _example(network), fraction, origin=origin)
    return recut(network, module), found


def _whole(network: Network) -> nn.Module:
    """A copy of the module that the layers were cut from, with the layers' weights of this moment."""
    assert network.module is not None, "a network that is loaded by its name knows its module"
    module = copy.deepcopy(network.module)
    values = state(network.layers)
    for name, tensor in module.state_dict(keep_vars=True).items():
        tensor.data = values[name].detach().clone()
    return module


def _example(network: Network) -> Tensor:
    weights = (weight.dtype for layer in network.layers for weight in layer.module.parameters())
    example = example_input(network.input_shape, network.dtype)
    return example.to(next(weights, example.dtype)) if example.is_floating_point() else example
