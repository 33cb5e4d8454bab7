"""Fitted machines: what is kept holds, what is given up does not, and what is proven is so for any machines."""

from __future__ import annotations

import random
from typing import Any

import pytest

from palmette.reproduce.cluster import fit as cluster_fit
from palmette.reproduce.cluster import fitted as cluster_fitted
from palmette.reproduce.cluster.claims import gain_claim
from palmette.reproduce.fitted import CONTRADICTORY, REPRODUCED, Fitted, search, with_verdicts
from palmette.reproduce.hiertrain import fit, fitted
from palmette.reproduce.progress import silent

FASTER = "HierTrain is up to … times faster than"


def holding(record: dict[str, Any]) -> dict[str, bool]:
    return {row["claim"]: row["residual"] == 0 for row in record["claims"]}


def test_all_of_hiertrains_claims_hold_but_those_given_up() -> None:
    for network, record in fitted.fits(False, silent).items():
        given_up = f"{network}: {FASTER} all-cloud"
        assert [claim for claim, holds in holding(record).items() if not holds] == [given_up]
        assert all(given_up in each["claims"] for each in record["contradictions"])
        assert sum(row["closest_residual"] ** 2 for row in record["claims"]) < sum(
            row["residual"] ** 2 for row in record["claims"]
        )


def test_all_of_gu_et_als_claims_hold() -> None:
    assert all(holding(cluster_fitted.fits(False, silent)).values())


def test_hiertrains_contradictions_are_so_for_any_machines() -> None:
    rng = random.Random(5)
    for network, many in (("AlexNet", 8), ("LeNet-5", 12)):
        for _ in range(many):
            sample_s = {name: 10 ** rng.uniform(-3, 0) for name in ("device", "edge", "cloud")}
            off = {claim: each.residual for claim, each in fit.OUTCOMES[network](sample_s).items()}
            assert all(any(off[claim] for claim in claims) for claims in fitted.PROVEN[network])


def test_a_server_that_costs_nothing_lets_the_best_lead_by_a_third_at_most() -> None:
    rng = random.Random(6)
    for _ in range(20):
        values = {name: rng.uniform(low, high) for name, (low, high) in cluster_fit.BOUNDS.items()} | {"server": 1.0}
        ours = cluster_fit.outcomes(values)[gain_claim("time")].ours
        assert float(str(ours).rstrip("%")) <= 33.4


def test_verdicts_of_claims_that_differ() -> None:
    rows = [{"claim": name, "agrees": name == "a"} for name in ("a", "b", "c", "d")]
    fit = {
        "claims": [{"claim": "b", "ours": 2.0, "residual": 0.0}, {"claim": "c", "ours": 9.0, "residual": 0.5}],
        "contradictions": [{"claims": ["b", "c"], "why": "one is half the other"}],
    }
    a, b, c, d = with_verdicts(rows, [fit])
    assert "fitted" not in a
    assert "fitted" not in d
    assert (b["fitted"], b["fitted_ours"]) == (REPRODUCED, "2.0")
    assert (c["fitted"], c["contradiction"]) == (CONTRADICTORY, "beside “b”: one is half the other")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("network", [pytest.param("AlexNet", marks=pytest.mark.thorough), "LeNet-5", "cluster"])
def test_a_search_finds_machines_for_the_same_claims(network: str) -> None:
    kept: Fitted
    if network == "cluster":
        problem, kept, outcomes = cluster_fit.problem(), cluster_fitted.FITTED, cluster_fit.outcomes
        proven = cluster_fitted.PROVEN
    else:
        problem, kept, outcomes = fit.problem(network), fitted.FITTED[network], fit.OUTCOMES[network]
        proven = fitted.PROVEN[network]
    found = search(problem, list(outcomes(kept.values)), proven, kept)
    assert (found.given_up, found.contradictions) == (kept.given_up, kept.contradictions)
