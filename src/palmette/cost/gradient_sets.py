"""How many gradients of each weight a node holds at most, before it sends or uses their sum.

Instances of one node that share a layer add their gradients up in the plan's order, so that the sum is the same to the
last bit. What comes in that order is added at once: the node holds the sum, and the gradients that a backward pass has
just made. What comes before its turn waits:

    in turns                  first come, first served, at worst
    0      ▸ sum              3 waits
    sum, 1 ▸ sum              3, 2 wait
    sum, 2 ▸ sum              3, 2, 1 wait
    sum, 3 ▸ sum              3, 2, 1, 0 ▸ sum

Microbatches in turns come in that order, where their roots are listed in it. Of others, all may have to wait; and where
gradients accumulate over several iterations, each instance keeps its own until they are exchanged.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from palmette.cost.order import microbatches
from palmette.cost.sizes import Run
from palmette.spec.plan import Phase


def gradient_sets(phase: Phase, *, in_turns: bool, accumulates: bool) -> dict[str, list[tuple[Run, int]]]:
    """For each node the layers that its instances share, and how many gradients of each weight it holds at most."""
    held: dict[str, list[int]] = {}
    for k, instance in enumerate(phase.instances):
        held.setdefault(instance.node, []).append(k)
    ordered = {tuple(group) for group in microbatches(phase) if group == sorted(group)} if in_turns else set()
    found: dict[str, list[tuple[Run, int]]] = {}
    for node, own in held.items():
        for run, holders in _shared_runs(phase, own) if len(own) > 1 else ():
            at_once = tuple(holders) in ordered and not accumulates
            found.setdefault(node, []).append((run, 2 if at_once else len(holders)))
    return found


def _shared_runs(phase: Phase, own: Sequence[int]) -> Iterator[tuple[Run, list[int]]]:
    """Runs of layers, each with the several instances that hold all of it; others hold none of it."""
    runs = {k: phase.instances[k].layers for k in own}
    cuts = sorted({cut for first, last in runs.values() for cut in (first - 1, last)})
    for before, last in itertools.pairwise(cuts):
        holders = [k for k, run in runs.items() if run[0] <= before + 1 and last <= run[1]]
        if len(holders) > 1:
            yield (before + 1, last), holders
