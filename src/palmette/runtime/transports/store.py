"""The store through which hosts that share no files find each other: it listens at one address and asks for a secret.

PyTorch's own ``TCPStore`` listens on all interfaces and lets anybody write and delete. Here both ends first prove that
they know the secret of the rendezvous, without sending it (the challenges of ``multiprocessing.connection``), and a
value can neither be deleted nor written again. Keys and values are plain bytes of bounded size.

    set   → b"S" + key, then the value; answered by b""
    get   → b"G" + key; answered by the value, as soon as there is one
"""

from __future__ import annotations

import datetime as dt
import secrets
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import TYPE_CHECKING, Any

from torch.distributed import Store

from palmette.errors import RunError

SECRET_BYTES = 32
_MOST_BYTES = 2**16
_MOST_KEYS = 2**16
# Those that have not proved yet that they know the secret: how many at a time, and for how long.
_MOST_STRANGERS = 64
_PATIENCE_S = 10

if TYPE_CHECKING:
    Line = Connection[Any, Any]


@dataclass(frozen=True)
class StoreAddress:
    """Where a store listens, and the secret that it asks for."""

    host: str
    port: int
    secret: bytes = field(repr=False)


class StoreServer:
    """A store at an address of this machine, and at no other.

    Raises:
        RunError: it cannot listen there.
    """

    def __init__(self, host: str) -> None:
        try:
            family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
            self._listening = socket.create_server((host, 0), family=family)
        except OSError as error:
            raise RunError(f"cannot listen at {host}, where the nodes would find each other: {error}") from None
        self.address = StoreAddress(host, self._listening.getsockname()[1], secrets.token_bytes(SECRET_BYTES))
        self._values: dict[bytes, bytes] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._callers: set[socket.socket] = set()
        self._strangers = threading.BoundedSemaphore(_MOST_STRANGERS)
        threading.Thread(target=self._accept, name="store", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and end all connections."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            callers = [self._listening, *self._callers]
        for each in callers:
            with suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return  # closed
            if self._strangers.acquire(blocking=False):
                self._callers.add(caller)
                threading.Thread(target=self._serve, args=(caller,), name="store", daemon=True).start()
            else:
                caller.close()

    def _serve(self, caller: socket.socket) -> None:
        with caller, _line(caller.dup()) as line, suppress(OSError, EOFError):
            if self._knows_secret(caller, line):
                while self._answer(line):
                    pass
        self._callers.discard(caller)

    def _knows_secret(self, caller: socket.socket, line: Line) -> bool:
        """Whether a caller proves in time that it knows the secret; this store then proves the same."""
        try:
            _limit_reading(caller, _PATIENCE_S)
            deliver_challenge(line, self.address.secret)
            answer_challenge(line, self.address.secret)
            _limit_reading(caller, 0)
        except AuthenticationError:
            return False
        finally:
            self._strangers.release()
        return True

    def _answer(self, line: Line) -> bool:
        """Answer one request; returns whether to wait for another."""
        request = line.recv_bytes(_MOST_BYTES)
        verb, key = request[:1], request[1:]
        if verb == b"S":
            line.send_bytes(self._written(key, line.recv_bytes(_MOST_BYTES)))
        elif verb == b"G":
            line.send_bytes(self._awaited(key))
        return verb in (b"S", b"G") and not self._closed

    def _written(self, key: bytes, value: bytes) -> bytes:
        with self._changed:
            if len(self._values) >= _MOST_KEYS or self._values.setdefault(key, value) != value:
                raise EOFError  # nobody of the run would: hang up
            self._changed.notify_all()
        return b""

    def _awaited(self, key: bytes) -> bytes:
        with self._changed:
            self._changed.wait_for(lambda: key in self._values or self._closed)
            if self._closed:
                raise EOFError
            return self._values[key]


class NetworkStore(Store):
    """A store elsewhere, for gloo: the methods that it calls.

    Raises:
        RunError: the store cannot be reached, or does not know the secret; each call raises it, too.
    """

    def __init__(self, at: StoreAddress) -> None:
        super().__init__()
        self._at, self._lock = at, threading.Lock()
        try:
            self._line = _line(socket.create_connection((at.host, at.port), timeout=_PATIENCE_S))
            answer_challenge(self._line, at.secret)
            deliver_challenge(self._line, at.secret)
        except (OSError, EOFError, AuthenticationError) as error:
            raise self._gone(error) from None

    def set(self, key: str, value: str | bytes) -> None:
        """Publish a value."""
        self._ask(b"S" + key.encode(), value.encode() if isinstance(value, str) else value)

    def get(self, key: str) -> bytes:
        """The value of a key, as soon as there is one."""
        return self._ask(b"G" + key.encode())

    def wait(self, keys: Sequence[str], timeout: dt.timedelta | None = None) -> None:
        """Wait until all keys have values; the engine notices sooner than any timeout where one never comes."""
        for key in keys:
            self.get(key)

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _ask(self, *parts: bytes) -> bytes:
        try:
            with self._lock:
                for part in parts:
                    self._line.send_bytes(part)
                return self._line.recv_bytes(_MOST_BYTES)
        except (OSError, EOFError) as error:
            raise self._gone(error) from None

    def _gone(self, error: Exception) -> RunError:
        why = str(error) or type(error).__name__
        return RunError(f"the store at {self._at.host}:{self._at.port}, where nodes find each other, is gone: {why}")


@dataclass(frozen=True)
class StoreAddressBook:
    """The address book of nodes that share no files: in the store of their rendezvous."""

    at: StoreAddress

    def write(self, name: str, text: str) -> None:
        """Publish a text under a name."""
        store = NetworkStore(self.at)
        store.set(name, text)
        store.close()

    def read(self, name: str) -> str:
        """The text under a name."""
        store = NetworkStore(self.at)
        text = store.get(name).decode()
        store.close()
        return text


def _line(connected: socket.socket) -> Line:
    connected.settimeout(None)
    return Connection(connected.detach())


def _limit_reading(caller: socket.socket, seconds: int) -> None:
    """Let a read fail that takes longer; 0 means never."""
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))
