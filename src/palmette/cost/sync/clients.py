"""A part of the clients in each round of federated averaging: which trees take part, and what a round then costs.

    round r     the trees of round r train ──▶ push ──▶ average ──▶ pull to the trees of round r + 1

The trees of a round are those whose SHA-256 of ``seed/round/tree`` (decimal numbers, both counted from 0; as bytes) is
least: uniform over all sets of so many, the same on every machine, and known without the rounds before. Nobody knows
the seed when a plan is priced: its price is the mean over all sets, or, where they are many, over the rounds of seed 0.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from typing import NamedTuple

from palmette.cost.operations import instances_by_tree, sources_by_tree
from palmette.spec.plan import Phase

_MOST_SETS = 32
"""How many sets of trees a price is the mean of, at most."""


class ExchangeParts(NamedTuple):
    """The numbers of the parts of an exchange (``windows``), which follow those of so many trees' steps."""

    trees: int

    def push(self, tree: int) -> int:
        """The weights of a tree to the server."""
        return self.trees + tree

    @property
    def average(self) -> int:
        """The average of what has arrived."""
        return 2 * self.trees

    def pull(self, tree: int) -> int:
        """The average to a tree."""
        return 2 * self.trees + 1 + tree


def drawn_trees(trees: int, many: int, seed: int, number: int) -> list[int]:
    """The trees that take part in a round, in ascending order."""

    def place(tree: int) -> bytes:
        return hashlib.sha256(f"{seed}/{number}/{tree}".encode()).digest()

    return sorted(sorted(range(trees), key=place)[:many])


def possible_draws(phase: Phase) -> list[list[int]]:
    """The sets of trees that a price is the mean of."""
    trees, many = phase.roots, phase.clients or phase.roots
    if math.comb(trees, many) <= _MOST_SETS:
        return [list(drawn) for drawn in itertools.combinations(range(trees), many)]
    return [drawn_trees(trees, many, 0, number) for number in range(_MOST_SETS)]


def with_trees(phase: Phase, drawn: list[int]) -> tuple[Phase, list[int]]:
    """The phase in which these trees take part, and the numbers of their sources; the server stays where it is."""
    instances, sources = instances_by_tree(phase), sources_by_tree(phase)
    taken = sorted(k for tree in drawn for k in sources[tree])
    update = {
        "instances": tuple(phase.instances[k] for k in sorted(k for tree in drawn for k in instances[tree])),
        "sources": tuple(phase.sources[k] for k in taken),
        "server": phase.meeting_node,
        "clients": None,
    }
    return phase.model_copy(update=update), taken
