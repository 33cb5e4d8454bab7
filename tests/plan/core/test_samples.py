"""The samples of a batch, shared among the sources."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import palmette as pt
from palmette.plan.core.samples import apportion, samples_by_source
from palmette.plan.core.strategy import Task
from palmette.spec.cluster import Cluster
from tests.plan.problems import node, profile


def task(batch: int, **owned: int) -> Task:
    nodes = {name: node("device", samples=many) for name, many in owned.items()} | {"server": node("edge")}
    return Task(profile=profile(), cluster=Cluster(nodes=nodes), batch=batch)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=8), st.integers(0, 10**12))
def test_shares_add_up_and_none_is_empty(weights: list[int], spare: int) -> None:
    total = len(weights) + spare
    shares = apportion(total, weights)
    assert sum(shares) == total
    assert min(shares) >= 1


@given(st.lists(st.integers(1, 100), min_size=1, max_size=8), st.integers(800, 10**6))
def test_where_nobody_is_small_each_is_within_one_of_its_exact_part(weights: list[int], total: int) -> None:
    for share, weight in zip(apportion(total, weights), weights, strict=True):
        assert abs(share * sum(weights) - total * weight) < sum(weights)


def test_one_who_owns_hardly_anything_gives_one_and_the_others_share_the_rest() -> None:
    assert apportion(61, [3000, 1, 1000]) == [45, 1, 15]


@given(st.lists(st.integers(1, 100), min_size=2, max_size=6), st.integers(10, 1000))
def test_who_owns_more_gives_no_less(weights: list[int], total: int) -> None:
    pairs = sorted(zip(weights, apportion(total, weights), strict=True))
    for (fewer, small), (more, large) in itertools.pairwise(pairs):
        assert small <= large or fewer == more


def test_sources_give_in_proportion_to_what_they_own() -> None:
    assert samples_by_source(task(100, a=3000, b=1000)) == {"a": 75, "b": 25}


def test_a_batch_smaller_than_the_number_of_sources_is_refused() -> None:
    with pytest.raises(pt.InputError, match="batch: 2: expected at least 3, a sample from each source"):
        samples_by_source(task(2, a=1, b=1, c=1))


def test_nobody_owns_data() -> None:
    with pytest.raises(pt.InputError, match="no source"):
        samples_by_source(task(8))
