"""Error feedback: what a lossy coder has left out of a tensor is added to the next one.

    wanted = values + residual        message = compress(wanted)        residual ← wanted − extract(message)

So nothing is lost, only late: at any time, all that was sent and the residual make up all that there was to send
(Seide et al., 2014; Karimireddy et al., Error Feedback Fixes SignSGD, 2019).

The state of a weight is saved beside its optimizer's, under ``weight's name/exchange:node:key``, since each node has
left out something else; that of differences, which windows exchange, under ``weight's name/difference:instance:key``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, unquote

from torch import Tensor

from palmette.compress.coders.base import Coder, Memory

RESIDUAL = "residual"
GRADIENTS = "exchange"
"""Marks what was left out of gradients, by the node that did so."""
DIFFERENCES = "difference"
"""Marks what was left out of differences, by the instance that did so."""


class ErrorFeedback:
    """Compresses tensors by name, each with its own residual; ``memories`` is all that has to be saved."""

    def __init__(self, coder: Coder) -> None:
        self.coder = coder
        self.memories: dict[str, Memory] = {}

    def take_residual(self, name: str) -> Tensor | None:
        """What is still to be sent of a tensor; whoever takes it adds it to the next values."""
        return self.memories.get(name, {}).pop(RESIDUAL, None)

    def compress(self, name: str, values: Tensor) -> tuple[Tensor, Tensor]:
        """The message of a tensor to which the residual has been added, and what arrives."""
        memory = self.memories.setdefault(name, {})
        message = self.coder.compress(values, memory)
        arriving = self.coder.extract(message, tuple(values.shape), values.dtype)
        memory[RESIDUAL] = values - arriving
        return message, arriving


def saved_name(weight: str, owner: str, key: str, mark: str = GRADIENTS) -> str:
    """The name under which an owner's memory of a weight is saved."""
    return f"{weight}/{mark}:{quote(owner, safe='')}:{key}"


def is_of_exchange(name: str, *marks: str) -> bool:
    """Whether a name in a saved state is that of error feedback, of any mark unless some are given."""
    return name.rpartition("/")[2].startswith(tuple(f"{mark}:" for mark in marks or (GRADIENTS, DIFFERENCES)))


def saved_memories(
    state: Mapping[str, Tensor], weights: Iterable[str], mark: str = GRADIENTS
) -> Iterator[tuple[str, str, Tensor]]:
    """Of one weight, by all its names: the owner, the key and the value of what is saved, each once."""
    own, seen = set(weights), set[str]()
    for name, value in state.items():
        weight, _, rest = name.rpartition("/")
        if weight in own and is_of_exchange(name, mark) and rest not in seen:
            seen.add(rest)
            _, owner, key = rest.split(":", 2)
            yield unquote(owner), key, value
