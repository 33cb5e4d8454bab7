"""How the workers of a phase find each other: the interface between a testbed and a transport."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from palmette.runtime.phase_programs import PhasePart, background_channels, channels_of, leading_channels
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Endpoint
from palmette.runtime.transports.gloo import FileEndpoint, StoreEndpoint
from palmette.runtime.transports.heartbeat import TOKEN_BYTES, AddressBook, FolderAddressBook, HeartbeatEndpoint
from palmette.runtime.transports.service import RunningService, Service
from palmette.runtime.transports.store import StoreAddressBook, StoreServer


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a testbed offers to a transport: an address for each node, how to start a service there, and a folder if all
    nodes share one.

    ``apart``: every channel gets a connection of its own, where the transport can do that. ``networked``: links can be
    cut, so nodes have to exchange heartbeats; those of this rendezvous carry ``token``.
    """

    nodes: Sequence[str]
    parts: Sequence[PhasePart]
    addresses: Mapping[str, str]
    serve: Callable[[str, Service], RunningService]
    folder: Path | None = None
    apart: bool = False
    networked: bool = False
    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN_BYTES), repr=False)

    @property
    def channels(self) -> list[Channel]:
        """All channels of the phase."""
        return list(channels_of(self.parts).values())

    def watched(self, node: str, endpoint: Endpoint, board: AddressBook) -> Endpoint:
        """An endpoint with heartbeats, if the site needs them."""
        peers = sorted({end for channel in self.channels if node in channel[1:] for end in channel[1:]} - {node})
        if not self.networked:
            return endpoint
        return HeartbeatEndpoint(endpoint, board, tuple(self.nodes), peers, self.token, self.addresses[node])


class Rendezvous(Protocol):
    """Prepares for the workers of a phase, and gives each its endpoint."""

    def open(self, site: Site) -> None:
        """Prepare for the workers on a site."""
        ...

    def endpoint(self, node: str) -> Endpoint:
        """The endpoint where the worker of a node connects to the others."""
        ...

    def close(self) -> None:
        """Remove all that ``open`` has set up."""
        ...


class FileRendezvous:
    """Over gloo, on a network that you trust: all connect to all, and find each other through a file."""

    def open(self, site: Site) -> None:
        """Remember the site."""
        self._site = site

    def endpoint(self, node: str) -> Endpoint:
        """The file, and the node's address."""
        site = self._site
        assert site.folder is not None, "a file needs a folder"
        own = tuple(channel for channel in site.channels if node in channel[1:]) if site.apart else ()
        background = background_channels(site.parts)
        leading = leading_channels(site.parts) if site.apart else {}
        nodes, address = tuple(site.nodes), site.addresses[node]
        endpoint = FileEndpoint(site.folder / "store", nodes, address, own, background, leading)
        return site.watched(node, endpoint, FolderAddressBook(site.folder))

    def close(self) -> None:
        """Nothing to do: the folder belongs to the testbed."""


class StoreRendezvous:
    """Over gloo, where hosts share no files: they find each other through a store at an address of this machine."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._store: StoreServer | None = None

    def open(self, site: Site) -> None:
        """Start the store."""
        self._site = site
        self._store = StoreServer(self._address)

    def endpoint(self, node: str) -> Endpoint:
        """The store, and the node's address."""
        assert self._store is not None, "open() comes first"
        site, at = self._site, self._store.address
        endpoint = StoreEndpoint(at, tuple(site.nodes), site.addresses[node])
        return site.watched(node, endpoint, StoreAddressBook(at))

    def close(self) -> None:
        """Stop the store."""
        if self._store is not None:
            self._store.close()
            self._store = None
