"""A folder of keys and certificates.

    keys/authority.key     0600   signs certificates; needed only to issue and revoke, and best kept off the nodes
    keys/authority.crt            what all nodes trust
    keys/revoked.crl              revoked certificates, signed by the authority
    keys/nodes/NAME.key    0600   a node's private key; it belongs on that node alone
    keys/nodes/NAME.crt           a node's certificate

Nothing that is still valid is overwritten.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from palmette.errors import ArgumentFault, Fault, InputError
from palmette.runtime.transports.keys.certificates import (
    AUTHORITY_DAYS,
    NODE_DAYS,
    Authority,
    authority_certificate,
    dns_name,
    new_key,
    node_certificate,
    objection,
    revocation_list,
    revoked_entry,
    signed_by,
)
from palmette.runtime.transports.keys.pem import (
    key_text,
    read_certificate,
    read_key,
    read_revoked,
    text_of,
    write,
    writing,
)

_MOST_DAYS = 20 * 365
_LONGEST_NAME = 200  # of a file
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Credentials:
    """A node's key and certificate, and whom it trusts, in the PEM format; all have been checked."""

    node: str
    key: bytes = field(repr=False)
    certificate: bytes
    authority: bytes
    revoked: bytes

    def objection(self, shown: bytes, node: str) -> str | None:
        """Why a certificate that was shown is not valid for ``node``; None if it is."""
        try:
            certificate = x509.load_pem_x509_certificate(shown)
        except (ValueError, UnsupportedAlgorithm):
            return "it cannot be read"
        authority, revoked = x509.load_pem_x509_certificate(self.authority), x509.load_pem_x509_crl(self.revoked)
        return objection(certificate, node, authority, revoked, _now())


