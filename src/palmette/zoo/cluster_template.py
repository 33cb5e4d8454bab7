"""A cluster file to start from: a few machines per tier, linked tier to tier, with comments on what to change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from palmette.errors import ArgumentFault, Fault, InputError, expected_name
from palmette.spec.cluster import TIERS, Cluster
from palmette.spec.files import from_yaml, validated
from palmette.spec.units import BANDWIDTH, SIZE
from palmette.zoo.hardware import names

MAX_NODES = 10_000
HARDWARE = {"device": "raspberry-pi-4", "edge": "nuc-i3-7100u-4", "cloud": "xeon-gtx-1080-ti"}


@dataclass(frozen=True, kw_only=True)
class ClusterTemplate:
    """What the cluster is like: how many nodes per tier, on which hardware, how fast their links are.

    ``guessed`` names those of ``bandwidth`` and ``cloud_bandwidth`` that nobody has said or measured.
    ``sample`` is the size of a stored sample, ``storage`` what nodes without data may keep of them; "" where it is not
    known.
    """

    counts: dict[str, int] = field(default_factory=lambda: {"device": 1, "edge": 1, "cloud": 1})
    hardware: dict[str, str] = field(default_factory=lambda: dict(HARDWARE))
    bandwidth: str = "20 Mbit/s"
    cloud_bandwidth: str = "10 Mbit/s"
    guessed: frozenset[str] = frozenset()
    samples: int = 50_000
    private: bool = False
    sample: str = ""
    stream: bool = False
    storage: str = ""
    local: str | None = None

    def nodes(self) -> dict[str, list[str]]:
        """The names of the nodes of each tier that has some."""
        found: dict[str, list[str]] = {
            tier: [str(tier)] if self.counts[tier] == 1 else [f"{tier}{k + 1}" for k in range(self.counts[tier])]
            for tier in TIERS
        }
        return {tier: members for tier, members in found.items() if members}

    def owners(self) -> list[str]:
        """The nodes that own data: the devices, or else those of the lowest tier."""
        return next(iter(self.nodes().values()))

    def keepers(self) -> list[str]:
        """The nodes that may keep samples of others: those without data, or else all."""
        every = list(itertools.chain(*self.nodes().values()))
        return [name for name in every if name not in self.owners()] or every


def render_cluster(template: ClusterTemplate) -> str:
    """The text of a valid ``cluster.yaml`` with comments.

    Raises:
        InputError: holds every value that cannot be used.
    """
    faults = list(find_faults(template))
    if faults:
        raise InputError(faults)
    text = "\n".join([*_head(), *_node_lines(template), *_link_lines(template)]) + "\n"
    validated(Cluster, from_yaml(text), "the template")
    return text


def find_faults(template: ClusterTemplate) -> Iterator[Fault]:
    """The values that cannot be used, by the argument that sets them."""
    negative = {tier: count for tier, count in template.counts.items() if count < 0}
    few = [ArgumentFault(f"{tier}s", count, "expected 0 or more") for tier, count in negative.items()]
    total = sum(template.counts.values())
    if not few and not 1 <= total <= MAX_NODES:
        few.append(ArgumentFault("devices, edges, clouds", total, f"expected 1 to {MAX_NODES} nodes in all"))
    yield from few
    for tier, name in template.hardware.items():
        if name not in names():
            yield ArgumentFault(f"{tier}_hardware", name, expected_name(name, "hardware", list(names())))
    yield from _bandwidth_faults("bandwidth", template.bandwidth)
    yield from _bandwidth_faults("cloud_bandwidth", template.cloud_bandwidth)
    if not 1 <= template.samples <= 10**12:
        yield ArgumentFault("samples", template.samples, "expected at least 1 and at most 1000000000000")
    yield from _size_faults("sample", template.sample)
    yield from _size_faults("storage", template.storage)
    known = [] if few else list(itertools.chain(*template.nodes().values()))
    if not few and template.local is not None and template.local not in known:
        yield ArgumentFault("local", template.local, expected_name(template.local, "node", known))


def _bandwidth_faults(argument: str, text: str) -> Iterator[Fault]:
    try:
        bps = BANDWIDTH.parse(text)
    except ValueError as error:
        yield ArgumentFault(argument, text, str(error))
    else:
        if not 1 <= bps <= 1e18:
            yield ArgumentFault(argument, text, "expected at least 1 bit/s and at most 1000000000 Gbit/s")


def _size_faults(argument: str, text: str) -> Iterator[Fault]:
    try:
        size_bytes = SIZE.parse(text) if text else 1
    except ValueError as error:
        yield ArgumentFault(argument, text, str(error))
    else:
        if not 1 <= size_bytes <= 1e18:
            yield ArgumentFault(argument, text, "expected at least 1 B and at most 1000000 TB")


def _head() -> list[str]:
    return [
        "# A cluster: machines that can train together, and the links between them.",
        "# Quantities carry their unit: 5 Mbit/s, 1 GiB, 3.5 W, 10 ms, 20 nJ/bit, 30%, 2 Wh.",
        "# palmette check says what is wrong with this file; palmette hardware lists what `hardware` may name.",
        "",
        "# carbon: 300 g/kWh                 # of the electricity of all nodes, for the goal carbon",
        "",
    ]


def _node_lines(template: ClusterTemplate) -> Iterator[str]:
    yield "nodes:"
    owners, keepers = template.owners(), template.keepers()
    first = True
    for tier, members in template.nodes().items():
        for name in members:
            yield f"  {name}:"
            yield f"    tier: {tier}" + ("                      # device, edge or cloud" if first else "")
            comment = "   # memory, power and layer times are the catalogue's" if first else ""
            yield f"    hardware: {template.hardware[tier]}{comment}"
            if name == template.local:
                yield "    host: local                       # this machine: palmette profile measures it"
            if name in owners:
                yield from _source_lines(template, name == owners[0])
            if name in keepers:
                yield from _storage_lines(template, name == keepers[0])
            if first:
                yield "    # memory: 1 GiB                   # where it is not the catalogue's"
                yield "    # power: {idle: 1.9 W, busy: 5.1 W}"
                yield "    # limits: {cpu: 30%, energy: 2 Wh}  # what every plan obeys"
                yield "    # price: 0.4 EUR/h               # for the goal cost"
            first = False


def _source_lines(template: ClusterTemplate, first: bool) -> Iterator[str]:
    comment = "  # training data that lives here; private data never leaves its node" if first else ""
    yield f"    source: {_source(template)}{comment}"
    example = replace(template, sample=template.sample or "3 KiB", stream=True)
    if first and example != template:
        yield f"    # source: {_source(example)}  # the size of a stored sample; always new, used once"


def _source(template: ClusterTemplate) -> str:
    fields = [
        f"samples: {template.samples}",
        *(["private: true"] if template.private else []),
        *([f"sample: {template.sample}"] if template.sample else []),
        *(["stream: true"] if template.stream else []),
    ]
    return f"{{{', '.join(fields)}}}"


def _storage_lines(template: ClusterTemplate, first: bool) -> Iterator[str]:
    comment = "  # what it may keep of other nodes' samples on its disk" if first else ""
    if template.storage:
        yield f"    storage: {template.storage}{comment}"
    elif first:
        yield f"    # storage: 32 GiB{comment}"


def _link_lines(template: ClusterTemplate) -> Iterator[str]:
    pairs = list(_pairs(template.nodes()))
    if not pairs:
        return
    yield ""
    yield "links:                                # or up: and down:, from the first node to the second and back"
    if template.guessed:
        yield "  # guessed: true where nobody has measured it; palmette up does where engine is ray or hub"
    for number, (a, b) in enumerate(pairs):
        up = b in template.nodes().get("cloud", [])
        speed = template.cloud_bandwidth if up else template.bandwidth
        latency = "20 ms" if up else "2 ms"
        mark = ", guessed: true" if ("cloud_bandwidth" if up else "bandwidth") in template.guessed else ""
        comment = "  # energy: 90 nJ/bit where it is known" if number == 0 else ""
        yield f"  - {{between: [{a}, {b}], bandwidth: {speed}, latency: {latency}{mark}}}{comment}"


def _pairs(tiers: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Devices are linked to the edge servers in turn, edge servers to every cloud, the rest in a star."""
    present = [tiers[tier] for tier in ("device", "edge", "cloud") if tier in tiers]
    for lower, upper in itertools.pairwise(present):
        every = upper is tiers.get("cloud")
        for k, name in enumerate(lower):
            yield from ((name, other) for other in (upper if every else [upper[k % len(upper)]]))
    top = present[-1]
    if len(top) > 1 and (len(present) == 1 or top is not tiers.get("cloud")):
        yield from ((top[0], other) for other in top[1:])
