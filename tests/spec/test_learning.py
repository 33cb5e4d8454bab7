"""What a learning curve says of the runs that it was fitted to."""

from __future__ import annotations

from typing import Any

import pytest

import palmette as pt
from palmette.spec.learning import Learning

BARE = {"floor": 0.1, "scale": 2.0, "epoch_exponent": 0.6, "data_exponent": 0.0, "replica_exponent": 0.0}
FULL = {"epochs": (1.0, 10.0), "data": (1.0, 1.0), "replicas": (1.0, 4.0), "batch": (32.0, 32.0)}


def fitted(**ranges: tuple[float, float]) -> Learning:
    return Learning(**BARE, fitted_on=FULL | ranges)


def test_a_curve_that_does_not_say_is_taken_as_it_is() -> None:
    curve = Learning(**BARE)
    curve.refuse_unknown("lenet5")
    assert curve.beyond(epochs=1e6, data=1e-6, replicas=99, batch=1) == []
    assert curve.least_fraction_tried == 0


def test_what_no_run_varied_is_refused_with_the_command_that_does() -> None:
    with pytest.raises(pt.InputError) as refused:
        fitted(replicas=(1.0, 1.0)).refuse_unknown("lenet5")
    (fault,) = refused.value.faults
    assert (fault.field, fault.value) == ("learning", "data and replicas")
    assert "palmette pilot lenet5 --cluster" in str(fault.expected)


@pytest.mark.parametrize(("fixed", "fine"), [({"data": 1.0}, True), ({"data": 0.5}, False), ({"replicas": 1}, False)])
def test_a_plan_that_has_what_the_runs_had_needs_no_more(fixed: Any, fine: bool) -> None:
    try:
        fitted().refuse_unknown("lenet5", fixed)
    except pt.InputError:
        assert not fine
    else:
        assert fine


def test_what_is_outside_of_the_runs_is_told() -> None:
    told = fitted(data=(0.25, 1.0)).beyond(epochs=12, data=0.2, replicas=4, batch=64)
    assert told == [
        "epochs 12: the runs of the learning curve have 1 to 10",
        "data 0.2: the runs of the learning curve have 0.25 to 1",
        "batch 64: the runs of the learning curve have 32",
    ]


def test_a_range_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(ValueError, match="least value before the largest"):
        fitted(data=(1.0, 0.5))
