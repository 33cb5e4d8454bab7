"""Transfers that share links: each gets its max-min fair rate, updated whenever one starts or ends.

Max-min by progressive filling: the rates of all grow together until a resource is full or a transfer meets its own
cap; those stop there, the others grow on. What makes it fast for many transfers:

- A resource that the transfers of one path have to themselves at the moment is no more than a cap on their rates.
- Transfers that share the same other resources differ in their caps alone. They make a bundle, for which the filling
  finds one level: those with a cap up to the level run at their caps, the others at the level.
- A bundle counts the bits that each transfer at its level has had; such a transfer ends when the count reaches its
  mark. So passing time and a new level cost a step a bundle, not a transfer.

All transfers are alike here; ``priorities`` has those that give way to others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from heapq import heappop, heappush

Path = tuple[int, ...]
_INFINITE = float("inf")


class _Flow:
    """A transfer under way, at its cap or at the level of its bundle; ``capped`` is None until that is decided.

    At its cap it has ``left_bits`` to carry at ``since_s``; at the level it ends when its bundle has had ``mark_bits``.
    ``end`` is its own among the ends in a heap; what else a heap holds of it is out of date.
    """

    __slots__ = ("bundle", "cap_bps", "capped", "end", "left_bits", "mark_bits", "number", "order", "path", "since_s")

    def __init__(self, number: int, order: int, path: Path, bits: float, now_s: float) -> None:
        self.number, self.order, self.path = number, order, path
        self.left_bits, self.since_s, self.mark_bits = bits, now_s, 0.0
        self.cap_bps = 0.0
        self.capped: bool | None = None
        self.bundle: _Bundle | None = None
        self.end: _Entry | None = None

    @property
    def rate_bps(self) -> float:
        """Its rate since the last ``share``."""
        if self.capped or self.bundle is None:
            return self.cap_bps
        return self.bundle.level_bps

    def left_by(self, now_s: float) -> float:
        """Bits that it still has to carry."""
        if self.capped is None:
            return self.left_bits
        if self.capped:
            return max(0.0, self.left_bits - self.cap_bps * (now_s - self.since_s))
        assert self.bundle is not None
        return max(0.0, self.mark_bits - self.bundle.had_by(now_s))


_Entry = tuple[float, int, _Flow]  # a cap, an end in seconds or a mark; the transfer's place among all; itself


class _Bundle:
    """Transfers that share the same resources, in the order of their caps; ``fresh`` ones are still to be decided.

    Each of those at the level has had ``had_bits`` by ``since_s``; the first of them ends at ``end_s``.
    """

    __slots__ = ("caps", "end_s", "ends", "fresh", "had_bits", "level_bps", "narrowest_bps", "shared", "since_s")

    def __init__(self, shared: Path, narrowest_bps: float, now_s: float) -> None:
        self.shared, self.narrowest_bps = shared, narrowest_bps
        self.caps: list[_Entry] = []
        self.fresh: list[_Flow] = []
        self.ends: list[_Entry] = []
        self.level_bps = self.end_s = _INFINITE
        self.had_bits, self.since_s = 0.0, now_s

    def had_by(self, now_s: float) -> float:
        """Bits that each transfer at the level has had by now; where the level is infinite, none is at it."""
        if self.level_bps == _INFINITE:
            return self.had_bits
        return self.had_bits + self.level_bps * (now_s - self.since_s)

    def count_up_to(self, cap_bps: float) -> int:
        """The number of its transfers with a cap of at most this."""
        return bisect_right(self.caps, (cap_bps, _INFINITE))


class Flows:
    """The transfers under way at a moment, over resources of the given capacities (bit/s)."""

    def __init__(self, capacities: Sequence[float]) -> None:
        self._capacities = capacities
        self._on_path: dict[Path, list[_Flow]] = {}
        self._paths: dict[int, dict[Path, None]] = {}  # those in use over each resource
        self._bundles: dict[Path, _Bundle] = {}
        self._capped_ends: list[_Entry] = []
        self._begun = 0

    def begin(self, number: int, path: Path, bits: float, now_s: float) -> None:
        """Begin a transfer; ``share`` has to follow."""
        self._begun += 1
        flow = _Flow(number, self._begun, path, bits, now_s)
        if path in self._on_path:
            self._on_path[path].append(flow)
        else:
            self._on_path[path] = [flow]
            for resource in path:
                others = self._paths.setdefault(resource, {})
                others[path] = None
                if len(others) == 2:
                    self._put(next(iter(others)), now_s)  # had the resource to itself
        self._put(path, now_s)

    def end(self, now_s: float, soon_s: float) -> list[int]:
        """Take out the transfers that end between now and soon, which is as good as now; ``share`` has to follow."""
        ended = _taken(self._capped_ends, soon_s)
        for bundle in self._bundles.values():
            if bundle.end_s <= soon_s:
                ended += _taken(bundle.ends, max(_first(bundle.ends), bundle.had_by(soon_s) * (1 + 1e-12)))
        for flow in ended:
            self._leave(flow, now_s)
            others = self._on_path[flow.path]
            others.remove(flow)
            if others:
                self._put(flow.path, now_s)
            else:
                self._close(flow.path, now_s)
        return [flow.number for flow in ended]

    def share(self, now_s: float) -> float:
        """Share the resources among the transfers under way; returns when the first of them will end."""
        if not self._bundles:
            return _first(self._capped_ends)
        soonest_s = _INFINITE
        for bundle, level_bps in self._levels():
            if level_bps != bundle.level_bps or bundle.end_s == _INFINITE:
                self._settle(bundle, level_bps, now_s)
            soonest_s = min(soonest_s, bundle.end_s)
        return min(soonest_s, _first(self._capped_ends))

    def resources(self) -> list[int]:
        """Those that transfers under way use."""
        return [resource for resource, paths in self._paths.items() if paths]

    def used_bps(self, resource: int) -> float:
        """What the transfers under way take of a resource since the last ``share``."""
        return sum([flow.rate_bps for path in self._paths.get(resource, ()) for flow in self._on_path[path]])

    def renew(self, resource: int, now_s: float) -> None:
        """Note that the capacity of a resource is another from now on; ``share`` has to follow."""
        for path in self._paths.get(resource, ()):
            self._put(path, now_s)
        for bundle in self._bundles.values():
            if resource in bundle.shared:
                bundle.narrowest_bps = min([self._capacities[each] for each in bundle.shared])

    def _close(self, path: Path, now_s: float) -> None:
        """Note that a path is no longer in use; a path that shared a resource with it alone now has it to itself."""
        del self._on_path[path]
        for resource in path:
            others = self._paths[resource]
            del others[path]
            if len(others) == 1:
                self._put(next(iter(others)), now_s)

    def _put(self, path: Path, now_s: float) -> None:
        """Put the transfers of a path where they belong by now: into the bundle of its shared resources, by its cap."""
        flows, shared, narrowest, cap = self._on_path[path], [], _INFINITE, _INFINITE
        for resource in path:
            capacity = self._capacities[resource]
            if len(self._paths[resource]) > 1:
                shared.append(resource)
                narrowest = min(narrowest, capacity)
            else:
                cap = min(cap, capacity)
        cap = cap / len(flows) if cap < narrowest else _INFINITE  # a cap that can never bind is none
        for flow in flows:
            if flow.cap_bps != cap or (flow.bundle.shared if flow.bundle else ()) != tuple(shared):
                self._leave(flow, now_s)
                flow.cap_bps = cap
                if shared:
                    self._join(flow, tuple(shared), narrowest, now_s)
                else:
                    self._run_at_cap(flow, now_s)

    def _join(self, flow: _Flow, shared: Path, narrowest_bps: float, now_s: float) -> None:
        """Take a transfer into the bundle of its shared resources; ``share`` decides about its rate."""
        bundle = self._bundles.get(shared)
        if bundle is None:
            bundle = self._bundles[shared] = _Bundle(shared, narrowest_bps, now_s)
        flow.bundle = bundle
        insort(bundle.caps, (flow.cap_bps, flow.order, flow))
        bundle.fresh.append(flow)
        bundle.end_s = _INFINITE

    def _leave(self, flow: _Flow, now_s: float) -> None:
        """Take a transfer out of its bundle, if it is in one."""
        flow.left_bits, flow.since_s = flow.left_by(now_s), now_s
        bundle, flow.bundle, flow.capped, flow.end = flow.bundle, None, None, None
        if bundle is not None:
            del bundle.caps[bisect_left(bundle.caps, (flow.cap_bps, flow.order))]
            bundle.end_s = _INFINITE
            if not bundle.caps:
                del self._bundles[bundle.shared]

    def _settle(self, bundle: _Bundle, level_bps: float, now_s: float) -> None:
        """Give a bundle its new level, and decide again about the transfers whose caps it passes."""
        bundle.had_bits, bundle.since_s = bundle.had_by(now_s), now_s
        low_bps, high_bps = sorted((bundle.level_bps, level_bps))
        bundle.level_bps = level_bps
        passed = bundle.caps[bundle.count_up_to(low_bps) : bundle.count_up_to(high_bps)] if low_bps < high_bps else ()
        for flow in [*bundle.fresh, *(flow for _, _, flow in passed)]:
            capped = flow.cap_bps <= level_bps
            if flow.bundle is bundle and flow.capped is not capped:
                if capped:
                    self._run_at_cap(flow, now_s)
                else:
                    flow.mark_bits, flow.capped = flow.left_by(now_s) + bundle.had_bits, False
                    flow.end = (flow.mark_bits, flow.order, flow)
                    heappush(bundle.ends, flow.end)
        bundle.fresh.clear()
        mark_bits = _first(bundle.ends)
        left_bits = max(0.0, mark_bits - bundle.had_bits)
        bundle.end_s = now_s + _lasting_s(left_bits, level_bps) if mark_bits < _INFINITE else _INFINITE

    def _run_at_cap(self, flow: _Flow, now_s: float) -> None:
        flow.left_bits, flow.since_s, flow.capped = flow.left_by(now_s), now_s, True
        flow.end = (now_s + _lasting_s(flow.left_bits, flow.cap_bps), flow.order, flow)
        heappush(self._capped_ends, flow.end)

    def _levels(self) -> list[tuple[_Bundle, float]]:
        """The level of every bundle by progressive filling (bit/s); infinite where all of it stop at their caps."""
        growing, levels = list(self._bundles.values()), []
        if len(growing) == 1:
            level_bps = growing[0].narrowest_bps / len(growing[0].caps)
            if level_bps < growing[0].caps[0][0]:
                return [(growing[0], level_bps)]
        filling = _Filling(growing, self._capacities)
        while growing:
            level_bps, tightest = filling.rise()
            if sum([filling.stop_capped(bundle) for bundle in growing]):
                levels += [(bundle, _INFINITE) for bundle in growing if not filling.rest(bundle)]
                growing = [bundle for bundle in growing if filling.rest(bundle)]
            else:
                full = [bundle for bundle in growing if tightest in bundle.shared]
                growing = [bundle for bundle in growing if tightest not in bundle.shared]
                for bundle in full:
                    levels.append((bundle, level_bps))
                    filling.stop_rest(bundle)
        return levels


class _Filling:
    """Progressive filling under way: what is free on each resource, and how many transfers still grow there."""

    def __init__(self, bundles: Sequence[_Bundle], capacities: Sequence[float]) -> None:
        self._level_bps = 0.0
        self._stopped = {bundle.shared: 0 for bundle in bundles}
        self._free: dict[int, float] = {}
        self._growing: dict[int, int] = {}
        for bundle in bundles:
            for resource in bundle.shared:
                self._free[resource] = capacities[resource]
                self._growing[resource] = self._growing.get(resource, 0) + len(bundle.caps)

    def rise(self) -> tuple[float, int]:
        """The level up to which all that grow can grow, and the resource that is full then."""
        least, tightest = min([(self._free[r] / many, r) for r, many in self._growing.items() if many])
        self._level_bps = max(self._level_bps, least)  # rounding must not let the water sink
        return self._level_bps, tightest

    def rest(self, bundle: _Bundle) -> int:
        """The number of transfers of a bundle that still grow."""
        return len(bundle.caps) - self._stopped[bundle.shared]

    def stop_capped(self, bundle: _Bundle) -> int:
        """Stop the transfers of a bundle with caps up to the level; returns how many."""
        before, now = self._stopped[bundle.shared], bundle.count_up_to(self._level_bps)
        if now > before:
            self._stop(bundle, now - before, sum([cap for cap, _, _ in bundle.caps[before:now]]))
        return now - before

    def stop_rest(self, bundle: _Bundle) -> None:
        """Stop the transfers of a bundle at the level."""
        self._stop(bundle, self.rest(bundle), self.rest(bundle) * self._level_bps)

    def _stop(self, bundle: _Bundle, many: int, rate_bps: float) -> None:
        self._stopped[bundle.shared] += many
        for resource in bundle.shared:
            self._free[resource] -= rate_bps
            self._growing[resource] -= many


def _lasting_s(bits: float, rate_bps: float) -> float:
    """How long bits take; forever at a rate of 0, unless there are none."""
    return bits / rate_bps if rate_bps else _INFINITE if bits else 0.0


def _first(ends: list[_Entry]) -> float:
    """The first of the ends or marks, infinite where there is none; what is out of date is dropped."""
    while ends and ends[0][2].end is not ends[0]:
        heappop(ends)
    return ends[0][0] if ends else _INFINITE


def _taken(ends: list[_Entry], reach: float) -> list[_Flow]:
    """Take out the transfers that end within reach."""
    taken = []
    while ends and _first(ends) <= reach:
        taken.append(heappop(ends)[2])
        taken[-1].end = None
    return taken
