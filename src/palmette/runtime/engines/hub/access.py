"""Where a hub is, and the credentials with which a node or a person enters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from palmette.errors import ArgumentFault, InputError
from palmette.runtime.engines.hub.messages import HUB
from palmette.runtime.transports.keys.certificates import dns_name
from palmette.runtime.transports.keys.credentials import Credentials
from palmette.runtime.transports.tls.frames import MOST_BYTES

_OPTIONS = [
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.ssl_target_name_override", dns_name(HUB)),
]


@dataclass(frozen=True)
class HubAccess:
    """Where a hub is, and the credentials with which a node enters; any other certificate than the hub's is refused.

    ``keep`` keeps them when the certificate was renewed.
    """

    address: str
    own: Credentials
    keep: Callable[[Credentials], None] = lambda _: None

    def dialled(self, *more: tuple[str, int]) -> Any:
        """A connection, which is established when it is first used; with more options of gRPC's."""
        secured = grpc.ssl_channel_credentials(self.own.authority, self.own.key, self.own.certificate)
        return grpc.secure_channel(self.address, secured, options=[*_OPTIONS, *more])


def hub_address(text: str) -> str:
    """An address, host:port, as a user types it.

    Raises:
        InputError: it is none.
    """
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 2**16):
        raise InputError(ArgumentFault("hub", text, "expected host:port, such as hub.example:8443"))
    return text
