"""Devices that share the way to the parameter server: how much slower their steps are than each alone with it.

A step of device i takes c_i seconds if no other is there. For e of them, half for each direction, it takes all of the
way to the server that others share. Another device j takes that direction for a part u_j of its time, and shares it
then, so that the exchange takes 2 x_i instead of e:

    x_i = e/2 · (1 + Σ u_j, j ≠ i),      u_j = x_j / (c_j − e + 2 x_j)

Devices whose steps are equally long begin together and stay in step: they are always there at the same time, u_j = 1.
The equations are solved by repetition from x = e/2 on: x only grows, and no further than e/2 times the number of
devices. The device with the server exchanges nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
ALIKE = 0.01  # steps that differ by less stay together
_MOST, _CLOSE = 100, 1e-9


def contended_steps_s(steps_s: Floats, sharing: Mask, exchange_s: float) -> Floats:
    """Seconds of a step of each device in many clusters with one server; a row of ``sharing`` for each cluster.

    ``steps_s`` are those of each device alone with the server, ``exchange_s`` the part that takes the shared way.
    """
    order = np.argsort(steps_s, kind="stable")
    alone_s, there = steps_s[order], sharing[:, order]
    first, end = (
        np.searchsorted(alone_s, alone_s * (1 - ALIKE)),
        np.searchsorted(alone_s, alone_s * (1 + ALIKE), "right"),
    )
    rest_s, half_s = np.maximum(alone_s - exchange_s, 0.0), exchange_s / 2
    way_s = np.full(there.shape, half_s)
    for _ in range(_MOST):
        part = np.where(there, way_s / (rest_s + 2 * way_s), 0.0)
        in_step = np.where(there, 1 - part, 0.0)
        sums = np.concatenate((np.zeros((len(there), 1)), np.cumsum(in_step, axis=1)), axis=1)
        others = part.sum(axis=1, keepdims=True) - part + sums[:, end] - sums[:, first] - in_step
        longer_s = half_s * (1 + others)
        if np.allclose(longer_s, way_s, rtol=_CLOSE, atol=0.0):
            break
        way_s = longer_s
    found = np.empty(there.shape)
    found[:, order] = np.where(there, rest_s + 2 * way_s, alone_s)
    return found
