"""Credentials held in memory, for the nodes of one run or for one node; what a folder of keys offers, without files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from palmette.errors import ArgumentFault, InputError
from palmette.runtime.transports.keys.audit import AuditEvent
from palmette.runtime.transports.keys.certificates import (
    authority_certificate,
    new_key,
    node_certificate,
    revocation_list,
)
from palmette.runtime.transports.keys.credentials import Credentials
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.pem import key_text, text_of


class KeySource(Protocol):
    """Where credentials come from."""

    def credentials(self, node: str) -> Credentials:
        """A node's key and certificate, and the authority that it trusts.

        Raises:
            InputError: they are missing, or not valid.
        """
        ...

    def renewed(self, known: Credentials) -> Credentials:
        """Credentials with the current list of revoked certificates."""
        ...

    def note(self, event: AuditEvent, **about: str) -> None:
        """Note what a hub has seen."""
        ...


@dataclass(frozen=True)
class HeldKeys:
    """Credentials of some nodes, by name; the authority's key is not among them."""

    held: Mapping[str, Credentials] = field(repr=False)

    def credentials(self, node: str) -> Credentials:
        """A node's credentials.

        Raises:
            InputError: there are none.
        """
        if node not in self.held:
            expected = f"expected those of {', '.join(self.held)}"
            raise InputError(ArgumentFault("keys", node, f"these are not its keys; {expected}"))
        return self.held[node]

    def renewed(self, known: Credentials) -> Credentials:
        """The same: nothing is revoked while a run holds its own keys."""
        return known

    def note(self, event: AuditEvent, **about: str) -> None:
        """Nothing: there is no log."""

    def of(self, node: str) -> HeldKeys:
        """Those of one node alone."""
        return HeldKeys({node: self.credentials(node)})


def key_source(keys: Path | HeldKeys) -> KeySource:
    """Where credentials come from: a folder, or memory."""
    return Keys(keys) if isinstance(keys, Path) else keys


def temporary_keys(nodes: Sequence[str], days: float) -> HeldKeys:
    """Keys of a new authority for some nodes; its own key is gone when this returns, and none was ever in a file."""
    now = dt.datetime.now(dt.UTC)
    signing = new_key()
    issuer = authority_certificate(signing, days, now)
    trusted = text_of(issuer), text_of(revocation_list([], (signing, issuer), now))

    def made(node: str) -> Credentials:
        key = new_key()
        certificate = node_certificate(node, key, (signing, issuer), days=days, now=now)
        return Credentials(node, key_text(key), text_of(certificate), *trusted)

    return HeldKeys({node: made(node) for node in nodes})
