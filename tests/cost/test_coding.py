"""Coded exchanges on the clock: bytes and seconds worked out by hand."""

from __future__ import annotations

import math

import pytest

from palmette.cost.check import check
from palmette.cost.evaluate import Evaluator
from palmette.cost.sync.windows import weight_exchange
from palmette.spec.cluster import Cluster
from palmette.spec.exchange import Exchange, known_exchange
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.cost.small import cluster, instance, link, node, phase, plan, profile, source, times, timetable

NUMBERS = 1024


def world() -> Cluster:
    return cluster(link("a", "b", 8000.0), a=node(10), b=node(10))


def known(*, coding: bool = True, shapes: bool = True) -> Profile:
    coded = {"int8": [1e-4, 5e-5], "lowrank": [2e-4, 1e-4]} if coding else None
    nodes = {"a": {**times(1), "coding_s": coded}, "b": {**times(1), "coding_s": coded}}
    made = profile([(4.0 * NUMBERS, 4.0)], a=nodes["a"], b=nodes["b"])
    layers = [layer.model_copy(update={"weight_shapes": ((32, 32),)}) for layer in made.layers]
    return made.model_copy(update={"layers": tuple(layers)}) if shapes else made


def replicas(text: str = "none") -> Phase:
    parts = (source("a", 1, "I"), source("b", 1, "J"), instance("I", 1, 1, "a"), instance("J", 1, 1, "b"))
    return phase(*parts, exchange=known_exchange(text).model_dump())


def transfer_s(text: str, *, coding: bool) -> tuple[float, float]:
    """How long the push and the pull take."""
    table = timetable(Evaluator(known(coding=coding), world()).price(replicas(text)))
    return tuple(table[kind, "J"][1] - table[kind, "J"][0] for kind in ("push", "pull"))  # type: ignore[return-value]


def test_the_clock_counts_the_bytes_of_the_codec() -> None:
    for text, size in (("none", 4096), ("bf16", 2048), ("int8", 1024 + 16), ("topk:0.1", 8 * 103), ("lowrank:2", 512)):
        assert transfer_s(text, coding=False) == pytest.approx((size / 1000, size / 1000)), text


def test_the_clock_counts_the_seconds_of_coding() -> None:
    """A push: compressed and extracted there, extracted here. A pull: extracted; the average: both."""
    sent_s = 1.040
    assert transfer_s("int8", coding=True) == pytest.approx(
        (sent_s + NUMBERS * (1e-4 + 5e-5 + 5e-5), sent_s + NUMBERS * 5e-5)
    )
    table = timetable(Evaluator(known(), world()).price(replicas("int8")))
    begin, end = table["average", "I"]
    assert end - begin == pytest.approx(NUMBERS * 1.5e-4)
    assert transfer_s("lowrank:4", coding=True)[1] == pytest.approx(1.024 + 2 * NUMBERS * 1e-4)


def test_a_profile_without_times_of_codecs_and_one_without_a_codec_cost_what_they_did() -> None:
    assert transfer_s("none", coding=True) == transfer_s("none", coding=False) == pytest.approx((4.096, 4.096))


def test_an_evaluator_prices_phases_that_say_nothing_as_it_was_told() -> None:
    asked = Evaluator(known(), world(), exchange=Exchange(codec="int8"))
    assert asked.price(replicas()).iteration_s == Evaluator(known(), world()).price(replicas("int8")).iteration_s
    assert asked.price(replicas("bf16")).iteration_s == Evaluator(known(), world()).price(replicas("bf16")).iteration_s


def test_what_is_left_out_takes_memory() -> None:
    plain, coded = (Evaluator(known(), world()).peak_bytes(replicas(text)) for text in ("none", "int8"))
    assert {name: coded[name] - plain[name] for name in plain} == {"a": 4096.0, "b": 4096.0}


def test_a_codec_that_cannot_be_used_is_refused_in_one_line() -> None:
    unknown = Evaluator(known(shapes=False), world())
    (fault,) = check(plan(replicas("lowrank")), unknown)
    assert str(fault).startswith("phases[0].exchange.codec: lowrank: the profile has no shapes of weights")
    assert not check(plan(replicas("int8")), unknown)
    apart = replicas("int8").model_copy(update={"sync": "async"})
    (fault,) = check(plan(apart), Evaluator(known(), world()))
    assert str(fault) == (
        "phases[0].exchange.codec: int8: under async neither gradients nor weights are averaged; expected none"
    )


def windows(text: str) -> Phase:
    return replicas(text).model_copy(update={"sync": "every", "every": 5})


def exchange_s(text: str, *, coding: bool) -> float:
    """Seconds of the exchange after a window."""
    return weight_exchange(Evaluator(known(coding=coding), world()), windows(text)).time_s


def test_windows_exchange_differences_of_the_same_bytes_and_seconds_of_coding() -> None:
    """There and back over one link; between them the server codes the mean."""
    for text, size in (("none", 4096), ("bf16", 2048), ("int8", 1024 + 16), ("topk:0.1", 8 * 103), ("lowrank:2", 512)):
        assert exchange_s(text, coding=False) == pytest.approx(2 * size / 1000), text
    coded_s = NUMBERS * ((1e-4 + 5e-5 + 5e-5) + (1e-4 + 5e-5) + 5e-5)
    assert exchange_s("int8", coding=True) == pytest.approx(2 * 1.040 + coded_s)
    for sync in ({"sync": "every", "every": 5}, {"sync": "epoch"}):
        apart = [replicas(text).model_copy(update=sync) for text in ("none", "int8")]
        plain, coded = (Evaluator(known(coding=False), world()).price(each).epoch.time_s for each in apart)
        exchanges = math.ceil(10 / 5) if "every" in sync else 1
        assert plain - coded == pytest.approx(exchanges * 2 * (4.096 - 1.040))


def test_what_windows_leave_out_takes_memory_beside_the_weights_that_they_began_with() -> None:
    plain, coded = (Evaluator(known(), world()).peak_bytes(windows(text)) for text in ("none", "int8"))
    assert {name: coded[name] - plain[name] for name in plain} == {"a": 2 * 4096.0, "b": 2 * 4096.0}


def test_an_evaluator_prices_windows_that_say_nothing_as_it_was_told() -> None:
    asked = Evaluator(known(), world(), exchange=Exchange(codec="int8"))
    assert asked.price(windows("none")).iteration_s == Evaluator(known(), world()).price(windows("int8")).iteration_s
