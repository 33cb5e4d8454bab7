"""Error feedback: what a lossy coder has left out of a tensor is added to the next one.

    wanted = values + residual        message = compress(wanted)        residual ← wanted − extract(message)

So nothing is lost, only late: at any time, all that was sent and the residual make up all that there was to send
(Seide et al., 2014; Karimireddy et al., Error Feedback Fixes SignSGD, 2019).

The state of a weight is saved beside its optimizer's, under ``weight's name/exchange:node:key``, since each node has
left out something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, unquote

from torch import Tensor

from palmette.compress.coders.base import Coder, Memory

RESIDUAL = "residual"
_MARK = "exchange"


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


def saved_name(weight: str, node: str, key: str) -> str:
    """The name under which a node's memory of a weight is saved."""
    return f"{weight}/{_MARK}:{quote(node, safe='')}:{key}"


def is_of_exchange(name: str) -> bool:
    """Whether a name in a saved state is that of error feedback, not the optimizer's."""
    return name.rpartition("/")[2].startswith(f"{_MARK}:")


def saved_memories(state: Mapping[str, Tensor], weights: Iterable[str]) -> Iterator[tuple[str, str, Tensor]]:
    """Of one weight, by all its names: the node, the key and the value of what is saved, each once."""
    own, seen = set(weights), set[str]()
    for name, value in state.items():
        weight, _, rest = name.rpartition("/")
        if weight in own and is_of_exchange(name) and rest not in seen:
            seen.add(rest)
            _, node, key = rest.split(":", 2)
            yield unquote(node), key, value
