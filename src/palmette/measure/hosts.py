"""Measurements on the machines that nodes are: layer times, build times, transfers, links and power."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from palmette.errors import RunError
from palmette.measure.bandwidth import RunTransfer, TransferEnd
from palmette.measure.compute_settings import node_settings
from palmette.measure.probing import carry_out
from palmette.runtime.engines.base import EngineSettings
from palmette.runtime.engines.probes import BuildTime, LayerTimes, Prober, TimeBuild, TimeLayers, TransferTime
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.options import Precision
from palmette.spec.cluster import HERE, Cluster
from palmette.spec.profile import Times


def prober_of(
    engine: str,
    cluster: Cluster,
    measured_on: Sequence[str] = (),
    *,
    listen: str | None = None,
    keys: Path | None = None,
) -> Prober | None:
    """Who measures on the machines of an engine's nodes; None for an engine without real hosts.

    A node with other times (hardware of the catalogue, ``host: local``, or one in ``measured_on``) need not be there.

    Raises:
        InputError: the engine is missing something, or a node has no machine.
        RunError: a node's worker has not come.
    """
    make = ENGINES[engine].prober
    if make is None:
        return None
    others = [name for name in cluster.computing if name not in measured_on]
    free = [name for name in others if cluster.nodes[name].hardware or cluster.nodes[name].host == HERE]
    needed = [name for name in others if name not in free]
    return make(EngineSettings(nodes=needed, optional=free, listen=listen, keys=keys), carry_out)


def measure_times_on_hosts(
    prober: Prober,
    model: str,
    cluster: Cluster,
    input_shape: tuple[int, ...] | None,
    variants: Sequence[float] = (),
    *,
    freeze: Sequence[str] = (),
    precision: Precision | None = None,
) -> dict[str, dict[float, Times]]:
    """The times of a network's layers on each node's machine, by the fraction of parameters removed.

    Each machine computes as its node's worker does: with the same threads, device and precision.

    Raises:
        InputError: the network cannot be loaded there.
        RunError: a machine is lost meanwhile, or measures something else.
    """
    requests = {}
    for name in prober.nodes:
        settings = node_settings(cluster.nodes[name], precision, real_host=True)
        requests[name] = TimeLayers(
            model=model,
            input_shape=input_shape,
            variants=tuple(variants),
            freeze=tuple(freeze),
            threads=settings.threads,
            device=settings.device,
            precision=precision,
        )
    found = {name: each.by_fraction for name, each in prober.ask(requests, LayerTimes).items()}
    expected = {0.0, *variants}
    for name, times in found.items():
        if set(times) != expected:
            raise RunError(f"node {name}: its worker measured other networks than those that it was asked for")
    return found


def measure_build_times_on_hosts(
    prober: Prober, model: str, input_shape: tuple[int, ...] | None, samples: int
) -> dict[str, BuildTime]:
    """The time until each machine can train.

    Raises:
        InputError: the network cannot be loaded there.
        RunError: a machine is lost meanwhile.
    """
    request = TimeBuild(model=model, input_shape=input_shape, samples=samples)
    return prober.ask(dict.fromkeys(prober.nodes, request), BuildTime)


def transfers_on_hosts(prober: Prober) -> RunTransfer:
    """What gives the fastest round trip between two machines.

    Raises:
        RunError: when called: a machine is lost, or nothing came through.
    """

    def transfer(one: TransferEnd, two: TransferEnd) -> float:
        ends = (one, two)
        requests = {end.node: end.request for end in ends}
        found = prober.ask(requests, TransferTime, {end.node: end.endpoint for end in ends})
        return found[one.node].seconds

    return transfer
