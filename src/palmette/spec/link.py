"""A link between two nodes: its bandwidth as a number, by direction, by the size of a message, or over time."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, model_validator

from palmette.spec.document import Document, Flag, LocatedFault, Name, Number, Positive, refuse
from palmette.spec.link_csv import read_trace
from palmette.spec.link_trace import BandwidthTrace
from palmette.spec.tcp import reached_bps
from palmette.spec.units import BANDWIDTH, DURATION, ENERGY_PER_BIT, SHARE, SIZE

_LEAST_BPS, _MOST_BPS = 1.0, 1e18
Rate = Annotated[float, Field(strict=True, ge=_LEAST_BPS, le=_MOST_BPS)]


class MessageRate(Document):
    """The bandwidth that a message of this size reaches on a link that it has to itself."""

    written = {"size": ("size_bytes", SIZE), "bandwidth": ("bandwidth_bps", BANDWIDTH)}

    size_bytes: Positive
    bandwidth_bps: Rate


class Link(Document):
    """A link between two nodes: one bandwidth for both directions, or ``up`` and ``down``.

    Up is from the first named node to the second. Half duplex shares one bandwidth between both directions. ``by_size``
    says what messages of some sizes reach of it, where small ones reach less. Where ``bandwidth_trace`` says how it
    changes, its bandwidth is the mean of that. Where packets are lost, each direction carries what TCP reaches. The
    last bit of a message arrives its ``latency`` later, and a random delay, exponential with the mean ``jitter``.
    ``guessed``: nobody has measured it, so ``palmette up`` does where it can.
    """

    written = {
        "bandwidth": ("bandwidth_bps", BANDWIDTH),
        "up": ("up_bps", BANDWIDTH),
        "down": ("down_bps", BANDWIDTH),
        "latency": ("latency_s", DURATION),
        "jitter": ("jitter_s", DURATION),
        "energy": ("energy_j_per_bit", ENERGY_PER_BIT),
        "loss": ("loss_share", SHARE),
    }

    between: tuple[Name, Name]
    bandwidth_bps: Rate | None = None
    up_bps: Rate | None = None
    down_bps: Rate | None = None
    latency_s: Number = 0.0
    jitter_s: Number = 0.0
    energy_j_per_bit: Number = 0.0
    loss_share: Annotated[float, Field(strict=True, ge=0.0, lt=1.0)] = 0.0
    duplex: Literal["full", "half"] = "full"
    guessed: Flag = False
    by_size: tuple[MessageRate, ...] = ()
    bandwidth_trace: BandwidthTrace | None = None

    @model_validator(mode="after")
    def _a_trace_stands_alone(self) -> Self:
        if self.bandwidth_trace is not None:
            given = {"bandwidth": self.bandwidth_bps, "up": self.up_bps, "down": self.down_bps}
            stated = [key for key, rate in given.items() if rate is not None]
            if stated:
                refuse("Link", [LocatedFault(("bandwidth_trace",), "a trace", f"expected it or {stated[0]}, not both")])
            if self.duplex == "half":
                refuse("Link", [LocatedFault(("duplex",), "half", "expected full, or a bandwidth instead of a trace")])
        return self

    @model_validator(mode="after")
    def _loss_has_a_round_trip(self) -> Self:
        if self.loss_share:
            if self.bandwidth_trace is not None:
                expected = "expected none beside a trace, which is of what the link reached"
                refuse("Link", [LocatedFault(("loss",), SHARE.write(self.loss_share), expected)])
            if not self.latency_s:
                expected = "expected a latency, too: what TCP reaches depends on the round trip"
                refuse("Link", [LocatedFault(("loss",), SHARE.write(self.loss_share), expected)])
        return self

    @model_validator(mode="after")
    def _sizes_rise(self) -> Self:
        sizes = [each.size_bytes for each in self.by_size]
        for k, (one, other) in enumerate(itertools.pairwise(sizes), 1):
            if other <= one:
                least = f"expected more than {SIZE.write(one)}, the size before"
                refuse("Link", [LocatedFault(("by_size", k, "size"), SIZE.write(other), least)])
        return self

    @model_validator(mode="after")
    def _has_one_rate_for_each_direction(self) -> Self:
        if self.bandwidth_trace is not None:
            return self
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
        """What transfers reach from the first named node to the second, and back."""
        if self.bandwidth_trace is not None:
            return self.bandwidth_trace.mean_bps
        both = self.bandwidth_bps
        rates = (self.up_bps, self.down_bps) if both is None else (both, both)
        up_bps, down_bps = cast("tuple[float, float]", rates)
        if not self.loss_share:
            return up_bps, down_bps
        most_bps = max(_LEAST_BPS, reached_bps(2 * self.latency_s, self.loss_share))
        return min(up_bps, most_bps), min(down_bps, most_bps)

    @property
    def mean_latency_s(self) -> float:
        """What a message takes beside its bits, in the mean."""
        return self.latency_s + self.jitter_s

    @property
    def slower_bps(self) -> float:
        """The bandwidth of the slower direction."""
        return min(self.rates_bps)

    def from_bps(self, sender: str) -> float:
        """The bandwidth from one end to the other."""
        return self.rates_bps[sender != self.between[0]]

    def reached(self, size_bytes: float, sender: str) -> float:
        """The part of its bandwidth that a message reaches; between two sizes, by the logarithm of the size."""
        if not self.by_size or size_bytes <= 0:
            return 1.0
        sizes = [each.size_bytes for each in self.by_size]
        rates = [each.bandwidth_bps for each in self.by_size]
        k = bisect_right(sizes, size_bytes)
        if k in (0, len(sizes)):
            rate_bps = rates[min(k, len(sizes) - 1)]
        else:
            part = math.log(size_bytes / sizes[k - 1]) / math.log(sizes[k] / sizes[k - 1])
            rate_bps = rates[k - 1] + part * (rates[k] - rates[k - 1])
        return min(1.0, rate_bps / self.from_bps(sender))

    def scaled(self, up: float, down: float | None = None) -> Self:
        """The link with what transfers reach multiplied by a factor, or by one for each direction."""
        rates = [
            min(_MOST_BPS, max(_LEAST_BPS, rate * factor))
            for rate, factor in zip(self.rates_bps, (up, up if down is None else down), strict=True)
        ]
        return self.with_rates(*rates)

    def measured(self, up_bps: float, down_bps: float, latency_s: float) -> Self:
        """The link as it was measured just now: what it was thought to lose, or to vary by, is in that."""
        known = {"latency_s": latency_s, "jitter_s": 0.0, "by_size": (), "guessed": False, "duplex": "full"}
        return self.model_copy(update=known).with_rates(up_bps, down_bps)

    def robust(self, share: float) -> Self:
        """The link with what its trace reaches for this share of the time; itself where it has none."""
        trace = self.bandwidth_trace
        return self if trace is None else self.with_rates(*trace.robust_bps(share))

    def with_rates(self, up: float, down: float) -> Self:
        """The link with what transfers reach up and down, without what else it said of that."""
        both = up == down or self.duplex == "half"
        rates = {"bandwidth_bps": min(up, down) if both else None}
        rates |= {"up_bps": None if both else up, "down_bps": None if both else down}
        return self.model_copy(update={**rates, "bandwidth_trace": None, "loss_share": 0.0})


def with_trace(link: Any, folder: Path) -> Any:
    """A link of raw data with its trace in place of the file that it names, which is relative to a folder.

    Raises:
        InputError: the trace cannot be read, or is none.
    """
    name = link.get("bandwidth_trace") if isinstance(link, Mapping) else None
    if not isinstance(name, str):
        return link
    return {**link, "bandwidth_trace": read_trace(folder / name).model_dump()}
