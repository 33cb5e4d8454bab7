"""A cluster as its machines measure it: links by real transfers, and power by the meters that they have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from palmette.control.run.engines import engine_of, membership_of
from palmette.control.run.request import Request
from palmette.cost.evaluate import Evaluator
from palmette.errors import ArgumentFault, InputError
from palmette.measure.bandwidth import measure_bandwidth
from palmette.measure.host_power import host_meters, measure_power
from palmette.measure.hosts import prober_of, transfers_on_hosts
from palmette.measure.hub_links import linked_to_hub, measure_hub_link
from palmette.runtime.engines.probes import Prober
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.engines.testbed import Testbed
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan


@dataclass(frozen=True)
class ClusterMeasurement:
    """Measures a cluster where its nodes are; ``tell`` is called with what was found, or is absent.

    Nodes are busy with ``model`` while their power is measured.
    """

    request: Request
    model: str
    tell: Callable[[str], None]

    def measured(self, cluster: Cluster) -> Cluster:
        """The cluster with measured links and power, within the limits of its workers.

        Raises:
            InputError: the engine has no machines of its own, or a node has none.
            RunError: a machine is lost.
        """
        asked = self.request
        keys = None if asked.keys is None else Path(asked.keys)
        prober = prober_of(asked.engine, cluster, listen=asked.listen, keys=keys)
        if prober is None:
            able = " or ".join(name for name, kind in ENGINES.items() if kind.prober is not None)
            raise InputError(ArgumentFault("engine", asked.engine, f"its links are not real; expected {able}"))
        through_hub = ENGINES[asked.engine].listens
        cluster = membership_of(asked).limited(cluster) if through_hub else cluster
        linked = self._through_hub(cluster, prober) if through_hub else self._directly(cluster, prober)
        return self._powered(linked, prober)

    def _through_hub(self, cluster: Cluster, prober: Prober) -> Cluster:
        found = {}
        for node in prober.nodes:
            found[node] = way = measure_hub_link(prober, node)
            self.tell(f"{node}: {way.up_bps / 1e6:.3g} Mbit/s to the hub, {way.down_bps / 1e6:.3g} Mbit/s from it")
        return linked_to_hub(cluster, found)

    def _directly(self, cluster: Cluster, prober: Prober) -> Cluster:
        links = []
        for link in cluster.links:
            one, other = link.between
            if {one, other} <= set(prober.nodes):
                way = measure_bandwidth(one, other, cluster, self._testbed, transfers_on_hosts(prober))
                links.append(link.measured(*way))
                self.tell(f"{one}: {way.up_bps / 1e6:.3g} Mbit/s to {other}, {way.down_bps / 1e6:.3g} Mbit/s from it")
            else:
                links.append(link)
        return cluster.model_copy(update={"links": tuple(links)})

    def _testbed(self, plan: Plan, prices: Evaluator) -> Testbed:
        return engine_of(self.request, plan, prices)[0]

    def _powered(self, cluster: Cluster, prober: Prober) -> Cluster:
        nodes = dict(cluster.nodes)
        for name, meter in host_meters(prober, self.tell).items():
            power, source = measure_power(prober, name, meter, self.model, self.request.input_shape)
            nodes[name] = nodes[name].model_copy(update={"power": power})
            self.tell(f"{name}: {power.idle_w:g} W idle, {power.busy_w:g} W busy, {source}")
        return cluster.model_copy(update={"nodes": nodes})