class Keys:
    """The keys in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def init(self, days: float = AUTHORITY_DAYS) -> x509.Certificate:
        """Create an authority.

        Raises:
            InputError: one exists already, or the folder cannot be written.
        """
        _refuse_days(days)
        for name in ("authority.key", "authority.crt"):
            if (self.folder / name).exists():
                raise InputError(ArgumentFault("keys", str(self.folder), f"an authority exists already: {name}"))
        key = new_key()
        certificate = authority_certificate(key, days, _now())
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.folder / "nodes").mkdir(mode=0o700, exist_ok=True)
            write(self.folder / "authority.key", key_text(key), 0o600)
            write(self.folder / "revoked.crl", text_of(revocation_list([], (key, certificate), _now())), 0o644)
            write(self.folder / "authority.crt", text_of(certificate), 0o644)
        return certificate

    def issue(self, node: str, days: float = NODE_DAYS, addresses: Sequence[str] = ()) -> x509.Certificate:
        """Create a key and a certificate for a node; ``addresses`` are host names and IPs that it is also valid for.

        Raises:
            InputError: the node has a valid one, there is no authority, or the folder cannot be written.
        """
        _refuse_days(days)
        _refuse_addresses(addresses)
        authority = self._authority()
        self.refuse_issued(node)
        key = new_key()
        certificate = node_certificate(node, key, authority, days=days, now=_now(), addresses=addresses)
        with writing(self.folder):
            (self.folder / "nodes").mkdir(mode=0o700, exist_ok=True)
            write(self.file(node, "key"), key_text(key), 0o600)
            write(self.file(node, "crt"), text_of(certificate), 0o644)
        return certificate

    def refuse_issued(self, node: str) -> None:
        """Refuse a node whose certificate is still valid.

        Raises:
            InputError: says until when.
        """
        file = self.file(node, "crt")
        if not file.exists():
            return
        certificate = read_certificate(file)
        if objection(certificate, node, self.authority(), self.revoked(), _now()) is None:
            until = certificate.not_valid_after_utc.date()
            expected = f"its certificate is valid until {until}; to replace it: palmette keys revoke {node}"
            raise InputError(Fault("NODE", node, expected, str(file)))

    def revoke(self, node: str) -> x509.Certificate:
        """Revoke a node's certificate.

        Raises:
            InputError: there is none, it is revoked already, or the folder cannot be written.
        """
        authority, revoked = self._authority(), self.revoked()
        file = self.file(node, "crt")
        if not file.exists():
            raise InputError(Fault("NODE", node, f"no certificate was issued to it: there is no {file}"))
        certificate = read_certificate(file)
        if revoked.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
            raise InputError(Fault("NODE", node, "its certificate is revoked already", str(file)))
        longer = revocation_list([*revoked, revoked_entry(certificate, _now())], authority, _now())
        with writing(self.folder):
            write(self.folder / "revoked.crl", text_of(longer), 0o644)
        return certificate

    def credentials(self, node: str) -> Credentials:
        """A node's key and certificate, and whom it trusts.

        Raises:
            InputError: something is missing, readable by others, or not valid.
        """
        file = self.file(node, "crt")
        if not file.exists():
            make = f"make one with: palmette keys issue {node} --keys {self.folder}"
            raise InputError(ArgumentFault("keys", file.name, f"node {node} has no certificate; {make}", str(file)))
        authority, revoked, certificate = self.authority(), self.revoked(), read_certificate(file)
        wrong = objection(certificate, node, authority, revoked, _now())
        if wrong is not None:
            renew = f"make a new one with: palmette keys issue {node} --keys {self.folder}"
            raise InputError(Fault("certificate", node, f"{wrong}; {renew}", str(file)))
        key = read_key(self.file(node, "key"))
        if key.public_key() != certificate.public_key():
            raise InputError(Fault("key", node, f"it does not match certificate {file}", str(self.file(node, "key"))))
        return Credentials(node, key_text(key), text_of(certificate), text_of(authority), text_of(revoked))

    def renewed(self, known: Credentials) -> Credentials:
        """Credentials with the current list of revoked certificates, if that is later than the known one."""
        try:
            found = self.revoked()
        except InputError:
            return known  # a missing or damaged list must not readmit a revoked node
        before = x509.load_pem_x509_crl(known.revoked)
        later = _dated(found) > _dated(before) or (_dated(found) == _dated(before) and len(found) > len(before))
        return replace(known, revoked=text_of(found)) if later else known

    def authority(self) -> x509.Certificate:
        """The authority's certificate.

        Raises:
            InputError: it is missing or has expired.
        """
        file = self.folder / "authority.crt"
        if not file.exists():
            make = f"make one with: palmette keys init --keys {self.folder}"
            raise InputError(ArgumentFault("keys", str(self.folder), f"there is no authority.crt; {make}"))
        found = read_certificate(file)
        if _now() > found.not_valid_after_utc:
            until = found.not_valid_after_utc.date()
            raise InputError(Fault("authority", f"expired on {until}", "expected a valid one", str(file)))
        return found

    def revoked(self) -> x509.CertificateRevocationList:
        """The list of revoked certificates.

        Raises:
            InputError: it is missing, or not signed by the authority.
        """
        file = self.folder / "revoked.crl"
        found = read_revoked(file)
        if not signed_by(found, self.authority()):
            raise InputError(Fault("signature", "another authority's", "expected that of authority.crt", str(file)))
        return found

    def _authority(self) -> Authority:
        certificate = self.authority()
        key = read_key(self.folder / "authority.key")
        if key.public_key() != certificate.public_key():
            raise InputError(Fault("key", "another authority's", "expected that of authority.crt", str(self.folder)))
        return key, certificate

    def file(self, node: str, suffix: str) -> Path:
        """Where a node's key or certificate is kept."""
        _refuse_name(node)
        plain = quote(node, safe=" ")
        return self.folder / "nodes" / f"{plain if len(plain) < _LONGEST_NAME else dns_name(node)}.{suffix}"


def _dated(found: x509.CertificateRevocationList) -> dt.datetime:
    return found.last_update_utc


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _refuse_days(days: float) -> None:
    if not 0 < days <= _MOST_DAYS:
        raise InputError(ArgumentFault("days", days, f"expected more than 0 and at most {_MOST_DAYS}"))


def _refuse_name(node: str) -> None:
    if not (node.isprintable() and 0 < len(node) <= _LONGEST_NAME):
        raise InputError(Fault("NODE", node, f"expected 1 to {_LONGEST_NAME} printable characters"))


def _refuse_addresses(addresses: Sequence[str]) -> None:
    wrong = [address for address in addresses if not _is_address(address)]
    if wrong:
        raise InputError(ArgumentFault("address", each, "expected an IP address or a host name") for each in wrong)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None and ".." not in text
    return True
