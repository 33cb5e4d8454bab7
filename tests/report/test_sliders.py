"""The prices behind the sliders are those that one gets for the changed cluster."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.plan.core.strategy import Task
from palmette.report.sliders import FACTORS, sliders_view
from palmette.spec.cluster import Cluster
from tests.plan.problems import link, node, profile, three_tiers


def test_each_point_is_the_price_at_these_bandwidths() -> None:
    plans = [
        pt.plan(name, profile=profile(4), cluster=three_tiers(), batch=16)
        for name in ("upload", "jointdnn", "all-edge")
    ]
    found = sliders_view(plans, Task(profile=profile(4), cluster=three_tiers(), batch=16))
    assert found is not None
    assert [each["name"] for each in found["links"]] == ["phone – server", "server – cloud"]
    assert found["links"][0]["rates"] == ["2 Mbit/s", "4 Mbit/s", "8 Mbit/s", "16 Mbit/s", "32 Mbit/s"]
    for plan, row in zip(plans, found["plans"], strict=True):
        for one, first in enumerate(FACTORS):
            for other, second in enumerate(FACTORS):
                links = (link("phone", "server", 8 * first), link("server", "cloud", 4 * second))
                price = pt.estimate(plan, cluster=three_tiers().model_copy(update={"links": links}))
                begin, later = row["spent"][one * len(FACTORS) + other]
                assert begin[:2] == pytest.approx([price.first_epoch_s, price.first_epoch_j])
                assert later[:2] == pytest.approx([price.epoch_s, price.epoch_j])


def test_many_links_share_a_slider() -> None:
    phones = {f"phone{k}": node("device", samples=10) for k in range(9)}
    cluster = Cluster(nodes={**phones, "hub": node("edge")}, links=tuple(link(name, "hub") for name in phones))
    known = profile(2, **dict.fromkeys(phones, 10.0), hub=1.0)
    plan = pt.plan("all-edge", profile=known, cluster=cluster, batch=9)
    found = sliders_view([plan], Task(profile=known, cluster=cluster, batch=9))
    assert found is not None
    assert [each["name"] for each in found["links"]] == ["device – edge links"]


def test_without_links_there_is_nothing_to_move() -> None:
    alone = Cluster(nodes={"phone": node("device", samples=10)})
    plan = pt.plan("all-device", profile=profile(2, phone=1.0), cluster=alone, batch=8)
    found = sliders_view([plan], Task(profile=profile(2, phone=1.0), cluster=alone, batch=8))
    assert found is None
