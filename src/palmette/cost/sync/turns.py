"""Parts of the network that are exchanged in turns within a window (Streaming DiLoCo, Douillard et al. 2025).

    every 6, 2 fragments, delay 1     step  1  2  3  4  5  6  7  8  9 10 …
    fragment 0                                    ├──┤              ├──┤
    fragment 1                                             ├──┤

Fragment j is taken after ⌈(j + 1) · every / fragments⌉ steps of a window, so that the link is used evenly. Replicas go
on while it is exchanged; ``delay`` steps later, each goes on from the average, plus what these steps have changed. An
epoch ends with the exchange of all of them instead, after which all replicas are the same.
"""

from __future__ import annotations

from typing import NamedTuple

from palmette.cost.sizes import Run, Sizes
from palmette.spec.plan import Phase


class Turn(NamedTuple):
    """A fragment that is taken after a step of an epoch, and put in place after another."""

    fragment: int
    taken: int
    put: int


class TurnParts(NamedTuple):
    """The numbers of the parts of the exchanges, which follow those of so many trees' steps and the whole exchange."""

    trees: int

    def take(self, fragment: int) -> int:
        """Copies of a fragment's weights."""
        return self.trees + 1 + 3 * fragment

    def exchange(self, fragment: int) -> int:
        """What was taken to the server, and the average back."""
        return self.take(fragment) + 1

    def put(self, fragment: int) -> int:
        """The average in place."""
        return self.take(fragment) + 2

    def puts(self, part: int) -> bool:
        """Whether a part puts averages in place."""
        return (part - self.put(0)) % 3 == 0


def turns_of(phase: Phase, steps: int) -> list[Turn]:
    """The turns of an epoch of so many steps, in order; none at its end."""
    if phase.turns is None or phase.every is None:
        return []
    many, found = phase.turns.fragments, []
    places = {-(-(j + 1) * phase.every // many): j for j in range(many)}
    for step in range(1, steps):
        fragment = places.get((step - 1) % phase.every + 1)
        if fragment is not None:
            found.append(Turn(fragment, step, min(step + phase.turns.delay, steps)))
    return found


def fragment_runs(phase: Phase, sizes: Sizes) -> list[Run]:
    """The layers of each fragment: consecutive, with bytes as equal as layers allow, and at least one layer each."""
    if phase.turns is None:
        return []
    many, depth = phase.turns.fragments, phase.depth
    total, runs, first = sizes.trainable_bytes([(1, depth)]), list[Run](), 1
    for fragment in range(1, many + 1):
        last = first
        while last < depth - (many - fragment) and (
            fragment == many or sizes.trainable_bytes([(1, last + 1)]) <= total * fragment / many
        ):
            last += 1
        runs.append((first, last))
        first = last + 1
    return runs
