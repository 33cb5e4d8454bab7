"""Devices as arrays: the training time and the power of a cluster of them (equations 2 to 7 of Gu et al.).

In a cluster of two or more, device i takes a step in c_i = step_s · α · β seconds and draws p_i = power_w · α · β
watts; alone, its factors are 1. A device that has built the model in b_i seconds takes steps from then on, so the time
T of a cluster solves

    Σ max(0, T − b_i) / c_i = steps                                                                            (4)

The left side is convex in T: between two build times it is a line, and its slope grows with each device that joins. So
T is the least of the times that follow from the first k devices by build time, for any k: the line of fewer devices
lies below the sum, and that of more devices counts some of them negatively.

Power is the sum over all members (5), including one whose model is not built when the others are done: it was switched
on. Energy is power times time (6), EDP is energy times time (7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palmette.plan.cluster.contention import contended_steps_s
from palmette.spec.measurements import ClusterFactors, MeasuredDevice, Measurements

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]


class TimePower(NamedTuple):
    """Seconds and watts of many clusters, or, as arrays without a dimension, of one."""

    time_s: Floats
    power_w: Floats

    def at(self, row: int) -> TimePower:
        """Seconds and watts of one of many."""
        return single_cluster(self.time_s[row], self.power_w[row])


def single_cluster(time_s: float, power_w: float) -> TimePower:
    """Time and power of one cluster."""
    return TimePower(np.asarray(time_s), np.asarray(power_w))


@dataclass(frozen=True, eq=False)
class Fleet:
    """All devices, in the order of the file: alone, and with their factors as members of a cluster.

    Which member has the parameter server makes no difference to ``rate`` and ``power_w``; only ``subsets`` asks for the
    factors that depend on it. Where members share the way to the server they are slower than ``rate`` (``contention``);
    bounds and neighbours leave that out, and so are never above what is true.
    """

    names: tuple[str, ...]
    steps: float
    build_s: Floats
    alone_step_s: Floats
    alone_power_w: Floats
    rate: Floats
    power_w: Floats
    served_s: Floats
    measured: tuple[MeasuredDevice, ...]

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def by_build(self) -> Indices:
        """The devices by the time that they need to build the model; ties in the order of the file."""
        return np.argsort(self.build_s, kind="stable")

    @cached_property
    def by_step(self) -> Indices:
        """The devices by their time of a step, the fastest first: of a cluster, the first one has the server."""
        return np.argsort(self.alone_step_s, kind="stable")

    @cached_property
    def alone(self) -> TimePower:
        """Each device as a cluster of its own."""
        return TimePower(self.build_s + self.steps * self.alone_step_s, self.alone_power_w)

    @cached_property
    def factors_by_server(self) -> TimePower:
        """What multiplies seconds and watts of each device, by who has the parameter server: [server, device]."""
        pairs = [[_factors(device, name, server) for name, device in self._named] for server in self.names]
        time, power = ([[getattr(each, what) for each in row] for row in pairs] for what in ("time", "power"))
        return TimePower(np.array(time), np.array(power))

    @property
    def _named(self) -> list[tuple[str, MeasuredDevice]]:
        return list(zip(self.names, self.measured, strict=True))

    def time_power(self, members: Mask) -> TimePower:
        """Time and power of a cluster of any size."""
        if members.sum() == 1:
            one = int(np.flatnonzero(members)[0])
            return self.alone.at(one)
        return single_cluster(self.cluster_time_s(members, self._contended(members)), self.power_w[members].sum())

    @property
    def contends(self) -> bool:
        """Whether members may share the way to a server."""
        return bool(self.served_s.any())

    def _contended(self, members: Mask) -> Floats:
        """Steps a second of each device in a cluster, where its members share the way to its server."""
        server = self.by_step[members[self.by_step].argmax()]
        if not self.served_s[server]:
            return self.rate
        sharing = members.copy()
        sharing[server] = False
        steps_s: Floats = contended_steps_s(1 / self.rate, sharing[None], float(self.served_s[server]))[0]
        found: Floats = 1 / steps_s
        return found

    def cluster_time_s(self, members: Mask, rates: Floats | None = None) -> float:
        """Seconds of a cluster whose members, even a single one, have their factors, or take steps at these rates."""
        order = self.by_build[members[self.by_build]]
        rate, build_s = (self.rate if rates is None else rates)[order], self.build_s[order]
        return float(((self.steps + np.cumsum(build_s * rate)) / np.cumsum(rate)).min())

    def neighbours(self, members: Mask) -> TimePower:
        """For each device, the cluster without it if it is a member, else with it; infinite where none is left."""
        size = int(members.sum())
        signs = np.where(members, -1.0, 1.0)
        power_w = self.power_w[members].sum() + signs * self.power_w
        found = TimePower(self._times_one_away(members, signs), np.maximum(power_w, 0.0))
        if size == 1:
            found.time_s[members] = found.power_w[members] = np.inf
        elif size == 2:
            first, second = np.flatnonzero(members)
            for removed, left in ((first, second), (second, first)):
                found.time_s[removed], found.power_w[removed] = self.alone.time_s[left], self.alone.power_w[left]
        return found

    def _times_one_away(self, members: Mask, signs: Floats) -> Floats:
        """Newton's method on (4) for all devices at once.

        The sum is convex, so a tangent's zero is never before the true one, and each further tangent brings it down to
        there in finitely many steps.
        """
        order = self.by_build[members[self.by_build]]
        joins_s = self.build_s[order]
        rates = np.concatenate(([0.0], np.cumsum(self.rate[order])))
        lost = np.concatenate(([0.0], np.cumsum(joins_s * self.rate[order])))

        def tangent(time_s: Floats) -> Floats:
            joined = np.searchsorted(joins_s, time_s)
            own = np.where(self.build_s < time_s, signs * self.rate, 0.0)
            slope = rates[joined] + own
            with np.errstate(divide="ignore", invalid="ignore"):
                zero = (self.steps + lost[joined] + own * self.build_s) / slope
            return np.where(slope > 0, zero, np.inf)

        found = tangent(np.full(len(self), self.cluster_time_s(members)))
        while True:
            lower = tangent(found)
            if not (lower < found).any():
                return found
            found = np.minimum(found, lower)


def fleet_of(measurements: Measurements) -> Fleet:
    """The devices of a table of measurements."""
    devices = measurements.devices.values()

    def column(values: Sequence[float]) -> Floats:
        return np.array(values, dtype=np.float64)

    return Fleet(
        names=tuple(measurements.devices),
        steps=float(measurements.steps),
        build_s=column([device.build_s for device in devices]),
        alone_step_s=column([device.step_s for device in devices]),
        alone_power_w=column([device.power_w for device in devices]),
        rate=1 / column([device.step_s * device.time for device in devices]),
        power_w=column([device.power_w * device.power for device in devices]),
        served_s=column([device.served_s for device in devices]),
        measured=tuple(devices),
    )


def _factors(device: MeasuredDevice, name: str, server: str) -> ClusterFactors:
    """The factors of a device, given who has the parameter server."""
    return (device.with_server or device) if name == server else device.by_server.get(server, device)
