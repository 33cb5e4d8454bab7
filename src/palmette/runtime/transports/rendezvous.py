"""Where the workers of a phase meet, whatever they stand on: the seam between a ground and a transport."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from torch.distributed import TCPStore

from palmette.runtime.phase_programs import Part, channels_of
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Place
from palmette.runtime.transports.gloo import GlooPlace, StoreBoard, StorePlace
from palmette.runtime.transports.heartbeat import TOKEN_BYTES, Board, FolderBoard, WatchedPlace
from palmette.runtime.transports.service import Served, Service


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a ground offers to those who meet on it: an address for each node, how to get a service there, and a folder
    where all nodes share one.

    ``apart``: every channel gets a connection of its own, where a transport can. ``networked``: links can be cut, so
    nodes have to give one another signs of life; datagrams with this ``token`` are of this meeting.
    """

    nodes: Sequence[str]
    parts: Sequence[Part]
    addresses: Mapping[str, str]
    serve: Callable[[str, Service], Served]
    folder: Path | None = None
    apart: bool = False
    networked: bool = False
    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN_BYTES), repr=False)

    @property
    def channels(self) -> list[Channel]:
        """All channels of the phase."""
        return list(channels_of(self.parts).values())

    def watched(self, node: str, place: Place, board: Board) -> Place:
        """A place where nodes also give one another signs of life, if the site needs them."""
        peers = sorted({end for channel in self.channels if node in channel[1:] for end in channel[1:]} - {node})
        if not self.networked:
            return place
        return WatchedPlace(place, board, tuple(self.nodes), peers, self.token, self.addresses[node])


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
        assert site.folder is not None, "a file needs a folder"
        own = tuple(channel for channel in site.channels if node in channel[1:]) if site.apart else ()
        place = GlooPlace(site.folder / "store", tuple(site.nodes), site.addresses[node], own)
        return site.watched(node, place, FolderBoard(site.folder))

    def close(self) -> None:
        """The folder is the ground's."""


class StoreMeeting:
    """Over gloo, where hosts share no files: they find one another through a store at an address of this machine."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._store: TCPStore | None = None

    def open(self, site: Site) -> None:
        """Start the store."""
        self._site = site
        self._store = TCPStore(self._address, 0, is_master=True, wait_for_workers=False)

    def place(self, node: str) -> Place:
        """The store, and the node's address."""
        assert self._store is not None, "open() comes first"
        site, at = self._site, (self._address, self._store.port)
        place = StorePlace(*at, tuple(site.nodes), site.addresses[node])
        return site.watched(node, place, StoreBoard(*at))

    def close(self) -> None:
        """End the store."""
        self._store = None
