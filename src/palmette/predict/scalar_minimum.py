"""The global minimum of a function of one number: the best point of a grid, refined by SciPy between its neighbours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

_TOLERANCE = 1e-6


def scalar_minimum(objective: Callable[[float], float], grid: NDArray[np.float64]) -> float:
    """Where the objective is least; ``grid`` rises, and is fine enough for one local minimum between its neighbours."""
    values = [objective(float(point)) for point in grid]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    refined = minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": _TOLERANCE})
    return float(refined.x if refined.fun < values[best] else grid[best])
