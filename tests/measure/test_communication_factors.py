"""Communication factors: predicted by hand, and fitted from steps that obey the same law."""

from __future__ import annotations

import pytest

from palmette.measure.communication_factors import (
    PREDICTED,
    CommunicationFactors,
    StandaloneDevice,
    fit_factors,
    predict_factors,
)

ALONE = StandaloneDevice(step_s=0.1, power_w=10.0, idle_w=2.0)


def test_predicted_by_hand() -> None:
    found = predict_factors(ALONE, parameter_bytes=1e6, bandwidth_bps=16e6, latency_s=0.05)
    assert found.time_alpha == pytest.approx(2.0)  # 0.1 s and two latencies
    assert found.time_beta == pytest.approx(6.0)  # and one second for a megabyte there and back
    assert found.power_alpha == pytest.approx((10 * 0.1 + 2 * 0.1) / 0.2 / 10)
    assert found.power_alpha * found.power_beta == pytest.approx((10 * 0.1 + 2 * 1.1) / 1.2 / 10)
    assert found.origin == PREDICTED


def test_without_idle_power_watts_stay() -> None:
    found = predict_factors(ALONE._replace(idle_w=None), 1e6, 16e6, 0.05)
    assert (found.power_alpha, found.power_beta) == (1.0, 1.0)


@pytest.mark.parametrize("rates", [(1e9, 1e7), (1e9, 1e8, 1e7)])
def test_fitted_steps_agree_with_what_made_them(rates: tuple[float, ...]) -> None:
    tried = {bps: 0.12 + 16e6 / bps for bps in rates}
    found = fit_factors(ALONE, tried, 5e7)
    assert found.time_alpha == pytest.approx(1.2)
    assert 0.1 * found.time_alpha * found.time_beta == pytest.approx(0.12 + 16e6 / 5e7)
    assert found.origin == f"fitted from {len(rates)} bandwidths"


def test_noise_never_makes_a_cluster_faster_than_a_device_alone() -> None:
    found = fit_factors(ALONE, {1e9: 0.09, 1e7: 0.08}, 1e8)
    assert (found.time_alpha, found.time_beta) == (1.0, 1.0)


def test_the_parameter_server_has_none() -> None:
    assert CommunicationFactors()[:4] == (1.0, 1.0, 1.0, 1.0)
