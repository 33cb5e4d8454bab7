"""How the samples of a phase are best delivered: kept where they were sent, and sent ahead.

Samples that are kept are sent once instead of in every epoch, and those that are sent ahead travel while the iteration
before computes: neither ever takes longer. So where memory and storage hold both, that is the best delivery; only where
they do not is there something to weigh. The papers' strategies know neither, and keep what their papers count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from palmette.cost.check import too_large
from palmette.cost.delivery import sending_sources
from palmette.plan.core.strategy import Task
from palmette.spec.cluster import Cluster
from palmette.spec.plan import USUAL_AHEAD, Phase

_DEPTHS = (16, 4, 2, 1, 0)
"""Iterations ahead that are tried, as memory allows: short iterations need many of them to cover a latency."""
_MOST_WEIGHED = 4
"""Sources of which all sets are weighed where not all can be kept; of more, the largest go first."""


def with_delivery(phase: Phase, task: Task) -> Phase:
    """The phase with its samples delivered in the way that takes the least time over the task's epochs."""
    candidates = deliveries(phase, task) or [phase]
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda each: task.evaluator.price(each).mean_iteration(task.horizon)[0])


def deliveries(phase: Phase, task: Task) -> list[Phase]:
    """The ways to deliver samples that fit and that no other way beats: one where memory and storage hold all.

    There is none where the phase itself does not fit: sent each time and not ahead, samples take no room at all.
    """
    sending = sending_sources(phase)
    if not sending:
        return [phase] if fits(phase, task) else []
    keepable = [k for k in sending if may_be_kept(phase.sources[k].node, task.cluster)]
    best = delivered(phase, keepable, ahead=_DEPTHS[0] if phase.sync_kind.one_model else 0)
    if fits(best, task):
        return [best]
    return list(_maximal(phase, keepable, task)) if fits(delivered(phase, ()), task) else []


def delivered(phase: Phase, kept: Iterable[int], *, ahead: int = 0) -> Phase:
    """The phase with the samples of some sources kept where they are sent, those of all others sent each time.

    ``ahead`` is how many iterations early they are sent, 0 for none.
    """
    once = set(kept)
    sources = tuple(
        source.model_copy(update={"delivery": "once" if k in once else "each"})
        for k, source in enumerate(phase.sources)
    )
    return phase.model_copy(update={"sources": sources, "ahead": ahead > 0, "ahead_iterations": ahead or USUAL_AHEAD})


def delivered_ahead(phase: Phase, kept: Iterable[int], task: Task) -> Phase:
    """The same, sent as many iterations early as memory holds, at least one."""
    once = set(kept)
    return next(
        (found for ahead in _DEPTHS if ahead and fits(found := delivered(phase, once, ahead=ahead), task)),
        delivered(phase, once, ahead=1),
    )


def may_be_kept(source: str, cluster: Cluster) -> bool:
    """Whether samples of a node can be used again: those of a stream are always new."""
    owned = cluster.nodes[source].source
    return owned is not None and not owned.stream


def _maximal(phase: Phase, keepable: list[int], task: Task) -> Iterator[Phase]:
    """The deliveries that fit and that no other which fits contains, those that keep most first."""
    fitting: list[tuple[frozenset[int], int]] = []
    for kept in _subsets(phase, keepable):
        for ahead in _DEPTHS if phase.sync_kind.one_model else (0,):
            if any(kept <= other and ahead <= other_ahead for other, other_ahead in fitting):
                continue
            candidate = delivered(phase, kept, ahead=ahead)
            if fits(candidate, task):
                fitting.append((kept, ahead))
                yield candidate


def _subsets(phase: Phase, sources: list[int]) -> Iterator[frozenset[int]]:
    """Sets of sources whose samples are kept, large ones first: all sets, or of many only those of the smallest."""
    by_size = sorted(sources, key=lambda k: phase.sources[k].samples)
    for many in range(len(by_size), -1, -1):
        for chosen in combinations(by_size, many) if len(by_size) <= _MOST_WEIGHED else (by_size[:many],):
            yield frozenset(chosen)


def fits(phase: Phase, task: Task) -> bool:
    """Whether every node holds its part of a phase."""
    nodes = task.cluster.nodes.values()
    if all(node.memory_bytes is None and node.storage_bytes is None for node in nodes):
        return True
    return next(too_large(phase, task.evaluator), None) is None
