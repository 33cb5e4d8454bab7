"""The radio of a node: what it draws while it sends or receives, and for a while after.

The shape that phones show (Huang et al., "A close examination of performance and power characteristics of 4G LTE
networks", MobiSys 2012): power = α · throughput + β while active, so that a bit costs α + β / throughput; after a
transfer the radio stays on for its tail. α is the ``energy`` of a link, β the radio's ``active`` power.
"""

from __future__ import annotations

from palmette.spec.document import Document, Number
from palmette.spec.units import DURATION, POWER


class RadioTail(Document):
    """What a radio draws after a transfer, and for how long unless another one begins."""

    written = {"power": ("power_w", POWER), "time": ("time_s", DURATION)}

    power_w: Number
    time_s: Number


class Radio(Document):
    """What a node's radio draws beside its computing: while messages pass it, whatever their rate, and in its tail."""

    written = {"active": ("active_w", POWER)}

    active_w: Number = 0.0
    tail: RadioTail = RadioTail(power_w=0.0, time_s=0.0)
