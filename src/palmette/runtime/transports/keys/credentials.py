"""What a node shows to others, and how it checks what they show."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from palmette.runtime.transports.keys.certificates import Roles, objection


@dataclass(frozen=True)
class Credentials:
    """A node's key and certificate, and the authority that it trusts, in the PEM format; all have been checked."""

    node: str
    key: bytes = field(repr=False)
    certificate: bytes
    authority: bytes
    revoked: bytes

    def objection(self, shown: bytes, node: str, roles: Roles = ("worker",)) -> str | None:
        """Why a certificate that was shown is not valid for ``node`` in one of the roles, or any; None if it is."""
        try:
            certificate = x509.load_pem_x509_certificate(shown)
        except (ValueError, UnsupportedAlgorithm):
            return "it cannot be read"
        authority, revoked = x509.load_pem_x509_certificate(self.authority), x509.load_pem_x509_crl(self.revoked)
        return objection(certificate, node, authority, revoked, current_time(), roles=roles)

    def has_revoked(self, shown: bytes) -> bool:
        """Whether a certificate that was valid when it was shown has been revoked."""
        serial = x509.load_pem_x509_certificate(shown).serial_number
        return x509.load_pem_x509_crl(self.revoked).get_revoked_certificate_by_serial_number(serial) is not None


def current_time() -> dt.datetime:
    """The time by which certificates are checked."""
    return dt.datetime.now(dt.UTC)
