"""Where a pilot computes, and the trees of its settings."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.control.pilot.grid import PilotSetting
from palmette.control.pilot.placement import cluster_here, pilot_phase, pilot_plan
from palmette.cost.estimate import evaluator
from palmette.spec.cluster import Cluster, Source
from palmette.spec.codec_term import Coding, codings_of
from palmette.spec.exchange import Exchange
from tests.plan.problems import link, node, profile, three_tiers


def two_sources(data: str | None = None, *, private: bool = False) -> Cluster:
    """Phone and tablet with 600 and 200 samples, and a server."""
    phone = node("device").model_copy(update={"source": Source(samples=600, data=data, private=private)})
    tablet = node("device").model_copy(update={"source": Source(samples=200, data=data)})
    links = (link("phone", "server"), link("tablet", "server"))
    return Cluster(nodes={"phone": phone, "tablet": tablet, "server": node("edge")}, links=links)


PROFILE = profile(phone=40.0, tablet=40.0, server=2.0)


def test_on_this_machine_shared_data_needs_one_node() -> None:
    here = cluster_here(two_sources(), PROFILE)
    assert list(here.nodes) == ["server"]
    assert here.nodes["server"].source == Source(samples=800)


def test_on_this_machine_nothing_is_private() -> None:
    here = cluster_here(two_sources("digits", private=True), PROFILE)
    assert list(here.nodes) == ["phone", "tablet", "server"]
    phase = pilot_plan("tiny", PilotSetting(), PROFILE, here, 32).phases[0]
    assert (phase.replicas, {each.node for each in phase.instances}) == (1, {"server"})


@pytest.mark.parametrize("data", [None, "digits"])
@pytest.mark.parametrize("replicas", [1, 2, 5])
@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.05])
def test_a_plan_has_the_setting(data: str | None, replicas: int, fraction: float) -> None:
    here = cluster_here(two_sources(data), PROFILE)
    plan = pilot_plan("tiny", PilotSetting(fraction=fraction, replicas=replicas), PROFILE, here, 32)
    (phase,) = plan.phases
    used = evaluator(PROFILE, here).epoch_samples(phase)
    assert phase.replicas == replicas
    assert sum(used.values()) == 800 * fraction
    assert phase.batch == 32


def test_one_source_alone() -> None:
    here = cluster_here(two_sources("digits"), PROFILE)
    (phase,) = pilot_plan("tiny", PilotSetting(source="tablet"), PROFILE, here, 32).phases
    assert evaluator(PROFILE, here).epoch_samples(phase) == {"tablet": 200}


def test_on_hosts_private_data_stays() -> None:
    cluster = two_sources("digits", private=True)
    (phase,) = pilot_plan("tiny", PilotSetting(replicas=3), PROFILE, cluster, 32).phases
    assert sorted(each.node for each in phase.instances) == ["phone", "phone", "server"]
    assert {each.into.rpartition("-")[0] for each in phase.sources if each.node == "phone"} == {"phone"}
    with pytest.raises(pt.InputError, match="replicas are at phone and server; expected at least 2"):
        pilot_plan("tiny", PilotSetting(), PROFILE, cluster, 32)


def test_on_hosts_the_fastest_that_has_the_memory_computes() -> None:
    cluster = three_tiers(cloud=node("cloud", memory_bytes=10.0))
    known = profile(phone=40.0, server=2.0, cloud=1.0)
    (phase,) = pilot_plan("tiny", PilotSetting(), known, cluster, 32).phases
    assert phase.instances[0].node == "server"


def test_what_cannot_be_made_is_refused() -> None:
    cluster = two_sources()
    with pytest.raises(pt.InputError, match="batch: 3: expected at least 4"):
        pilot_phase(PilotSetting(replicas=4), cluster, ["server"], 3, PROFILE)
    with pytest.raises(pt.InputError, match="no source"):
        cluster_here(Cluster(nodes={"server": node("edge")}), PROFILE)
    with pytest.raises(pt.InputError, match="a profile of this cluster"):
        cluster_here(two_sources(), profile(other=1.0))


@pytest.mark.parametrize("data", [None, "digits"])
@pytest.mark.parametrize("window", [1, 4])
def test_what_is_coded_travels(data: str | None, window: int) -> None:
    here = cluster_here(two_sources(data), PROFILE, 2)
    setting = PilotSetting(replicas=2, window=window, exchange=Exchange(codec="int8"))
    (phase,) = pilot_plan("tiny", setting, PROFILE, here, 32).phases
    assert len({each.node for each in phase.instances}) == 2
    assert codings_of(phase) == (Coding("gradients" if window == 1 else "differences", "int8"),)


def test_a_network_is_cut_where_its_outputs_are_smallest() -> None:
    known = profile(4, phone=40.0, tablet=40.0, server=2.0)
    small = [layer.model_copy(update={"output_bytes": 7}) if k == 1 else layer for k, layer in enumerate(known.layers)]
    known = known.model_copy(update={"layers": tuple(small)})
    here = cluster_here(two_sources(), known, 2)
    (phase,) = pilot_plan("tiny", PilotSetting(output_codec="int8"), known, here, 32).phases
    assert [(each.layers, each.codec) for each in phase.instances] == [((1, 2), "int8"), ((3, 4), "none")]
    assert codings_of(phase) == (Coding("outputs", "int8"),)
    assert phase.instances[0].node != phase.instances[1].node


def test_one_node_alone_codes_nothing() -> None:
    alone = Cluster(nodes={"server": node("edge", samples=10)})
    with pytest.raises(pt.InputError, match="one node, server: within a node nothing is coded"):
        pilot_plan("tiny", PilotSetting(replicas=2, exchange=Exchange(codec="int8")), PROFILE, alone, 32)
