"""upload: the best node by trying all, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

import palmette as pt
from palmette.cost.check import forbidden, missing
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.strategy import Task
from palmette.spec.cluster import Cluster, Source
from palmette.spec.plan import Plan
from tests.plan.deliveries import all_deliveries, mean_s, random_delivery_task
from tests.plan.problems import link, node, profile, three_tiers


def uploaded(cluster: Cluster, **more: Any) -> Plan:
    return pt.plan("upload", profile=profile(), cluster=cluster, batch=10, **more)


def phone(**more: Any) -> dict[str, Any]:
    return {"phone": node("device").model_copy(update={"source": Source(samples=1000, **more)})}


class TestByHand:
    """A phone of 40 ms, a server of 5 and a cloud of 1; 1000 samples of 10 kB over 8 and 4 Mbit/s: 10 s and 20 s."""

    def test_the_first_epoch_is_upload_and_an_epoch(self) -> None:
        plan = uploaded(three_tiers(), epochs=100)
        estimate = plan.estimate
        assert plan.decision["node"] == "cloud"
        assert plan.decision["upload_s"] == pytest.approx(20.0)
        assert estimate.first_epoch_s == pytest.approx(20.0 + estimate.epoch_s)
        assert estimate.total_s == pytest.approx(20.0 + 100 * estimate.epoch_s)
        assert estimate.total_bytes == pytest.approx(1000 * 10_000)
        assert plan.decision["iteration_s"] == pytest.approx(estimate.iteration_s)
        assert plan.decision["nodes"] == ["cloud", "cloud"]

    def test_few_epochs_want_a_shorter_way(self) -> None:
        near = three_tiers().model_copy(update={"links": (link("phone", "server"), link("server", "cloud", 0.5))})
        assert uploaded(near, epochs=1).decision["node"] == "server"
        assert uploaded(near, epochs=1000).decision["node"] == "cloud"

    def test_samples_are_sent_as_stored(self) -> None:
        assert uploaded(three_tiers(**phone(sample_bytes=100.0))).decision["upload_s"] == pytest.approx(0.2)

    def test_who_owns_all_data_uploads_nothing(self) -> None:
        alone = three_tiers().model_copy(update={"links": (link("phone", "server", 1e-3), link("server", "cloud"))})
        plan = uploaded(alone, epochs=1)
        assert (plan.decision["node"], plan.decision["upload_s"]) == ("phone", 0.0)
        assert plan.phases[0].sources[0].delivery == "each"


class TestWhoMayNot:
    def test_private_data_stays(self) -> None:
        assert uploaded(three_tiers(**phone(private=True))).decision["node"] == "phone"

    def test_a_stream_cannot_be_uploaded(self) -> None:
        assert uploaded(three_tiers(**phone(stream=True))).decision["node"] == "phone"

    def test_samples_have_to_fit(self) -> None:
        small = three_tiers(cloud=node("cloud", storage_bytes=9e6), server=node("edge", memory_bytes=1e7))
        assert uploaded(small, epochs=1000).decision["node"] == "phone"

    def test_where_none_may_each_says_why(self) -> None:
        nodes = {"a": node("device", samples=10, private=True), "b": node("device", samples=10, private=True)}
        apart = Cluster(nodes=nodes, links=(link("a", "b"),))
        with pytest.raises(pt.Infeasible, match="a: the data of b is private; b: the data of a is private"):
            pt.plan("upload", profile=profile(a=1, b=1), cluster=apart)

    def test_two_streams_have_nothing_to_upload(self) -> None:
        stream = node("device").model_copy(update={"source": Source(samples=10, stream=True)})
        apart = Cluster(nodes={"a": stream, "b": stream}, links=(link("a", "b"),))
        with pytest.raises(pt.Infeasible, match=r"nodes.a.source.stream: True: samples are always new"):
            pt.plan("upload", profile=profile(a=1, b=1), cluster=apart)


def uploads(task: Task) -> dict[str, float]:
    """Mean seconds of every upload that is allowed, by node."""
    found = {}
    for name in task.cluster.nodes:
        phase = on_one_node(name, task)
        if any(missing(phase, task.evaluator)) or any(forbidden(phase, task.evaluator)):
            continue
        for each in all_deliveries(phase, task):
            if not each.ahead and all(s.delivery == "once" or s.node == name for s in each.sources):
                found[name] = mean_s(each, task)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_no_other_node_is_better(seed: int) -> None:
    task = random_delivery_task(seed)
    expected = uploads(task)
    known = {"profile": task.profile, "cluster": task.cluster, "batch": task.batch, "epochs": task.epochs}
    if not expected:
        with pytest.raises(pt.PalmetteError):
            pt.plan("upload", **known)
        return
    plan = pt.plan("upload", **known)
    assert expected[plan.decision["node"]] == pytest.approx(min(expected.values()))
