"""How this machine computes while it is measured: as the worker of the node that it is measured for."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from torch import nn

from palmette.runtime.devices import usable_device
from palmette.runtime.options import Precision
from palmette.runtime.worker.precision import autocast
from palmette.spec.cluster import DeviceName, Node
from palmette.zoo.models import Network


@dataclass(frozen=True)
class ComputeSettings:
    """Torch's threads (None: as many as this machine has cores), the device, and the precision under autocast."""

    threads: int | None = 1
    device: DeviceName = "cpu"
    precision: Precision | None = None

    def autocast(self) -> AbstractContextManager[object]:
        """The precision of a forward pass."""
        return autocast(self.precision, self.device)

    def placed(self, network: Network) -> Network:
        """The network with its layers on the device: itself on the CPU, else a copy."""
        if self.device == "cpu":
            return network
        device = usable_device(self.device)
        # Copied together, so that layers that share a weight still do.
        modules = copy.deepcopy(nn.ModuleList(layer.module for layer in network.layers)).to(device)
        layers = [replace(layer, module=module) for layer, module in zip(network.layers, modules, strict=True)]
        return replace(network, layers=tuple(layers), module=None)


def node_settings(node: Node, precision: Precision | None, *, real_host: bool = False) -> ComputeSettings:
    """How a node's worker computes; ``real_host`` where it is measured on the node itself, whatever its address."""
    return ComputeSettings(node.thread_count(real_host=real_host), node.device, precision)
