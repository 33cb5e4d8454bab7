"""The minimum of a function of one number: between grid points, at the edges, and with several valleys."""

from __future__ import annotations

import math

import numpy as np
import pytest

from palmette.predict.scalar_minimum import scalar_minimum

GRID = np.linspace(-2.0, 3.0, 11)


def test_is_found_between_the_points_of_the_grid() -> None:
    assert scalar_minimum(lambda x: (x - 0.7123) ** 2, GRID) == pytest.approx(0.7123, abs=1e-5)


@pytest.mark.parametrize(("slope", "edge"), [(1.0, -2.0), (-1.0, 3.0)])
def test_may_lie_on_the_edge(slope: float, edge: float) -> None:
    assert scalar_minimum(lambda x: slope * x, GRID) == edge


def test_is_the_lowest_of_several_valleys() -> None:
    assert scalar_minimum(lambda x: math.cos(3 * x) + 0.1 * x, GRID) == pytest.approx(-1.0583, abs=1e-3)
