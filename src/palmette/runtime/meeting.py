"""Where the workers of a phase meet, whatever they stand on: the seam between a ground and a transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from palmette.runtime.gloo import GlooPlace
from palmette.runtime.parts import Part, channels_of
from palmette.runtime.program import Channel
from palmette.runtime.worker import Place

Entrance = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a ground offers to those who meet on it: a folder, an address for each node, and how a process gets there.

    ``apart``: every channel gets a connection of its own, where a transport can.
    """

    folder: Path
    nodes: Sequence[str]
    parts: Sequence[Part]
    addresses: Mapping[str, str]
    entrances: Mapping[str, Entrance | None]
    apart: bool = False

    @property
    def channels(self) -> list[Channel]:
        """All channels of the phase."""
        return list(channels_of(self.parts).values())


class Meeting(Protocol):
    """Gets ready for the workers of a phase, and tells each where to go."""

    def open(self, site: Site) -> None:
        """Get ready."""
        ...

    def place(self, node: str) -> Place:
        """Where the worker of a node meets the others."""
        ...

    def close(self) -> None:
        """Leave nothing behind."""
        ...


class GlooMeeting:
    """Over gloo, on a network that you trust: all connect with all, and find one another through a file."""

    def open(self, site: Site) -> None:
        """Nothing to do but to remember."""
        self._site = site

    def place(self, node: str) -> Place:
        """The file, and the node's address."""
        site = self._site
        own = tuple(channel for channel in site.channels if node in channel[1:]) if site.apart else ()
        return GlooPlace(site.folder / "store", tuple(site.nodes), site.addresses[node], own)

    def close(self) -> None:
        """The folder is the ground's."""
