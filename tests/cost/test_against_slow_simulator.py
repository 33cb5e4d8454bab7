"""The evaluator prices random trees as the slow, obviously right simulator does."""

from __future__ import annotations

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.cost.steps import REDUCTIONS
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.cost.random_trees import random_case, with_batch_norm, with_recompute
from tests.cost.slow_simulator import Ambiguous, Result, Simulator
from tests.thorough import mostly_slow

CASES, CHUNK = 400, 40
Case = tuple[Phase, Profile, Cluster]


def slow_result(case: Case) -> Result | None:
    """What the slow simulator says; None where the text leaves open which path a transfer takes."""
    phase, profile, cluster = case
    sizes = Evaluator(profile, cluster).sizes()
    try:
        return Simulator(phase, profile, cluster, lambda each: sizes.blocks(each.layers)).run()
    except Ambiguous:
        return None


@pytest.mark.parametrize("first", mostly_slow(range(0, CASES, CHUNK), 5))
def test_time_energy_traffic_and_load_of_random_trees_agree(first: int) -> None:
    compared = 0
    for seed in range(first, first + CHUNK):
        for case in (random_case(seed), with_batch_norm(random_case(seed), seed)):
            slow = slow_result(case)
            if slow is not None:
                compared += 1
                assert_equal(seed, case, slow)
    assert compared > CHUNK


@pytest.mark.parametrize("first", range(0, CASES // 2, CHUNK))
def test_random_trees_with_instances_that_recompute_agree(first: int) -> None:
    compared = 0
    for seed in range(first, first + CHUNK):
        plain = with_recompute(random_case(seed), seed)
        for case in (plain, with_batch_norm(plain, seed)):
            slow = slow_result(case)
            if slow is not None:
                compared += 1
                assert_equal(seed, case, slow)
    assert compared > CHUNK


def assert_equal(seed: int, case: Case, slow: Result) -> None:
    phase, profile, cluster = case
    price = Evaluator(profile, cluster).price(phase)
    told = f"seed {seed}, batch norm {phase.batch_norm}"
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
    assert_same_ends(seed, case, slow)


def assert_same_ends(seed: int, case: Case, slow: Result) -> None:
    """Every instance's pass and update ends at the same moment, not only the last."""
    phase, profile, cluster = case
    ((_, made, played),) = Evaluator(profile, cluster).price(phase).played
    ends = {}
    for step, end in zip(made.steps, played.end_s, strict=True):
        if step.to is None and step.kind not in REDUCTIONS:
            ends[step.kind.value, phase.instances[step.instance].id] = end
    for key, end in ends.items():
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
            phase.model_copy(update={"meet": list(cluster.nodes)[-1]}),
            phase.model_copy(update={"ahead": True}),
            phase.model_copy(update={"sync": "epoch"}),
            phase.model_copy(update={"sync": "async"}),
        ]
        used = Evaluator(profile, cluster)
        for each in [*phases, *phases]:
            assert used.price(each) == Evaluator(profile, cluster).price(each), f"seed {seed}"
