"""Where a pilot computes, and the instance tree of a setting.

Under ``step`` the loss depends neither on nodes nor on links, only on which samples are in a batch and, with batch
norm, on how they are spread over replicas. So all replicas are instances of the whole network on one node, but those
of private sources, which stay where their data is:

    phone  ──16──▶ server-1[1..7]@server ─┐
    tablet ──16──▶ server-2[1..7]@server ─┴ gradients are added up

What travels coded has to travel: replicas are then spread over the fastest nodes, and for a codec of outputs each is
cut in two, where outputs are smallest, as plans cut networks there:

    phone  ──32──▶ server-1[1..5]@server ──int8──▶ server-1-rest[6..7]@cloud

On this machine nodes have neither limits nor private data, since all of it is here. Sources that share their data are
one node then: one process is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from palmette.control.pilot.grid import PilotSetting
from palmette.cost.check import check
from palmette.cost.estimate import evaluator
from palmette.errors import ArgumentFault, Fault, InputError, listed
from palmette.plan.core.samples import apportion
from palmette.spec.cluster import HERE, Cluster, Link, Node, Source
from palmette.spec.codec import PLAIN, Codec
from palmette.spec.plan import Inputs, Phase, Plan
from palmette.spec.profile import Profile
from palmette.spec.tree import Feed, Instance

_LOOPBACK_BPS = 1e10


def cluster_here(cluster: Cluster, profile: Profile, computing: int = 1) -> Cluster:
    """The cluster of a pilot on this machine: its sources, and the nodes that compute, if there are so many.

    Raises:
        InputError: there is no source of training data.
    """
    owned = _sources(cluster)
    place, *others = _by_speed(profile, cluster)[:computing]
    sources = {name: source.model_copy(update={"private": False}) for name, source in owned.items()}
    if not any(source.data for source in owned.values()):
        sources = {place: Source(samples=sum(source.samples for source in owned.values()))}
    names = dict.fromkeys([*sources, place, *others])
    nodes = {name: _here(cluster.nodes[name], sources.get(name)) for name in names}
    links = tuple(Link(between=(name, place), bandwidth_bps=_LOOPBACK_BPS) for name in nodes if name != place)
    return Cluster(nodes=nodes, links=links)


def _here(node: Node, source: Source | None) -> Node:
    """A node as a process of this machine."""
    own = {"device": node.device, "threads": node.threads} if node.host == HERE else {}
    return Node.model_validate({"tier": node.tier, "host": HERE, **own}).model_copy(update={"source": source})


def _sources(cluster: Cluster) -> dict[str, Source]:
    found = {name: node.source for name, node in cluster.nodes.items() if node.source is not None}
    if not found:
        raise InputError(Fault("nodes", "no source", "expected at least one node with a source of training data"))
    return found


def _by_speed(profile: Profile, cluster: Cluster) -> list[str]:
    """The nodes with times, the fastest first.

    Raises:
        InputError: there is none.
    """
    known = {name: times for name, times in profile.nodes.items() if name in cluster.nodes}
    if not known:
        raise InputError(ArgumentFault("profile", "no node of the cluster", "expected a profile of this cluster"))
    return sorted(known, key=lambda name: sum(known[name].forward_s) + sum(known[name].backward_s))


def pilot_plan(model: str, setting: PilotSetting, profile: Profile, cluster: Cluster, batch: int) -> Plan:
    """The plan of a setting for ``model``, on the fastest node that can compute it.

    Raises:
        InputError: no node can, the batch is too small, or private sources need more replicas.
    """
    prices, reasons = evaluator(profile, cluster), list[Fault]()
    places = _by_speed(profile, cluster)
    for k in range(len(places)):
        phase = pilot_phase(setting, cluster, [*places[k:], *places[:k]], batch, profile)
        inputs = Inputs(cluster=cluster, profile=profile)
        plan = Plan(model=model, batch=batch, phases=(phase,), inputs=inputs)
        wrong = check(plan, prices)
        if not wrong:
            return plan
        reasons = reasons or list(wrong)
    raise InputError(reasons)


def pilot_phase(setting: PilotSetting, cluster: Cluster, places: Sequence[str], batch: int, profile: Profile) -> Phase:
    """Replicas of the whole network at the first of ``places``, or spread; those of private data at its source.

    Raises:
        InputError: the batch is too small, private sources need more replicas, or there is one node to travel between.
    """
    if setting.needs_several_nodes and len(places) < 2:
        expected = "within a node nothing is coded; expected a cluster of two nodes or more with times in the profile"
        raise InputError(ArgumentFault("codecs", f"one node, {places[0]}", expected))
    sources, every = _sources(cluster), setting.source is None
    by_host: dict[str, list[tuple[str, int]]] = {}
    for name, source in sources.items():
        if every or name == setting.source:
            by_host.setdefault(name if source.private else places[0], []).append((name, source.samples))
    instances, feeds = list[Instance](), list[tuple[str, int, str]]()
    for host, many in _replicas_by_host(by_host, setting.replicas).items():
        names = [f"{host}-{k}" for k in range(1, many + 1)]
        nodes = places if setting.exchange.kind.lossy and host == places[0] else [host]
        instances += [
            Instance(id=name, layers=(1, len(profile.layers)), node=nodes[k % len(nodes)])
            for k, name in enumerate(names)
        ]
        parts = _split(by_host[host], many)
        feeds += [(node, samples, names[k % many]) for k, (node, samples) in enumerate(parts)]
    if batch < len(feeds):
        raise InputError(
            ArgumentFault("batch", batch, f"expected at least {len(feeds)}, one for each source and replica")
        )
    owned = [samples for _, samples, _ in feeds]
    shares, amounts = apportion(batch, owned), apportion(max(len(feeds), round(setting.fraction * sum(owned))), owned)
    return Phase(
        **_agreement(setting),
        sources=tuple(
            Feed(node=node, samples=share, epoch_samples=amount, into=into)
            for (node, _, into), share, amount in zip(feeds, shares, amounts, strict=True)
        ),
        instances=_with_shares(_cut(instances, setting.output_codec, places, profile), cluster),
    )


def _agreement(setting: PilotSetting) -> dict[str, Any]:
    """The fields of a phase that say how its replicas agree."""
    apart = {"sync": "every", "every": setting.window, "outer": setting.outer} if setting.window > 1 else {}
    return {**apart, "exchange": setting.exchange}


def _cut(instances: list[Instance], codec: Codec, places: Sequence[str], profile: Profile) -> list[Instance]:
    """Instances cut in two with a codec in between, each going on at another place; themselves for the plain codec.

    Raises:
        InputError: a network of one layer cannot be cut.
    """
    if codec == PLAIN:
        return instances
    depth = len(profile.layers)
    if depth < 2:
        raise InputError(ArgumentFault("output_codecs", codec, "a network of one layer cannot be cut; expected none"))
    cut = min(range(1, depth), key=lambda layer: profile.layers[layer - 1].output_bytes)
    found = []
    for each in instances:
        rest, other = f"{each.id}-rest", next(place for place in places if place != each.node)
        found.append(each.model_copy(update={"layers": (1, cut), "into": rest, "codec": codec}))
        found.append(Instance(id=rest, layers=(cut + 1, depth), node=other))
    return found


def _with_shares(instances: Sequence[Instance], cluster: Cluster) -> tuple[Instance, ...]:
    """Instances of a node with equal shares of its CPU."""
    many = Counter(each.node for each in instances)
    shares = {node: cluster.nodes[node].limits.cpu_share / times for node, times in many.items()}
    return tuple(each.model_copy(update={"cpu_share": shares[each.node]}) for each in instances)


def _replicas_by_host(by_host: dict[str, list[tuple[str, int]]], replicas: int) -> dict[str, int]:
    """How many replicas are where: one each, and more where the most samples are.

    Raises:
        InputError: there are fewer replicas than places.
    """
    found, owned = dict.fromkeys(by_host, 1), {host: sum(many for _, many in each) for host, each in by_host.items()}
    if replicas < len(found):
        stays = f"private data is trained on where it is, so that replicas are at {listed(list(found))}"
        expected = f"{stays}; expected at least {len(found)}"
        raise InputError(ArgumentFault("replicas", replicas, expected))
    for _ in range(replicas - len(found)):
        found[max(found, key=lambda host: owned[host] / found[host])] += 1
    return found


def _split(sources: Sequence[tuple[str, int]], least: int) -> list[tuple[str, int]]:
    """Sources and their samples, the largest in halves until there are enough.

    Raises:
        InputError: there are fewer samples than parts.
    """
    parts = list(sources)
    while len(parts) < least:
        largest = max(range(len(parts)), key=lambda k: parts[k][1])
        name, samples = parts[largest]
        if samples < 2:
            raise InputError(ArgumentFault("replicas", least, f"expected at most {len(parts)}, one for each sample"))
        parts[largest : largest + 1] = [(name, samples - samples // 2), (name, samples // 2)]
    return parts
