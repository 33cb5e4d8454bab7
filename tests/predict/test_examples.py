"""Examples from curves: every moment once, and no beginning on both sides of a split."""

from __future__ import annotations

import pytest

from palmette.predict.examples import change_examples, run_examples, split_by_seed
from palmette.predict.forecast import Setting
from palmette.spec.curves import Curve, CurvePhase


def phase(nodes: str, pruning: float, start: float, *losses: float) -> CurvePhase:
    samples, classes = {"gold": (100, 7), "silver": (20, 9)}[nodes]
    return CurvePhase(
        nodes=nodes, samples=samples, classes=classes, pruning=pruning, start_loss=start, losses=tuple(losses)
    )


GOLD = phase("gold", 0.0, 2.3, 2.0, 1.8, 1.7)


def curve(*phases: CurvePhase, seed: int = 0) -> Curve:
    return Curve(seed=seed, phases=phases)


def test_each_moment_knows_what_came_before_and_at_most_five_epochs_to_come() -> None:
    long = curve(phase("gold", 0.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0))
    found = run_examples([long])

    assert [len(each.changes) for each in found] == [5, 5, 4, 3, 2, 1]
    assert found[2].history.losses == (8.0, 7.0, 6.0)
    assert found[2].changes == (-1.0, -1.0, -1.0, -1.0)


def test_losses_before_a_change_are_remembered_and_the_change_is_no_epoch() -> None:
    found = run_examples([curve(GOLD, phase("silver", 0.5, 3.0, 2.5))])[-1]

    assert found.history.earlier == (2.3, 2.0, 1.8, 1.7)
    assert found.history.losses == (3.0,)
    assert found.history.setting == Setting(pruning=0.5, samples=20, classes=9)
    assert found.changes == (-0.5,)


def test_moments_that_curves_share_count_once_with_the_longest_future() -> None:
    short = curve(GOLD.model_copy(update={"losses": (2.0,)}))
    for curves in ([short, curve(GOLD)], [curve(GOLD), short]):
        found = run_examples(curves)
        assert len(found) == 3
        assert found[0].changes == pytest.approx((-0.3, -0.2, -0.1))


def test_a_change_leads_from_the_last_loss_to_the_first_of_the_new_setting() -> None:
    twice = [curve(GOLD, phase("silver", 0.5, 3.0, 2.5)), curve(GOLD, phase("silver", 0.5, 3.0, 2.5, 2.4))]
    (found,) = change_examples(twice)

    assert found.change == pytest.approx(1.3)
    assert found.history.loss == 1.7
    assert found.to == Setting(pruning=0.5, samples=20, classes=9)


@pytest.mark.parametrize(("seeds", "left_out"), [(2, {1}), (4, {3}), (8, {6, 7}), (1, set()), (0, set())])
def test_the_last_quarter_of_the_seeds_is_left_out(seeds: int, left_out: set[int]) -> None:
    train, held_out = split_by_seed([curve(GOLD, seed=seed) for seed in range(seeds)])

    assert {each.seed for each in held_out} == left_out
    assert {each.seed for each in train} == set(range(seeds)) - left_out
