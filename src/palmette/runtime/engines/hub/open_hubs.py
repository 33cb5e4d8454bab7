"""The hubs of this process: one for each address and folder of keys, open for all runs."""

from __future__ import annotations

import atexit
import threading
from pathlib import Path

from palmette.errors import ArgumentFault, InputError
from palmette.runtime.engines.hub.server import HubServer

_OPEN: dict[tuple[str, Path], HubServer] = {}
_OPENING = threading.Lock()


def open_hub(address: str, keys: Path, *, keeps_runs: bool = False) -> HubServer:
    """The hub of this process at an address; it stays open for later runs, until the process ends.

    Raises:
        InputError: the address is not host:port, or the folder lacks the hub's own key.
        RunError: the address cannot be used.
    """
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 2**16):
        raise InputError(ArgumentFault("listen", address, "expected host:port, such as 0.0.0.0:8443"))
    key = address, keys.absolute()
    with _OPENING:
        if key not in _OPEN:
            if not _OPEN:
                atexit.register(close_hubs)
            _OPEN[key] = HubServer(address, keys, keeps_runs=keeps_runs)
        return _OPEN[key]


def close_hubs() -> None:
    """Close all hubs of this process."""
    with _OPENING:
        for hub in _OPEN.values():
            hub.close()
        _OPEN.clear()
