"""Outputs that both ends keep, on the clock: bytes, seconds and memory worked out by hand."""

from __future__ import annotations

import pytest

from palmette.cost.check import check
from palmette.cost.evaluate import Evaluator
from palmette.cost.kept_outputs import KEPT_OUTPUT_BYTES, kept_output_bytes, known_fractions
from palmette.runtime.data.samples import SourceGroup, StepBatches
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.cost.small import cluster, instance, link, node, phase, plan, profile, source, times

NUMBERS = 640
"""Of an output; in 16 channels."""
FIRST, LATER, BACK = NUMBERS + 4 * 16 + 8, NUMBERS // 2 + 4 * 10 + 8, NUMBERS + 4 * 16
"""Bytes of a new sample, of one whose last output is kept, each with its label, and of the gradient."""


def world(**more: object) -> Cluster:
    return cluster(link("a", "b", 8000.0), a=node(10) | more, b=node())


def known() -> Profile:
    coded = {"int8": [1e-4, 5e-5], "int4-delta": [3e-4, 2e-4]}
    slow = {"a": {**times(2), "coding_s": coded}, "b": {**times(2), "coding_s": coded}}
    made = profile([(4.0, 4.0 * NUMBERS), (4.0, 4.0)], a=slow["a"], b=slow["b"])
    first = made.layers[0].model_copy(update={"output_channels": 16})
    return made.model_copy(update={"layers": (first, made.layers[1])})


def cut(codec: str = "int4-delta") -> Phase:
    return phase(source("a", 1, "I"), instance("I", 1, 1, "a", "J", codec=codec), instance("J", 2, 2, "b"))


def test_a_later_epoch_has_the_bytes_and_the_coding_of_deltas() -> None:
    price = Evaluator(known(), world()).price(cut())
    assert price.first_epoch.sent_bytes == 10 * (FIRST + BACK)
    assert price.epoch.sent_bytes == 10 * (LATER + BACK)
    back_s = BACK / 1000 + NUMBERS * 1.5e-4
    first_s, later_s = FIRST / 1000 + NUMBERS * (1e-4 + 2 * 5e-5), LATER / 1000 + NUMBERS * 5e-4
    assert price.first_epoch_iteration_s == pytest.approx(7 - 0.5 + first_s + back_s)
    assert price.iteration_s == pytest.approx(7 - 0.5 + later_s + back_s)
    assert price.total_s(3) == pytest.approx(10 * price.first_epoch_iteration_s + 20 * price.iteration_s)


def test_the_estimate_of_several_epochs_tells_the_first_apart() -> None:
    int8, deltas = (Evaluator(known(), world()).price(cut(codec)) for codec in ("int8", "int4-delta"))
    assert deltas.first_epoch.sent_bytes == int8.epoch.sent_bytes
    assert deltas.sent_bytes(4) == deltas.first_epoch.sent_bytes + 3 * deltas.epoch.sent_bytes < int8.sent_bytes(4)


def test_what_is_kept_has_to_fit_the_memory() -> None:
    size = 10 * (4 * NUMBERS + KEPT_OUTPUT_BYTES)
    assert kept_output_bytes(cut(), world(), Evaluator(known(), world()).sizes()) == {"a": size, "b": size}
    need = Evaluator(known(), world()).peak_bytes(cut())["a"]
    assert not check(plan(cut()), Evaluator(known(), world(memory_bytes=need)))
    (fault,) = check(plan(cut()), Evaluator(known(), world(memory_bytes=need - 1)))
    assert "does not fit the memory of a" in fault.expected
    assert "are kept outputs: expected another codec than int4-delta" in fault.expected
    assert not check(plan(cut("int4")), Evaluator(known(), world(memory_bytes=need - 1)))


def test_samples_that_never_come_back_are_refused() -> None:
    stream = world(source={"samples": 10, "stream": True})
    (fault,) = check(plan(cut()), Evaluator(known(), stream))
    assert str(fault).endswith(
        "instances[0].codec: int4-delta: samples of a are a stream, always new; expected int4 or int8"
    )


def test_several_branches_meet_as_many_new_samples_as_when_they_are_dealt() -> None:
    """The rule of the runtime, with the batches that it draws."""
    samples, batch, part, passes = 640, 16, 10, 10
    tree = phase(
        source("a", part, "I"),
        source("a", batch - part, "K"),
        instance("I", 1, 1, "a", "J", codec="int4-delta"),
        instance("K", 1, 1, "a", "L", codec="int4-delta"),
        instance("J", 2, 2, "b"),
        instance("L", 2, 2, "c"),
    )
    where = cluster(link("a", "b"), link("a", "c"), a=node(samples), b=node(), c=node())
    rule = StepBatches(tree, [SourceGroup(range(2), samples)], 0)
    found = known_fractions(tree, where)
    for k, name in enumerate("IK"):
        had, again, later = set[int](), 0, 0
        for number in range(passes * samples // batch):
            drawn = set(rule.drawn(k, number).numbers.tolist())
            if number >= samples // batch:
                again, later = again + len(drawn & had), later + len(drawn)
            had |= drawn
        assert found[name] == pytest.approx(again / later, abs=0.03)
        assert found[name] < 1
    kept = kept_output_bytes(tree, where, Evaluator(known(), where).sizes())
    assert kept["a"] == pytest.approx(kept["b"] + kept["c"])
