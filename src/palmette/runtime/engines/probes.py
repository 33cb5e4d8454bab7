"""What can be measured on a node's machine, as requests and their results, and who asks for it.

    prober ── TimeLayers ──▶ the node's machine        over Ray, or to a worker at a hub
           ◀─ LayerTimes ──

A request holds names and numbers only. ``measure.probing`` carries it out; the engine takes it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Protocol, TypeVar

from pydantic import Field

from palmette.runtime.options import Precision
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Endpoint
from palmette.spec.cluster import DeviceName
from palmette.spec.profile import Times

MOST_TRANSFERRED_BYTES = 1 << 26
_LONGEST_LIST = 64

Size = Annotated[int, Field(ge=0, le=MOST_TRANSFERRED_BYTES)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=1000)]


@dataclass(frozen=True, kw_only=True)
class TimeLayers:
    """Time the layers of a network, and of it without some fractions of its parameters."""

    model: Text
    input_shape: tuple[int, ...] | None
    variants: Annotated[tuple[float, ...], Field(max_length=_LONGEST_LIST)] = ()
    freeze: Annotated[tuple[Text, ...], Field(max_length=_LONGEST_LIST)] = ()
    threads: int | None = None
    device: DeviceName = "cpu"
    precision: Precision | None = None


@dataclass(frozen=True)
class LayerTimes:
    """The times of a network's layers, by the fraction of parameters removed."""

    by_fraction: Annotated[dict[float, Times], Field(max_length=_LONGEST_LIST + 1)]


@dataclass(frozen=True, kw_only=True)
class TimeBuild:
    """Time building a network, and training passes of so many samples."""

    model: Text
    input_shape: tuple[int, ...] | None
    samples: Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class BuildTime:
    """Seconds of building a network on a machine, of its first training pass, and of a warm one."""

    network_s: Seconds
    first_pass_s: Seconds
    pass_s: Seconds

    @property
    def build_s(self) -> float:
        """Seconds until the machine can train."""
        return self.network_s + self.first_pass_s

    def emulated_s(self, step_s: float, first_step_s: float) -> float:
        """Seconds until a machine can train whose step, and whose first one, take so long.

        It builds as many times slower than the measured one as it trains.
        """
        return self.network_s * step_s / self.pass_s + first_step_s


@dataclass(frozen=True, kw_only=True)
class TimeTransfer:
    """Make round trips over two channels with another node: so many bytes there, and so many back.

    ``token`` is that of the relay at which workers meet, if they meet at one.
    """

    channels: tuple[Channel, Channel]
    sizes: tuple[Size, Size]
    token: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class TransferTime:
    """Seconds of the fastest round trip; on the node that answers, of its own part."""

    seconds: Seconds


@dataclass(frozen=True, kw_only=True)
class Echo:
    """Answer with so many bytes; the request itself has some, too."""

    payload: bytes = field(repr=False)
    answer_bytes: Size


@dataclass(frozen=True)
class Echoed:
    """The bytes that were asked for."""

    payload: bytes = field(repr=False)


@dataclass(frozen=True)
class ReadMeter:
    """Read the meter of the machine's energy."""


@dataclass(frozen=True)
class MeterTotal:
    """Joules and seconds since the meter was opened, and their source; ``absent`` says why there is none."""

    seconds: Seconds = 0.0
    joules: Seconds = 0.0
    source: Text = ""
    absent: Text | None = None


ProbeRequest = TimeLayers | TimeBuild | TimeTransfer | Echo | ReadMeter
ProbeResult = LayerTimes | BuildTime | TransferTime | Echoed | MeterTotal
CarryOut = Callable[[str, ProbeRequest, Endpoint | None], ProbeResult]
"""Carries out a request for a node on its machine; the endpoint is for transfers."""

R = TypeVar("R", bound=ProbeResult)


class Prober(Protocol):
    """Has requests carried out on the machines of ``nodes``."""

    nodes: Sequence[str]

    def ask(
        self,
        requests: Mapping[str, ProbeRequest],
        kind: type[R],
        endpoints: Mapping[str, Endpoint] = MappingProxyType({}),
    ) -> dict[str, R]:
        """Have a request carried out on each node, all at the same time; returns the results.

        Raises:
            RunError: a machine is lost, or cannot do it; names the node.
        """
        ...
