"""What recomputation costs and saves, by hand and against all divisions of a few layers."""

from __future__ import annotations

import itertools
import random
from itertools import accumulate

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.cost.recompute import best_blocks
from palmette.cost.warnings import warnings_of
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, node, phase, plan, price, profile, source, times, timetable

# (weights, output, activations) of six layers; one sample of raw data has 1 byte
LAYERS = [(10.0, 2.0, 8.0)] * 6
PAIR = cluster(link("a", "b"), a=node(9, power=(1.0, 3.0)), b=node(9))


def chain(*, recompute: bool) -> Phase:
    return phase(source("a", 4, "I"), instance("I", 1, 4, "a", "J", recompute=recompute), instance("J", 5, 6, "b"))


def peak(divided: list[tuple[int, int]], inputs: list[float], kept: list[float]) -> float:
    return sum(inputs[first] for first, _ in divided) + max(sum(kept[a : b + 1]) for a, b in divided)


def divisions(first: int, last: int) -> list[list[tuple[int, int]]]:
    """All ways to divide some layers."""
    cuts = [c for many in range(last - first + 1) for c in itertools.combinations(range(first, last), many)]
    return [list(zip([first, *(k + 1 for k in c)], [*c, last], strict=True)) for c in cuts]


@pytest.mark.parametrize("seed", range(150))
def test_blocks_are_the_best_of_all_divisions(seed: int) -> None:
    draw = random.Random(seed)
    many = draw.randint(1, 8)
    digits = draw.choice([0, 3])
    inputs, kept = ([0.0, *(round(draw.uniform(0, 20), digits) for _ in range(many))] for _ in range(2))
    first = draw.randint(1, many)
    found = best_blocks((first, many), inputs, list(accumulate(kept)))
    assert found.peak_bytes == pytest.approx(min(peak(each, inputs, kept) for each in divisions(first, many)))
    assert peak(list(found.runs), inputs, kept) == pytest.approx(found.peak_bytes)


def test_many_layers_are_divided_quickly_into_about_as_many_blocks_as_their_root() -> None:
    found = best_blocks((1, 400), [1.0] * 401, list(map(float, range(401))))
    assert found.peak_bytes == 40
    assert len(found.runs) == 20


def test_an_instance_keeps_the_inputs_of_its_blocks_and_the_activations_of_one() -> None:
    peaks = [Evaluator(profile(LAYERS), PAIR).peak_bytes(chain(recompute=on)) for on in (False, True)]
    assert peaks[0] == {"a": 2 * 40 + 4 * 32, "b": 2 * 20 + 4 * 16}
    assert peaks[1] == {"a": 2 * 40 + 4 * (1 + 3 * 2 + 8), "b": 2 * 20 + 4 * 16}


def test_its_forward_is_made_again_block_by_block_before_the_backward() -> None:
    known = profile(LAYERS, a=times(6, 1.0, 2.0, 0.0), b=times(6, 1.0, 2.0, 0.0))
    plain, again = (price(PAIR, known, chain(recompute=on)) for on in (False, True))
    assert again.iteration_s == plain.iteration_s + 4 * 4 * 1.0
    assert again.nodes["a"].busy_s == plain.nodes["a"].busy_s + 16
    assert again.nodes["a"].sent_bytes == plain.nodes["a"].sent_bytes
    begin = timetable(plain)["backward", "I"][0]
    ((_, made, played),) = again.played
    own = [k for k, step in enumerate(made.steps) if step.instance == 0 and played.start_s[k] >= begin]
    calls = [(made.steps[k].kind.value, made.steps[k].layers, played.end_s[k] - begin) for k in own]
    expected = [
        [("recompute", ((n, n),), at + 4), ("backward", ((n, n),), at + 12)] for n, at in ((4, 0), (3, 12), (2, 24))
    ]
    assert calls[:6] == list(itertools.chain(*expected))


def test_samples_are_decoded_once() -> None:
    alone = cluster(a=node(9))
    known = profile(LAYERS, a=times(6, 1.0, 2.0, 0.0) | {"decode_s": 0.25})
    trees = [phase(source("a", 4, "I"), instance("I", 1, 6, "a", recompute=on)) for on in (False, True)]
    plain, again = (price(alone, known, tree).iteration_s for tree in trees)
    assert again == plain + 24 - 4 * 0.25


def test_energy_follows() -> None:
    alone = cluster(a=node(9, power=(1.0, 3.0)))
    known = profile(LAYERS, a=times(6, 1.0, 2.0, 0.0))
    trees = [phase(source("a", 4, "I"), instance("I", 1, 6, "a", recompute=on)) for on in (False, True)]
    plain, again = (price(alone, known, tree).iteration_j for tree in trees)
    assert plain is not None
    assert again == plain + 3 * 24


def test_a_plan_is_told_where_it_saves_nothing() -> None:
    known = profile(LAYERS, a=times(6), b=times(6))
    layer = phase(source("a", 4, "I"), instance("I", 1, 1, "a", "J"), instance("J", 2, 6, "b"))
    for k, said in enumerate(
        [["recompute saves no memory in I: the inputs of its blocks take as much as it frees"], []]
    ):
        instances = [each.model_copy(update={"recompute": j == k}) for j, each in enumerate(layer.instances)]
        found = plan(layer.model_copy(update={"instances": tuple(instances)}))
        assert warnings_of(found, Evaluator(known, PAIR)) == said


def test_a_plan_says_so_and_an_old_one_means_what_it_meant() -> None:
    written = [each.model_dump() for each in chain(recompute=True).instances]
    assert written[0]["recompute"] is True
    assert "recompute" not in written[1]
    assert not Phase.model_validate(chain(recompute=False).model_dump()).instances[0].recompute
