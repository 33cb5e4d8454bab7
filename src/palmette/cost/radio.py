"""The energy of radios: while messages pass them, and in the tail after each run of messages without a gap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from palmette.cost.steps import TimedStep
from palmette.spec.radio import Radio


def radios_j(
    radios: Mapping[str, Radio], hosts: Sequence[str], timed: Sequence[TimedStep], period_s: float | None = None
) -> dict[str, float]:
    """Joules of each host's radio in operations that repeat after ``period_s``, or when all have ended."""
    if not radios:
        return {}
    if period_s is None:
        period_s = max((end_s for _, _, _, end_s in timed), default=0.0)
    passing: dict[str, list[tuple[float, float]]] = {name: [] for name in hosts if name in radios}
    for step, size_bytes, start_s, end_s in timed:
        for name in (step.node, step.to) if step.to is not None and size_bytes else ():
            if name in passing:
                passing[name].append((start_s, end_s))
    return {name: radio_energy_j(radios[name], spans, period_s) for name, spans in passing.items()}


def radio_energy_j(radio: Radio, transfers: Iterable[tuple[float, float]], period_s: float) -> float:
    """Joules that a radio draws over a period in which these transfers (start_s, end_s) pass it, and which repeats.

    After each gap-free run of them the radio stays on for its tail, or until the next begins; the gap behind the last
    reaches into the next period.

        transfers   ├────┤   ├──┤             │├────┤
        radio       ├ on ┼tail┼on┼─ tail ─┤   │├ on …
    """
    active_s = tail_s = 0.0
    first_s = last_s = None
    for start_s, end_s in sorted(transfers):
        if last_s is None:
            first_s, last_s, active_s = start_s, end_s, end_s - start_s
            continue
        tail_s += min(max(0.0, start_s - last_s), radio.tail.time_s)
        active_s += max(0.0, end_s - max(start_s, last_s))
        last_s = max(last_s, end_s)
    if first_s is None or last_s is None:
        return 0.0
    tail_s += min(max(0.0, first_s + period_s - last_s), radio.tail.time_s)
    return radio.active_w * min(active_s, period_s) + radio.tail.power_w * tail_s
