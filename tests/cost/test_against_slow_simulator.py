"""The evaluator prices random trees as the slow, obviously right simulator does."""

from __future__ import annotations

import pytest

from palmette.cost.evaluate import Evaluator
from tests.cost.random_trees import random_case
from tests.cost.slow_simulator import Ambiguous, Result, Simulator

CASES, CHUNK = 400, 40


def slow_result(seed: int) -> Result | None:
    """What the slow simulator says; None where the text leaves open which path a transfer takes."""
    try:
        return Simulator(*random_case(seed)).run()
    except Ambiguous:
        return None


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_time_energy_traffic_and_load_of_random_trees_agree(first: int) -> None:
    compared = 0
    for seed in range(first, first + CHUNK):
        slow = slow_result(seed)
        if slow is not None:
            compared += 1
            assert_equal(seed, slow)
    assert compared > CHUNK / 2


def assert_equal(seed: int, slow: Result) -> None:
    phase, profile, cluster = random_case(seed)
    price = Evaluator(profile, cluster).price(phase)
    told = f"seed {seed}"
    assert price.iteration_s == pytest.approx(float(slow.iteration_s), rel=1e-9, abs=1e-12), told
    if slow.iteration_j is None:
        assert price.iteration_j is None, told
    else:
        assert price.iteration_j == pytest.approx(slow.iteration_j, rel=1e-9, abs=1e-12), told
    for name, part in price.nodes.items():
        assert part.busy_s == pytest.approx(float(slow.busy_s[name]), rel=1e-9, abs=1e-12), told
        assert part.sent_bytes == float(slow.sent_bytes.get(name, 0)), told
        assert part.received_bytes == float(slow.received_bytes.get(name, 0)), told
    assert set(price.nodes) == set(slow.busy_s), told
    assert_same_ends(seed, slow)


def assert_same_ends(seed: int, slow: Result) -> None:
    """Every call ends at the same moment, not only the last."""
    phase, profile, cluster = random_case(seed)
    ((_, made, played),) = Evaluator(profile, cluster).price(phase).played
    for step, end in zip(made.steps, played.end_s, strict=True):
        if step.to is None and step.kind.value != "average":
            key = (step.kind.value, phase.instances[step.instance].id)
            assert end == pytest.approx(float(slow.end_s[key]), rel=1e-9, abs=1e-12), (seed, key)


def test_an_evaluator_that_has_priced_other_phases_says_the_same() -> None:
    # Phases of one cluster: the same instances with other samples, codecs, shares and orders.
    for seed in range(40):
        phase, profile, cluster = random_case(seed)
        more = [source.model_copy(update={"samples": source.samples + k}) for k, source in enumerate(phase.sources)]
        coded = [instance.model_copy(update={"codec": "int8"}) for instance in phase.instances]
        phases = [
            phase,
            phase.model_copy(update={"sources": tuple(more)}),
            phase.model_copy(update={"sources": tuple(reversed(more))}),
            phase.model_copy(update={"instances": tuple(coded)}),
            phase.model_copy(update={"instances": phase.instances[::-1]}),
            phase.model_copy(update={"sync": "epoch"}),
            phase.model_copy(update={"sync": "async"}),
        ]
        used = Evaluator(profile, cluster)
        for each in [*phases, *phases]:
            assert used.price(each) == Evaluator(profile, cluster).price(each), f"seed {seed}"
