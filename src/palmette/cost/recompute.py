"""Recomputation of activations: into which blocks of layers an instance is divided, and what it keeps then.

From forward to backward it keeps the inputs of its blocks alone. Backward goes through the blocks, the last first, and
computes the activations of each again just before; so those of one block are there at a time:

    kept      in₁  in₂  in₃                 Σ in  from forward on
    backward  in₁  in₂  in₃ + block 3       Σ in + the largest block  at most
              in₁  in₂ + block 2
              in₁ + block 1

All layers are computed once more, however they are divided, so the best division is the one with the least peak (Chen
and others, "Training Deep Nets with Sublinear Memory Cost", 2016, for blocks of any size). It is found exactly: for
a given largest block the least sum of inputs is a shortest path over the layers, and the largest block shrinks until
the inputs alone outweigh what was found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

Run = tuple[int, int]


class Blocks(NamedTuple):
    """The blocks of some layers as runs (first, last), and the bytes that a sample then keeps at most."""

    runs: tuple[Run, ...]
    peak_bytes: float


def best_blocks(run: Run, input_bytes: Sequence[float], kept_sums: Sequence[float]) -> Blocks:
    """The division of a run of layers with the least peak; of equal ones, one with larger blocks.

    ``input_bytes`` are those of a sample that goes into each layer, by its number; ``kept_sums`` those of the
    activations of all layers up to one.
    """
    first, last = run
    largest = max(kept_sums[layer] - kept_sums[layer - 1] for layer in range(first, last + 1))
    runs: tuple[Run, ...] = (run,)
    found = Blocks(runs, float("inf"))
    while True:
        inputs = sum([input_bytes[begin] for begin, _ in runs])
        kept = max([kept_sums[end] - kept_sums[begin - 1] for begin, end in runs])
        if inputs + kept < found.peak_bytes:
            found = Blocks(runs, inputs + kept)
        if kept <= largest or inputs + largest >= found.peak_bytes:
            return found
        runs = _fewest_inputs(run, input_bytes, kept_sums, kept)


def _fewest_inputs(run: Run, input_bytes: Sequence[float], kept_sums: Sequence[float], below: float) -> tuple[Run, ...]:
    """The blocks, all of which keep less than ``below``, with the least sum of inputs."""
    first, last = run
    least = {first: input_bytes[first]}  # of all blocks up to the one that begins with a layer
    begins: dict[int, int] = {}  # the block that ends with a layer begins with this one
    window: deque[int] = deque()  # where the block that ends here may begin, the best first
    for end in range(first, last + 1):
        while window and least[window[-1]] > least[end]:
            window.pop()
        window.append(end)
        while kept_sums[end] - kept_sums[window[0] - 1] >= below:
            window.popleft()
        begins[end] = window[0]
        if end < last:
            least[end + 1] = least[window[0]] + input_bytes[end + 1]
    return _traced(begins, run)


def _traced(begins: dict[int, int], run: Run) -> tuple[Run, ...]:
    blocks: list[Run] = []
    end = run[1]
    while end >= run[0]:
        blocks.append((begins[end], end))
        end = begins[end] - 1
    return tuple(reversed(blocks))
