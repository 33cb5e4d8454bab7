"""How seldom and how small replicas agree, and on how much of the data they train: what only a learning curve weighs.

Long windows send less, and learn less from the same samples; so do codecs, and an epoch over a part of the data is
short. A setting is one of each. Epochs are whole: over all of the data one too many can cost more than a window or a
codec saves, so these are tried together, and codecs of outputs after them. Windows are only as long, and data only as
little, as runs of the curve have tried; codecs are those that it has a factor for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from palmette.cost.batch_norm import small_parts
from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import samples_by_instance
from palmette.errors import PalmetteError
from palmette.plan.core.choice import best
from palmette.plan.core.forest import servers
from palmette.plan.core.make_plan import with_exchange
from palmette.plan.core.samples import apportion
from palmette.plan.core.strategy import Task
from palmette.spec.codec import CODEC_KINDS, Codec
from palmette.spec.codec_term import Coding
from palmette.spec.exchange import PLAIN_EXCHANGE, Exchange, known_exchange
from palmette.spec.learning import Learning
from palmette.spec.plan import Phase


class Agreement(NamedTuple):
    """How replicas of a tree agree: after how many steps, with which codec; and the part of its data that is used.

    ``outputs`` is how those travel that go to another node; None for the tree's own way.
    """

    window: int = 1
    exchange: Exchange = PLAIN_EXCHANGE
    fraction: float = 1.0
    outputs: Codec | None = None


class Agreements(NamedTuple):
    """What may be chosen for a tree, a dimension each."""

    windows: Sequence[int]
    exchanges: Sequence[Exchange]
    fractions: Sequence[float]
    outputs: Sequence[Codec | None] = (None,)

    def with_outputs_of(self, one: Agreement) -> list[Agreement]:
        """All settings whose outputs travel as those of one."""
        return [Agreement(*each, one.outputs) for each in product(self.windows, self.exchanges, self.fractions)]

    def with_other_outputs(self, one: Agreement) -> list[Agreement]:
        """Settings that differ from one in outputs alone."""
        return [one._replace(outputs=each) for each in self.outputs]


def agreements(task: Task, learning: Learning, *, lossy: bool) -> Agreements:
    """What a curve knows of, codecs only where they are allowed; a codec that was asked for is not open."""
    asked = task.exchange.kind.lossy
    found = [task.exchange] if asked else [PLAIN_EXCHANGE, *(known_exchanges(task, learning) if lossy else [])]
    least = learning.least_fraction_tried if "data" in learning.fitted_on else 1.0
    outputs = [None, *(_known_outputs(learning) if lossy else [])]
    return Agreements([1, *_lengths(learning)], found, sorted({1.0, least}, reverse=True), outputs)


def _known_outputs(learning: Learning) -> list[Codec]:
    """The codecs of outputs that a curve has a factor for, each once."""
    return [codec for codec in CODEC_KINDS if learning.terms_of([Coding("outputs", codec)])]


def known_exchanges(task: Task, learning: Learning) -> list[Exchange]:
    """The codecs of exchanges that a curve has a factor for, each once, and whose sizes the profile knows."""
    names = dict.fromkeys(term.coding.codec for term in learning.codecs if term.of != "outputs")
    shapes = task.evaluator.sizes().has_shapes
    return [each for each in map(known_exchange, names) if shapes or not each.kind.needs_shapes]


def _lengths(learning: Learning) -> list[int]:
    """Windows up to the longest that a run had, each twice as long as the one before; none where they are unknown."""
    if learning.window_exponent is None:
        return []
    longest = int(learning.fitted_on.get("window", (1.0, 1.0))[1])
    return sorted({2**power for power in range(1, longest.bit_length()) if 2**power <= longest} | {longest} - {1})


class AgreeingTree:
    """A tree with the ways in which its replicas may agree."""

    def __init__(self, tree: Phase, task: Task, learning: Learning) -> None:
        self._tree, self._task = tree, task
        self._apart = _apart(tree, task, learning)
        self._amounts = task.evaluator.epoch_samples(tree)

    def phase(self, way: Agreement) -> Phase | None:
        """The tree as a setting says; None where its replicas cannot train apart, or nothing travels coded."""
        base = self._tree if way.window == 1 else self._apart
        if base is not None and way.outputs is not None:
            base = with_output_codec(base, way.outputs)
        if base is None:
            return None
        if way.window > 1:
            base = base.model_copy(update={"every": way.window})
        coded = with_exchange(base.model_copy(update={"exchange": PLAIN_EXCHANGE}), way.exchange)
        if coded.exchange != way.exchange and not self._task.exchange.kind.lossy:
            return None
        return coded if way.fraction == 1 else self._with_part(coded, way.fraction)

    def _with_part(self, phase: Phase, fraction: float) -> Phase | None:
        """The phase on a part of the samples of each source; None where it takes a part already."""
        if any(source.epoch_samples is not None for source in phase.sources):
            return None
        amounts: dict[int, int] = {}
        for name, owned in self._amounts.items():
            feeds = [k for k, source in enumerate(phase.sources) if source.node == name]
            wanted = max(len(feeds), math.ceil(fraction * owned - 1e-9))
            amounts |= dict(zip(feeds, apportion(wanted, [phase.sources[k].samples for k in feeds]), strict=True))
        if min(amounts.values()) < 1:
            return None
        used = [each.model_copy(update={"epoch_samples": amounts[k]}) for k, each in enumerate(phase.sources)]
        return phase.model_copy(update={"sources": tuple(used)})


def with_output_codec(phase: Phase, codec: Codec) -> Phase | None:
    """The phase with all outputs coded this way that go to another node; None where none does, or all are already."""
    places = {each.id: each.node for each in phase.instances}
    travel = [each.into is not None and places[each.into] != each.node for each in phase.instances]
    coded = tuple(
        each.model_copy(update={"codec": codec}) if travels else each
        for each, travels in zip(phase.instances, travel, strict=True)
    )
    return None if coded == phase.instances else phase.model_copy(update={"instances": coded})


def _apart(tree: Phase, task: Task, learning: Learning) -> Phase | None:
    """The tree with replicas that train apart, and the server where an epoch is best; None where they cannot."""
    update = {"sync": "every", "every": 2, "outer": learning.outer, "ahead": False, "batch_norm": "parts", "meet": None}
    apart = tree.model_copy(update=update | {"overlap": False})
    if apart.replicas == 1 or small_parts(apart, task.evaluator.sizes(apart.pruning), samples_by_instance(apart)):
        return None
    candidates = [apart.model_copy(update={"server": node}) for node in servers(task)]
    try:
        return best(candidates, task, Evaluator.mean_epoch).phase
    except PalmetteError:
        return None
