"""The communication factors of equations (2) and (3), predicted or fitted. Pure functions.

A member of a cluster takes a step in T·α·β seconds instead of T: it pulls the weights from the parameter server and
pushes gradients of the same size. α is what that costs whatever the bandwidth, β what the bandwidth adds:

    predicted   T·α   = T + the latency of both directions
                T·α·β = T·α + 2 · 8 · parameter bytes / bandwidth
    fitted      T·α·β at bandwidth B is a + c/B, by least squares over the measured bandwidths; T·α = a

While it waits it idles, so its mean power falls: energy of a step = power · T + idle power · (the rest of the step).
The device with the parameter server sends nothing, and its factors are 1. Whoever has it, the same bytes are exchanged:
only the path to it differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

PREDICTED = "predicted from parameter bytes, bandwidth and step time"
SERVER = "none: it has the parameter server"


class CommunicationFactors(NamedTuple):
    """α and β of time and power, and where they come from."""

    time_alpha: float = 1.0
    time_beta: float = 1.0
    power_alpha: float = 1.0
    power_beta: float = 1.0
    origin: str = SERVER

    def fields(self) -> dict[str, float]:
        """The four factors by name."""
        return {name: getattr(self, name) for name in self._fields if name != "origin"}


class StandaloneDevice(NamedTuple):
    """A device that trains alone: seconds per step, mean watts, and idle watts, if known."""

    step_s: float
    power_w: float
    idle_w: float | None


def predict_factors(
    alone: StandaloneDevice, parameter_bytes: float, bandwidth_bps: float, latency_s: float
) -> CommunicationFactors:
    """The factors of a device, from the bytes that it sends and its path to the parameter server."""
    fixed_s = alone.step_s + 2 * latency_s
    return _factors(alone, fixed_s, fixed_s + 2 * 8 * parameter_bytes / bandwidth_bps, PREDICTED)


def fit_factors(alone: StandaloneDevice, measured: Mapping[float, float], bandwidth_bps: float) -> CommunicationFactors:
    """The factors at a bandwidth, from the seconds per step in a cluster at two or more others."""
    rates_bps, steps_s = np.array(list(measured)), np.array(list(measured.values()))
    # Relative errors count; otherwise the slowest would decide alone.
    bits, constant_s = np.polyfit(1 / rates_bps, steps_s, 1, w=1 / steps_s)
    fixed_s = max(float(constant_s), alone.step_s)  # the exchange takes no less than nothing
    whole_s = fixed_s + max(0.0, float(bits)) / bandwidth_bps
    return _factors(alone, fixed_s, whole_s, f"fitted from {len(measured)} bandwidths")


def _factors(alone: StandaloneDevice, fixed_s: float, whole_s: float, origin: str) -> CommunicationFactors:
    step_s, power_w, idle_w = alone

    def mean_w(until_s: float) -> float:
        return power_w if idle_w is None else (power_w * step_s + idle_w * (until_s - step_s)) / until_s

    fixed_w, whole_w = mean_w(fixed_s), mean_w(whole_s)
    return CommunicationFactors(
        time_alpha=fixed_s / step_s,
        time_beta=whole_s / fixed_s,
        power_alpha=fixed_w / power_w if power_w else 1.0,
        power_beta=whole_w / fixed_w if fixed_w else 1.0,
        origin=origin,
    )


def factor_fields(by_server: Mapping[str, CommunicationFactors], fastest: str) -> dict[str, Any]:
    """A device's factors in a table of measurements: with the server on the fastest, on itself, and on any other."""
    return {
        **by_server.get(fastest, CommunicationFactors()).fields(),
        "with_server": {},
        "by_server": {server: each.fields() for server, each in by_server.items() if server != fastest},
    }
