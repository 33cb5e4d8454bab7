"""Labels on the way to the loss: a message carries only those whose source and root are on different nodes.

All others stay on their node until the root of their samples needs them.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from palmette.cost.labels import travelling
from palmette.cost.operations import sources_by_instance
from palmette.errors import RunError
from palmette.spec.plan import Phase


class Labels:
    """The labels of a phase's samples, on one node."""

    def __init__(self, phase: Phase) -> None:
        self._phase, self._travel = phase, travelling(phase)
        self._reach = sources_by_instance(phase)
        self._kept: dict[tuple[int, int], Tensor] = {}
        self._lock = threading.Lock()

    def many(self, k: int) -> int:
        """How many labels are sent with the output of an instance."""
        return sum(self._phase.sources[s].samples for s in self._reach[k] if self._travel[s])

    def travel(self, source: int) -> bool:
        """Whether the labels of a source are sent with its samples."""
        return self._travel[source]

    def staying(self, k: int) -> list[int]:
        """The sources of a root's samples whose labels stay on its node."""
        return [source for source in self._reach[k] if not self._travel[source]]

    def leaving(self, source: int, iteration: int, labels: Tensor) -> Tensor:
        """The labels to send with a source's samples; those that are not sent are kept here for their root."""
        if self._travel[source]:
            return labels
        with self._lock:
            self._kept[source, iteration] = labels
        return labels[:0]

    def at_root(self, k: int, iteration: int, arrived: Tensor) -> Tensor:
        """All labels of a root's samples, in the order of its input: those received, and those kept here."""
        parts, begin = [], 0
        for source in self._reach[k]:
            if self._travel[source]:
                end = begin + self._phase.sources[source].samples
                parts.append(arrived[begin:end])
                begin = end
            else:
                with self._lock:
                    parts.append(self._kept.pop((source, iteration)))
        return torch.cat(parts)


def refuse_unknown_labels(labels: Tensor, classes: int, node: str) -> None:
    """Refuse labels of a node's data that the network has no output for; on a GPU they would crash the process.

    Raises:
        RunError: names the node and the first such label.
    """
    if not len(labels):
        return
    smallest, largest = (int(each) for each in torch.aminmax(labels))
    if smallest < 0 or largest >= classes:
        label = smallest if smallest < 0 else largest
        expected = f"expected 0 to {classes - 1}, the classes of the network"
        raise RunError(f"the data of {node} has label {label}; {expected}")
