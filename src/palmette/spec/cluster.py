"""The cluster: nodes that compute, the links between them, and who owns training data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, cast, get_args

from pydantic import Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from palmette.errors import Guesses, listed
from palmette.spec.display import Displayed
from palmette.spec.document import (
    Count,
    Document,
    Flag,
    LocatedFault,
    Name,
    Number,
    Positive,
    entries,
    part,
    refuse,
)
from palmette.spec.files import yaml_text
from palmette.spec.units import BANDWIDTH, DURATION, ENERGY, ENERGY_PER_BIT, POWER, SHARE, SIZE

Tier = Literal["device", "edge", "cloud"]
TIERS: tuple[Tier, ...] = get_args(Tier)
DeviceName = Literal["cpu", "cuda", "mps"]
HERE = "local"
"""The host of a node that is this machine."""
Share = Annotated[float, Field(strict=True, ge=1e-6, le=1)]
_LEAST_BPS, _MOST_BPS = 1.0, 1e18
Rate = Annotated[float, Field(strict=True, ge=_LEAST_BPS, le=_MOST_BPS)]


def _privacy(value: Any) -> bool | Literal["labels"]:
    if isinstance(value, bool) or value == "labels":
        return cast("bool | Literal['labels']", value)
    raise PydanticCustomError("expected", "{expected}", {"expected": "expected true, false or labels"})


Privacy = Annotated[bool | Literal["labels"], PlainValidator(_privacy)]


class Power(Document):
    """What a node draws: idle, at full load, and how the difference grows with the CPU share in use."""

    written = {"idle": ("idle_w", POWER), "busy": ("busy_w", POWER)}

    idle_w: Number
    busy_w: Number
    exponent: Positive = 1.0

    @model_validator(mode="after")
    def _busy_above_idle(self) -> Self:
        if self.busy_w < self.idle_w:
            least = POWER.write(self.idle_w)
            refuse("Power", [LocatedFault(("busy",), f"{self.busy_w} W", f"expected at least the idle power, {least}")])
        return self


class Source(Document):
    """Training data that lives at a node; ``private`` samples never leave it, nor labels with ``private: labels``.

    ``sample_bytes`` is the size of one sample as it is stored and sent, where the file says so. A ``stream`` is always
    new, like a camera's: each sample is used once, and none can be kept for a later epoch.
    """

    written = {"sample": ("sample_bytes", SIZE)}

    samples: Count
    private: Privacy = False
    data: Name | None = None
    sample_bytes: Positive | None = None
    stream: Flag = False

    @property
    def keeps_labels(self) -> bool:
        """Whether the labels have to stay, too, so that the loss is computed here."""
        return self.private == "labels"


class Limits(Document):
    """Caps that every strategy obeys: the CPU share in use at a time, and the energy of a training."""

    written = {"cpu": ("cpu_share", SHARE), "energy": ("energy_j", ENERGY)}

    cpu_share: Share = 1.0
    energy_j: Positive | None = None


class Node(Document):
    """A machine that computes. ``memory_bytes`` and ``power`` are None where they are not known.

    ``storage_bytes`` is what it may keep of other nodes' samples on disk; where it is None, they count as memory.
    ``threads`` is how many cores a call of a layer uses; see ``thread_count`` where it is None.
    """

    written = {"memory": ("memory_bytes", SIZE), "storage": ("storage_bytes", SIZE)}

    tier: Tier
    memory_bytes: Positive | None = None
    storage_bytes: Positive | None = None
    power: Power | None = None
    source: Source | None = None
    limits: Limits = Limits()
    host: Name | None = None
    hardware: Name | None = None
    device: DeviceName = "cpu"
    threads: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None

    def thread_count(self, *, real_host: bool = False) -> int | None:
        """How many threads compute; None for as many as the machine has cores, as on a host of its own.

        Nodes on one machine, which share its cores, have one each. ``real_host`` where it is known to have its own.
        """
        if self.threads is not None or real_host or self.host not in (None, HERE):
            return self.threads
        return 1


class Link(Document):
    """A link between two nodes: one bandwidth for both directions, or ``up`` and ``down``.

    Up is from the first named node to the second. Half duplex shares one bandwidth between both directions.
    """

    written = {
        "bandwidth": ("bandwidth_bps", BANDWIDTH),
        "up": ("up_bps", BANDWIDTH),
        "down": ("down_bps", BANDWIDTH),
        "latency": ("latency_s", DURATION),
        "energy": ("energy_j_per_bit", ENERGY_PER_BIT),
    }

    between: tuple[Name, Name]
    bandwidth_bps: Rate | None = None
    up_bps: Rate | None = None
    down_bps: Rate | None = None
    latency_s: Number = 0.0
    energy_j_per_bit: Number = 0.0
    duplex: Literal["full", "half"] = "full"

    @model_validator(mode="after")
    def _has_one_rate_for_each_direction(self) -> Self:
        each = {"up": self.up_bps, "down": self.down_bps}
        stated = {key: BANDWIDTH.write(rate) for key, rate in each.items() if rate is not None}
        missing = [key for key in each if key not in stated]
        if self.bandwidth_bps is not None and stated:
            expected = "expected bandwidth, or up and down, not both"
            refuse("Link", [LocatedFault((key,), rate, expected) for key, rate in stated.items()])
        if self.bandwidth_bps is None and missing:
            expected = f"expected {missing[0]}, too" if stated else "expected bandwidth, or up and down"
            refuse("Link", [LocatedFault((missing[0] if stated else "bandwidth",), "missing", expected)])
        if stated and self.duplex == "half":
            refuse("Link", [LocatedFault(("duplex",), "half", "expected full, or one bandwidth for both directions")])
        return self

    @property
    def rates_bps(self) -> tuple[float, float]:
        """The bandwidth from the first named node to the second, and back."""
        both = self.bandwidth_bps
        rates = (self.up_bps, self.down_bps) if both is None else (both, both)
        return cast("tuple[float, float]", rates)

    @property
    def slower_bps(self) -> float:
        """The bandwidth of the slower direction."""
        return min(self.rates_bps)

    def from_bps(self, sender: str) -> float:
        """The bandwidth from one end to the other."""
        return self.rates_bps[sender != self.between[0]]

    def scaled(self, up: float, down: float | None = None) -> Self:
        """The link with its bandwidth multiplied by a factor, or by one for each direction."""
        rates = [
            min(_MOST_BPS, max(_LEAST_BPS, rate * factor))
            for rate, factor in zip(self.rates_bps, (up, up if down is None else down), strict=True)
        ]
        if rates[0] == rates[1] or self.duplex == "half":
            return self.model_copy(update={"bandwidth_bps": min(rates), "up_bps": None, "down_bps": None})
        return self.model_copy(update={"bandwidth_bps": None, "up_bps": rates[0], "down_bps": rates[1]})


class Cluster(Displayed, Document):
    """All nodes and links, and named sets of nodes."""

    nodes: Annotated[dict[Name, Node], Field(min_length=1)]
    links: tuple[Link, ...] = ()
    sets: dict[Name, tuple[Name, ...]] = {}

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        wrong = self.wrong_names(dict(self))
        if wrong:
            refuse("Cluster", wrong)
        return self

    @classmethod
    def wrong_names(cls, data: Mapping[Any, Any]) -> list[LocatedFault]:
        """Links and sets that name nodes which are not there, and links that join nothing new."""
        nodes = part(data, "nodes")
        known = [name for name in nodes if isinstance(name, str)] if isinstance(nodes, Mapping) else []
        return [*_wrong_links(data, known), *_wrong_sets(data, known)] if known else []

    def tier(self, tier: Tier) -> list[str]:
        """The nodes of a tier, in the order of the file."""
        return [name for name, node in self.nodes.items() if node.tier == tier]

    def sources(self) -> list[str]:
        """The nodes that own training data, in the order of the file."""
        return [name for name, node in self.nodes.items() if node.source is not None]

    def __repr__(self) -> str:
        nodes = listed([f"{name} ({node.tier})" for name, node in self.nodes.items()])
        many = f"{len(self.nodes)} node{'s' * (len(self.nodes) > 1)}"
        return f"Cluster({many}: {nodes}; {len(self.links)} link{'s' * (len(self.links) != 1)})"

    def to_yaml(self) -> str:
        """The cluster as a person would write it; reads back as the same cluster."""
        return yaml_text(_as_person_writes(self))


def _wrong_links(data: Mapping[Any, Any], known: list[str]) -> Iterator[LocatedFault]:
    joined: dict[frozenset[str], int] = {}
    names, guess = set(known), Guesses("node", known)
    for index, link in entries(data, "links"):
        ends = [name for _, name in entries(link, "between") if isinstance(name, str)]
        for side, name in enumerate(ends):
            if name not in names:
                yield LocatedFault(("links", index, "between", side), name, guess(name))
        if len(ends) == 2:
            earlier = joined.setdefault(frozenset(ends), index)
            if ends[0] == ends[1]:
                yield LocatedFault(("links", index, "between"), ends[0], "expected two different nodes")
            elif earlier != index:
                yield LocatedFault(("links", index, "between"), ", ".join(ends), f"links[{earlier}] joins them already")


def _wrong_sets(data: Mapping[Any, Any], known: list[str]) -> Iterator[LocatedFault]:
    sets, names, guess = part(data, "sets"), set(known), Guesses("node", known)
    for key in sets if isinstance(sets, Mapping) else ():
        for index, name in entries(sets, key):
            if isinstance(name, str) and name not in names:
                yield LocatedFault(("sets", key, index), name, guess(name))


def _as_person_writes(value: Any) -> Any:
    if isinstance(value, Document):
        keys = {field: (key, dimension) for key, (field, dimension) in value.written.items()}
        text = {}
        for field, content in value:
            if content == type(value).model_fields[field].default:
                continue
            if field in keys:
                key, dimension = keys[field]
                text[key] = dimension.write(content)
            else:
                text[field] = _as_person_writes(content)
        return text
    if isinstance(value, dict):
        return {key: _as_person_writes(item) for key, item in value.items()}
    return [_as_person_writes(item) for item in value] if isinstance(value, tuple) else value
