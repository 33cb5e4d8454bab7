"""Samples of a stream are used once: a stream lasts as long as it has new ones, and an epoch takes whole batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palmette.cost.evaluate import Evaluator
from palmette.runtime.data.batches import Batches
from palmette.runtime.data.epoch_length import EpochData, common_steps, phase_shards, tree_steps
from palmette.runtime.data.samples import SampleRule, ShardBatches, SourceGroup, StepBatches
from palmette.runtime.data.streams import StreamLength, shortest_stream, tree_limits
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, phase, profile, source, times

DATA = EpochData("common", {"common": 100, "own": 50, "more": 200})
FEEDS = (source("a", 4, "A"), source("b", 3, "B"))
WHOLE = (instance("A", 1, 2, "a"), instance("B", 1, 2, "b"))


def camera(samples: int = 60, *, stream: bool = True, **more: Any) -> dict[str, Any]:
    return {"tier": "device", "source": {"samples": samples, "stream": stream, **more}}


def prices(**nodes: dict[str, Any]) -> Evaluator:
    return Evaluator(profile([(1, 1), (1, 1)], a=times(2), b=times(2)), cluster(link("a", "b"), **nodes))


def apart(sync: str, **more: Any) -> Phase:
    return phase(*FEEDS, *WHOLE, sync=sync, **more)


def repeats(rule: SampleRule, source_number: int, iterations: int) -> bool:
    """Whether a source uses a sample twice in its first steps."""
    drawn = np.concatenate([rule.drawn(source_number, k).numbers for k in range(iterations)])
    return len(set(drawn.tolist())) < len(drawn)


def test_sources_of_common_data_use_it_up_together() -> None:
    known = prices(a=camera(), b=camera(40, stream=False))
    found = shortest_stream(apart("step"), known, DATA, 0)
    assert found == StreamLength("a", 100, 14)  # 98 of 100 samples
    assert common_steps(apart("step"), known, DATA) == 14
    rule = StepBatches(apart("step"), [SourceGroup(range(2), 100)], seed=3)
    drawn = [rule.drawn(k, number).numbers for number in range(14) for k in range(2)]
    assert len(set(np.concatenate(drawn).tolist())) == 98


def test_a_stream_of_its_own_data_lasts_as_long_as_that() -> None:
    known = prices(a=camera(data="own"), b=camera(data="more"))
    assert shortest_stream(apart("step"), known, DATA, 0) == StreamLength("a", 50, 12)
    groups = [SourceGroup([0], 50), SourceGroup([1], 200)]
    rule = StepBatches(apart("step"), groups, seed=3)
    assert [repeats(rule, 0, many) for many in (12, 13)] == [False, True]


def test_what_is_no_stream_never_ends() -> None:
    known = prices(a=camera(data="own", stream=False), b=camera(data="more"))
    assert shortest_stream(apart("step"), known, DATA, 0) == StreamLength("b", 200, 66)
    known = prices(a=camera(stream=False), b=camera(stream=False))
    for sync in ("step", "epoch", "async"):
        assert shortest_stream(apart(sync), known, DATA, 0) is None
    assert common_steps(apart("step"), known, DATA) == 15


def test_earlier_iterations_have_taken_their_part() -> None:
    known = prices(a=camera(), b=camera(40))
    for first, left in ((5, 9), (14, 0), (20, 0)):
        found = shortest_stream(apart("step"), known, DATA, first)
        assert found is not None
        assert found.iterations == left


def test_an_epoch_of_federated_averaging_takes_whole_batches_of_each_shard() -> None:
    known = prices(a=camera(61), b=camera(39))
    tree = apart("epoch")
    assert tree_steps(tree, known, DATA) == [15, 13]
    found = shortest_stream(tree, known, DATA, 0)
    assert found is not None
    assert found.iterations == 15  # one epoch, whichever stream ends first
    shares = phase_shards(tree, known, DATA)
    rule = ShardBatches(
        [
            (share.indices(100, 3), Batches(share.size(100), feed.samples, 3))
            for share, feed in zip(shares, tree.sources, strict=True)
        ]
    )
    assert [repeats(rule, k, many) for k, many in ((0, 15), (0, 16), (1, 13), (1, 14))] == [False, True] * 2


def test_a_second_local_epoch_is_not_to_be_had() -> None:
    found = shortest_stream(apart("epoch", local_epochs=2), prices(a=camera(), b=camera(40)), DATA, 0)
    assert found is not None
    assert found.iterations < 2 * 13


@pytest.mark.parametrize("b", [20, 40])
def test_under_async_all_streams_together_are_used_up(b: int) -> None:
    known = prices(a=camera(100 - b), b=camera(b))
    tree = apart("async", server="a")
    assert tree_limits(tree, known, DATA, 0) == [(100 - b) // 4, b // 3]
    assert tree_limits(tree, known, DATA, 5) == [(100 - b) // 4 - 5, b // 3 - 5]
    assert shortest_stream(tree, known, DATA, 0) == StreamLength("a and b", 100, (100 - b) // 4 + b // 3)


def test_under_async_a_source_that_is_no_stream_takes_all_steps_that_are_left() -> None:
    known = prices(a=camera(60), b=camera(40, stream=False))
    tree = apart("async", server="a")
    assert tree_limits(tree, known, DATA, 0) == [15, None]
    assert shortest_stream(tree, known, DATA, 0) is None
