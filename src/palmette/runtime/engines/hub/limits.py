"""What the owner of a worker lets it take of its machine. Planners are told, and the worker itself keeps to it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from palmette.errors import ArgumentFault, InputError, RunError
from palmette.spec.cluster import Cluster, Node
from palmette.spec.units import SHARE, SIZE, Dimension

_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_Bytes = Annotated[int, Field(gt=0, le=2**62)]


class WorkerLimits(BaseModel):
    """Limits of a worker: the share of its CPU, its memory and what it may keep of other nodes' samples.

    ``hours`` are those of the day in which it works, such as ``22:00-07:00``; with ``mains``, it works only while its
    machine is not on its battery. ``taken_bytes`` of its memory its process has before any layer is there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu_share: float = Field(default=1.0, gt=0, le=1)
    memory_bytes: _Bytes | None = None
    storage_bytes: _Bytes | None = None
    hours: str | None = Field(default=None, pattern=f"^{_HOURS.pattern}$")
    mains: bool = False
    taken_bytes: Annotated[int, Field(ge=0, le=2**62)] = 0

    def introduced(self) -> WorkerLimits:
        """These limits, with the memory that this process has now, where that counts."""
        return self if self.memory_bytes is None else self.model_copy(update={"taken_bytes": _resident_bytes()})

    def text(self) -> str:
        """As they stand in a cluster file, as far as they do; nothing where there are none."""
        parts = [
            f"cpu: {SHARE.show(self.cpu_share)}" if self.cpu_share < 1 else "",
            f"memory: {SIZE.show(self.memory_bytes)}" if self.memory_bytes else "",
            f"storage: {SIZE.show(self.storage_bytes)}" if self.storage_bytes else "",
            self.hours or "",
            "on mains only" if self.mains else "",
        ]
        return ", ".join(filter(None, parts))

    def applied(self, node: Node) -> Node:
        """A node of a cluster that takes no more than these limits allow."""
        share = min(node.limits.cpu_share, self.cpu_share)
        return node.model_copy(
            update={
                "limits": node.limits.model_copy(update={"cpu_share": share}),
                "memory_bytes": _least(node.memory_bytes, self.memory_bytes),
                "storage_bytes": _least(node.storage_bytes, self.storage_bytes),
                "reserved_bytes": max(node.reserved_bytes, float(self.taken_bytes)),
            }
        )

    def refuse_share(self, wanted: float) -> None:
        """Refuse a plan that takes more of the CPU.

        Raises:
            RunError: says what to write into the cluster file.
        """
        if wanted > self.cpu_share:
            allowed = SHARE.show(self.cpu_share)
            expected = f"expected limits: {{cpu: {allowed}}} of this node in the cluster file"
            raise RunError(f"the plan may take {SHARE.show(wanted)} of the CPU, its owner allows {allowed}; {expected}")

    def refuse_memory(self) -> None:
        """Refuse to go on with more memory.

        Raises:
            RunError: says how much this process has, and may have.
        """
        if self.memory_bytes is not None and (taken := _resident_bytes()) > self.memory_bytes:
            allowed = SIZE.show(self.memory_bytes)
            raise RunError(f"its worker takes {taken / 2**20:.0f} MiB of memory, its owner allows {allowed}")

    def away(self, now: dt.datetime | None = None) -> str | None:
        """Why it does not work at a moment, by the clock of its machine; None if it does."""
        if self.hours is not None and not within(self.hours, (now or dt.datetime.now()).time()):  # noqa: DTZ005
            return f"it works from {self.hours.replace('-', ' to ')}"
        if self.mains and _on_battery():
            return "its machine is running on battery"
        return None


NO_LIMITS = WorkerLimits()


def limited_cluster(cluster: Cluster, limits: Mapping[str, WorkerLimits]) -> Cluster:
    """The cluster within the limits of the workers that its nodes have; other nodes stay as they are."""
    nodes = {name: limits.get(name, NO_LIMITS).applied(node) for name, node in cluster.nodes.items()}
    return cluster.model_copy(update={"nodes": nodes})


def within(hours: str, moment: dt.time) -> bool:
    """Whether a moment is within hours such as ``22:00-07:00``; the end is not, and equal ones are the whole day."""
    found = _HOURS.fullmatch(hours)
    assert found is not None, "hours have been checked"
    begin, end = (dt.time(int(found[k]), int(found[k + 1])) for k in (1, 3))
    return begin <= moment < end if begin < end else moment >= begin or moment < end


def worker_limits(
    cpu: str | None, memory: str | None, storage: str | None, hours: str | None, mains: bool
) -> WorkerLimits:
    """The limits that the words of a command line mean.

    Raises:
        InputError: holds a fault for each that is none.
    """
    wrong: list[ArgumentFault] = []

    def parsed(name: str, text: str | None, unit: Dimension, most: float) -> float | None:
        if text is None:
            return None
        try:
            found = unit.parse(text)
        except ValueError as error:
            wrong.append(ArgumentFault(name, text, str(error)))
            return None
        if not 0 < found <= most:
            wrong.append(ArgumentFault(name, text, f"expected more than 0 and at most {unit.write(most)}"))
        return found

    share = parsed("cpu", cpu, SHARE, 1.0)
    sizes = [parsed(name, text, SIZE, 2.0**60) for name, text in (("memory", memory), ("storage", storage))]
    if hours is not None and not _HOURS.fullmatch(hours):
        wrong.append(ArgumentFault("hours", hours, "expected two times of the day, such as 22:00-07:00"))
    if wrong:
        raise InputError(wrong)
    memory_bytes, storage_bytes = (None if each is None else int(each) for each in sizes)
    return WorkerLimits(
        cpu_share=1.0 if share is None else share,
        memory_bytes=memory_bytes,
        storage_bytes=storage_bytes,
        hours=hours,
        mains=mains,
    )


def _least(one: float | None, other: int | None) -> float | None:
    """The smaller of two sizes, of which each may not be known."""
    return min((float(each) for each in (one, other) if each is not None), default=None)


def _resident_bytes() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


def _on_battery() -> bool:
    """Whether this machine has a battery, and nothing else; where the system does not say, it is on mains."""
    import psutil

    read = getattr(psutil, "sensors_battery", None)
    battery = read() if read is not None else None
    return battery is not None and battery.power_plugged is False
