"""Which parts of a batch are too small to be normalised by themselves, and what is said of them."""

from __future__ import annotations

import pytest

from palmette.cost.batch_norm import small_parts
from palmette.cost.check import check
from palmette.cost.estimate import estimate
from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import samples_by_instance
from palmette.cost.sizes import Sizes
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.cost.small import cluster, instance, link, node, phase, plan, profile, source, times

PAIR = cluster(link("a", "b"), a=node(99), b=node(99))


def normed(*channels: tuple[int, ...]) -> Profile:
    """A profile of layers with these batch norms."""
    plain = profile([(1.0, 1.0)] * len(channels), a=times(len(channels)), b=times(len(channels)))
    layers = [
        layer.model_copy(update={"batch_norm_channels": own}) for layer, own in zip(plain.layers, channels, strict=True)
    ]
    return plain.model_copy(update={"layers": tuple(layers)})


def split(a: int, b: int, **more: object) -> Phase:
    """Layer 1 on both nodes, layer 2 on b."""
    return phase(
        source("a", a, "I"),
        source("b", b, "J"),
        instance("I", 1, 1, "a", "K"),
        instance("J", 1, 1, "b", "K"),
        instance("K", 2, 2, "b"),
        **more,
    )


def small(made: Phase, of: Profile, floor: int = 32) -> list[tuple[str, int]]:
    sizes = Sizes(of, of.input_bytes)
    return [tuple(part) for part in small_parts(made, sizes, samples_by_instance(made), floor)]


def test_parts_below_the_floor_that_hold_a_batch_norm_are_small() -> None:
    first, second = normed((3,), ()), normed((), (3,))
    assert small(split(31, 40), first) == [("I", 31)]
    assert small(split(32, 40), first) == []
    assert small(split(31, 40), second) == []  # layer 2 sees the whole batch
    assert small(split(5, 4), first, floor=5) == [("J", 4)]


def test_a_whole_batch_below_the_floor_is_not_small() -> None:
    assert small(phase(source("a", 4, "I"), instance("I", 1, 2, "a")), normed((3,), (3,))) == []


def test_parts_that_share_statistics_are_not_small() -> None:
    assert small(split(1, 1, batch_norm="whole"), normed((3,), ())) == []


def test_the_estimate_warns_of_small_parts_and_only_of_those() -> None:
    (told,) = estimate(plan(split(3, 40)), normed((3,), ()), PAIR).warnings
    assert told.startswith("batch norm sees only a part of the batch in I, 3 samples in I")
    assert estimate(plan(split(3, 40)), normed((), ()), PAIR).warnings == ()
    assert estimate(plan(split(3, 40, batch_norm="whole")), normed((3,), ()), PAIR).warnings == ()


@pytest.mark.parametrize("sync", ["epoch", "async"])
def test_statistics_are_shared_under_step_alone(sync: str) -> None:
    made = split(3, 4, batch_norm="whole", sync=sync)
    (fault,) = check(plan(made), Evaluator(normed((3,), ()), PAIR))
    assert fault.field == "phases[0].batch_norm"
    assert "expected parts" in fault.expected


def test_sharing_statistics_costs_time_and_bytes() -> None:
    norms = normed((3,), ())
    parts, whole = (Evaluator(norms, PAIR).price(split(3, 4, batch_norm=how)) for how in ("parts", "whole"))
    assert whole.iteration_s == parts.iteration_s + 4 * 56  # a message of 56 bytes each way, forward and backward
    assert whole.nodes["a"].sent_bytes == parts.nodes["a"].sent_bytes + 2 * 56
