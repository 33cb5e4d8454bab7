"""What a TCP connection reaches on a link that loses packets.

Mathis, Semke, Mahdavi and Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm" (1997): at most
MSS / RTT · C / √p, with C = √(3/2) where every packet is acknowledged and losses are spread evenly. It is about
Reno and holds for small p; where a queue fills up, the round trip is longer than the latencies and the rate lower.
"""

from __future__ import annotations

import math

SEGMENT_BYTES = 1460
"""The payload of a packet of 1,500 bytes."""


def reached_bps(round_trip_s: float, loss_share: float) -> float:
    """The rate of one connection; infinite where nothing is lost."""
    return 8 * SEGMENT_BYTES / round_trip_s * math.sqrt(1.5 / loss_share) if loss_share else math.inf
