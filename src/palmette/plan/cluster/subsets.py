"""All clusters of up to 16 devices as arrays: a row each, the fewest devices first, then in the order of the file."""

from __future__ import annotations

import numpy as np

from palmette.plan.cluster.contention import contended_steps_s
from palmette.plan.cluster.fleet import Fleet, Floats, Indices, Mask, TimePower

MAX_DEVICES = 16


def all_clusters(devices: int) -> Mask:
    """Every non-empty set of so many devices."""
    bits = np.arange(devices - 1, -1, -1)  # the first device is the highest, so that it comes first among equals
    members = (np.arange((1 << devices) - 1, 0, -1)[:, None] >> bits) & 1 == 1
    found: Mask = members[np.argsort(members.sum(axis=1), kind="stable")]
    return found


def time_power(fleet: Fleet, members: Mask) -> TimePower:
    """Time and power of every cluster: the least over the first k devices by build time (see ``fleet``)."""
    rates, lost = np.zeros(len(members)), np.full(len(members), fleet.steps)
    time_s = np.full(len(members), np.inf)
    server = fleet.by_step[members[:, fleet.by_step].argmax(axis=1)]
    factors = fleet.factors_by_server
    steps_s = _steps_s(fleet, members, server)
    for device in fleet.by_build:
        within = members[:, device]
        rate = 1 / steps_s[within, device]
        rates[within] += rate
        lost[within] += rate * fleet.build_s[device]
        time_s[within] = np.minimum(time_s[within], lost[within] / rates[within])
    power_w = (members * fleet.alone_power_w * factors.power_w[server]).sum(axis=1)
    devices = members.shape[1]
    time_s[:devices], power_w[:devices] = fleet.alone  # those with one device are the first
    return TimePower(time_s, power_w)


def _steps_s(fleet: Fleet, members: Mask, server: Indices) -> Floats:
    """Seconds of a step of each device in every cluster, by who has its server, and who shares the way to that."""
    steps_s: Floats = fleet.alone_step_s * fleet.factors_by_server.time_s[server]
    if not fleet.contends:
        return steps_s
    sharing = members.copy()
    sharing[np.arange(len(members)), server] = False
    for device in np.flatnonzero(fleet.served_s):
        served = np.flatnonzero(server == device)
        if len(served):
            own_s = fleet.alone_step_s * fleet.factors_by_server.time_s[device]
            steps_s[served] = contended_steps_s(own_s, sharing[served], float(fleet.served_s[device]))
    return steps_s
