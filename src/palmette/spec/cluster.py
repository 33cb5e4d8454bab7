"""The cluster: nodes that compute, the links between them, and who owns training data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
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
from palmette.spec.hourly_price import HourlyPrice, WrittenPrice
from palmette.spec.link import Link, with_trace
from palmette.spec.radio import Radio
from palmette.spec.units import CARBON, ENERGY, POWER, SHARE, SIZE

__all__ = ["Cluster", "Limits", "Link", "Node", "Power", "Source", "Tier"]

Tier = Literal["device", "edge", "cloud"]
TIERS: tuple[Tier, ...] = get_args(Tier)
DeviceName = Literal["cpu", "cuda", "mps"]
HERE = "local"
"""The host of a node that is this machine."""
Share = Annotated[float, Field(strict=True, ge=1e-6, le=1)]


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
    ``threads`` is how many cores a call of a layer uses; see ``thread_count`` where it is None. A ``relay`` computes
    nothing, and owns nothing: messages pass it. ``price`` is what it costs while a plan uses it, nothing where it is
    None; ``carbon_g_per_kwh`` what its electricity emits, where that differs from the cluster's. A ``blocking`` one
    computes nothing while it sends or receives. ``reserved_bytes`` of its memory are taken before any layer is there. A
    ``radio`` draws power of its own while messages pass it, and for a while after.
    """

    written = {
        "memory": ("memory_bytes", SIZE),
        "storage": ("storage_bytes", SIZE),
        "carbon": ("carbon_g_per_kwh", CARBON),
        "reserved": ("reserved_bytes", SIZE),
    }

    tier: Tier
    memory_bytes: Positive | None = None
    storage_bytes: Positive | None = None
    reserved_bytes: Number = 0.0
    blocking: Flag = False
    power: Power | None = None
    radio: Radio | None = None
    price: WrittenPrice | None = None
    carbon_g_per_kwh: Number | None = None
    source: Source | None = None
    limits: Limits = Limits()
    host: Name | None = None
    hardware: Name | None = None
    device: DeviceName = "cpu"
    threads: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None
    relay: Flag = False

    @model_validator(mode="after")
    def _relay_owns_nothing(self) -> Self:
        if self.relay and self.source is not None:
            refuse("Node", [LocatedFault(("source",), "given", "expected none: a relay only passes messages on")])
        return self

    def thread_count(self, *, real_host: bool = False) -> int | None:
        """How many threads compute; None for as many as the machine has cores, as on a host of its own.

        Nodes on one machine, which share its cores, have one each. ``real_host`` where it is known to have its own.
        """
        if self.threads is not None or real_host or self.host not in (None, HERE):
            return self.threads
        return 1


class Cluster(Displayed, Document):
    """All nodes and links, named sets of nodes, and what the electricity of nodes emits that do not say so."""

    file_with = "a cluster file, with nodes and links"
    written = {"carbon": ("carbon_g_per_kwh", CARBON)}

    nodes: Annotated[dict[Name, Node], Field(min_length=1)]
    links: tuple[Link, ...] = ()
    sets: dict[Name, tuple[Name, ...]] = {}
    carbon_g_per_kwh: Number | None = None

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        wrong = [*self.wrong_names(dict(self)), *_other_currencies(self.nodes)]
        if wrong:
            refuse("Cluster", wrong)
        return self

    @classmethod
    def wrong_names(cls, data: Mapping[Any, Any]) -> list[LocatedFault]:
        """Links and sets that name nodes which are not there, and links that join nothing new."""
        nodes = part(data, "nodes")
        known = [name for name in nodes if isinstance(name, str)] if isinstance(nodes, Mapping) else []
        return [*_wrong_links(data, known), *_wrong_sets(data, known)] if known else []

    @classmethod
    def with_files(cls, data: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Raw data with the traces of links in place of the files that they name.

        Raises:
            InputError: a trace cannot be read, or is none.
        """
        links = data.get("links")
        if not isinstance(links, list):
            return data
        return {**data, "links": [with_trace(link, folder) for link in links]}

    @property
    def varies(self) -> bool:
        """Whether the bandwidth of a link changes as it is known."""
        return any(link.bandwidth_trace is not None for link in self.links)

    def steady(self) -> Self:
        """The cluster with the mean of what each link with a trace reaches, as if it held all the time."""
        links = (link if link.bandwidth_trace is None else link.with_rates(*link.rates_bps) for link in self.links)
        return self.model_copy(update={"links": tuple(links)})

    def robust(self, share: float) -> Self:
        """The cluster with what each link with a trace reaches for this share of the time."""
        return self.model_copy(update={"links": tuple(link.robust(share) for link in self.links)})

    def tier(self, tier: Tier) -> list[str]:
        """The nodes of a tier that compute, in the order of the file."""
        return [name for name in self.computing if self.nodes[name].tier == tier]

    @property
    def computing(self) -> list[str]:
        """The nodes that are no relays, in the order of the file."""
        return [name for name, node in self.nodes.items() if not node.relay]

    def sources(self) -> list[str]:
        """The nodes that own training data, in the order of the file."""
        return [name for name, node in self.nodes.items() if node.source is not None]

    @property
    def currency(self) -> str | None:
        """The currency of all prices; None where no node has a price."""
        return next((node.price.currency for node in self.nodes.values() if node.price is not None), None)

    def carbon_of(self, name: str) -> float | None:
        """Grams of carbon dioxide for a kilowatt-hour of a node's electricity; None where that is not known."""
        own = self.nodes[name].carbon_g_per_kwh
        return self.carbon_g_per_kwh if own is None else own

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


def _other_currencies(nodes: Mapping[str, Node]) -> Iterator[LocatedFault]:
    prices = {name: node.price for name, node in nodes.items() if node.price is not None}
    for name, price in prices.items():
        first, known = next(iter(prices.items()))
        if price.currency != known.currency:
            expected = f"expected one currency in a cluster; {first} has {known.currency}"
            yield LocatedFault(("nodes", name, "price"), str(price), expected)


def _as_person_writes(value: Any) -> Any:
    if isinstance(value, HourlyPrice):
        return str(value)
    if isinstance(value, Document):
        keys = {field: (key, dimension) for key, (field, dimension) in value.written.items()}
        text = {}
        for field, description in type(value).model_fields.items():
            content = getattr(value, field)
            if content == description.default:
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
