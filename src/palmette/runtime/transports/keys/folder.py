"""A folder of keys and certificates.

    keys/authority.key     0600   signs certificates; needed only to issue and revoke, and best kept off the nodes
    keys/authority.crt            what all nodes trust
    keys/revoked.crl              revoked certificates, signed by the authority
    keys/nodes/NAME.key    0600   a node's private key; it belongs on that node alone
    keys/nodes/NAME.crt           a node's certificate
    keys/issued/SERIAL.crt        every certificate that the authority has signed, so that all of a node can be revoked
    keys/audit.jsonl       0600   what happened to them

Nothing that is still valid is overwritten, except by renewal, where the old certificate stays valid until its end.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from cryptography import x509

from palmette.errors import ArgumentFault, Fault, InputError
from palmette.runtime.transports.keys.audit import AuditEvent, audit
from palmette.runtime.transports.keys.certificates import (
    AUTHORITY_DAYS,
    NODE_DAYS,
    Authority,
    PublicKey,
    Role,
    addresses_in,
    authority_certificate,
    common_name,
    dns_name,
    names_of,
    new_key,
    node_certificate,
    objection,
    requested_key,
    revocation_list,
    revoked_entry,
    role_of,
    serial_of,
    signed_by,
)
from palmette.runtime.transports.keys.credentials import Credentials, current_time
from palmette.runtime.transports.keys.pem import (
    key_text,
    read_certificate,
    read_key,
    read_request,
    read_revoked,
    text_of,
    write,
    writing,
)

_MOST_DAYS = 20 * 365
_LONGEST_NAME = 200  # of a file
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


class KeyEntry(NamedTuple):
    """A node's certificate: what its holder may do and until when, and ``valid``, or why it is not."""

    node: str
    role: Role
    until: dt.datetime
    state: str


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
        certificate = authority_certificate(key, days, current_time())
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.folder / "nodes").mkdir(mode=0o700, exist_ok=True)
            write(self.folder / "authority.key", key_text(key), 0o600)
            write(self.folder / "revoked.crl", text_of(revocation_list([], (key, certificate), current_time())), 0o644)
            write(self.folder / "authority.crt", text_of(certificate), 0o644)
            audit(self.folder, "init")
        return certificate

    def issue(
        self, node: str, days: float = NODE_DAYS, addresses: Sequence[str] = (), role: Role = "worker"
    ) -> x509.Certificate:
        """Create a key and a certificate for a node; ``addresses`` are host names and IPs that it is also valid for.

        Raises:
            InputError: the node has a valid one, there is no authority, or the folder cannot be written.
        """
        _refuse_days(days)
        _refuse_addresses(addresses)
        authority = self._authority()
        self.refuse_issued(node)
        key = new_key()
        certificate = node_certificate(
            node, key, authority, days=days, now=current_time(), addresses=addresses, role=role
        )
        with writing(self.folder):
            (self.folder / "nodes").mkdir(mode=0o700, exist_ok=True)
            write(self.file(node, "key"), key_text(key), 0o600)
        self._keep(node, certificate, "issue")
        return certificate

    def renew(self, node: str, days: float = NODE_DAYS) -> x509.Certificate:
        """Issue another certificate for a node's key, in the same role; the one before stays valid until its end.

        Raises:
            InputError: the node has no valid one, there is no authority, or the folder cannot be written.
        """
        _refuse_days(days)
        authority, before = self._authority(), self._certificate(node)
        wrong = objection(before, node, authority[1], self.revoked(), current_time())
        if wrong is not None:
            expected = f"{wrong}; to make a new one: palmette keys issue {node}"
            raise InputError(Fault("NODE", node, expected, str(self.file(node, "crt"))))
        key, addresses = before.public_key(), addresses_in(before)
        assert isinstance(key, PublicKey), "the authority signs no others"
        made = node_certificate(
            node, key, authority, days=days, now=current_time(), addresses=addresses, role=role_of(before)
        )
        self._keep(node, made, "renew")
        return made

    def sign(self, node: str, request: Path, days: float = NODE_DAYS, role: Role = "worker") -> x509.Certificate:
        """Issue a certificate for a key that a node has made itself, and of which this is the request.

        Raises:
            InputError: the request cannot be read or is not this node's, the node has a valid certificate, there is no
                authority, or the folder cannot be written.
        """
        return self.sign_request(node, read_request(request), days, role, str(request))

    def sign_request(
        self, node: str, request: x509.CertificateSigningRequest, days: float, role: Role = "worker", file: str = ""
    ) -> x509.Certificate:
        """Issue a certificate for a key that a node has made itself; ``file`` is where its request was read.

        Raises:
            InputError: as ``sign``.
        """
        _refuse_days(days)
        authority = self._authority()
        self.refuse_issued(node)
        key = requested_key(request, node)
        if key is None:
            raise InputError(Fault("NODE", node, "the request is for another node", file))
        made = node_certificate(node, key, authority, days=days, now=current_time(), role=role)
        self._keep(node, made, "sign")
        return made

    def invited(self, node: str, key: PublicKey, days: float) -> x509.Certificate:
        """Issue a certificate with which a node may only ask for its own.

        Raises:
            InputError: there is no authority, or the folder cannot be written.
        """
        _refuse_name(node)
        made = node_certificate(node, key, self._authority(), days=days, now=current_time(), role="invited")
        self._remember(node, made, "invite")
        return made

    def _keep(self, node: str, certificate: x509.Certificate, event: AuditEvent) -> None:
        """Write a certificate that was signed, and remember it."""
        with writing(self.folder):
            (self.folder / "nodes").mkdir(mode=0o700, exist_ok=True)
            write(self.file(node, "crt"), text_of(certificate), 0o644)
        self._remember(node, certificate, event)

    def _remember(self, node: str, certificate: x509.Certificate, event: AuditEvent) -> None:
        """Remember a certificate that was signed, so that it can be revoked."""
        with writing(self.folder):
            (self.folder / "issued").mkdir(mode=0o700, exist_ok=True)
            write(self.folder / "issued" / f"{serial_of(certificate)}.crt", text_of(certificate), 0o644)
            until = certificate.not_valid_after_utc.date().isoformat()
            audit(self.folder, event, node=node, role=role_of(certificate), serial=serial_of(certificate), until=until)

    def refuse_issued(self, node: str) -> None:
        """Refuse a node whose certificate is still valid.

        Raises:
            InputError: says until when.
        """
        file = self.file(node, "crt")
        if not file.exists():
            return
        certificate = read_certificate(file)
        if objection(certificate, node, self.authority(), self.revoked(), current_time()) is None:
            until = certificate.not_valid_after_utc.date()
            expected = f"its certificate is valid until {until}; to replace it: palmette keys revoke {node}"
            raise InputError(Fault("NODE", node, expected, str(file)))

    def revoke(self, node: str) -> x509.Certificate:
        """Revoke a node's certificate, and all others of it that are still valid.

        Raises:
            InputError: there is none, it is revoked already, or the folder cannot be written.
        """
        issued = self._issued(node)
        certificate = self._certificate(node) if self.file(node, "crt").exists() or not issued else issued[-1]
        self._revoke(node, [*issued, certificate])
        return certificate

    def revoke_certificate(self, node: str, certificate: x509.Certificate) -> None:
        """Revoke one certificate of a node alone.

        Raises:
            InputError: it is revoked already, or the folder cannot be written.
        """
        self._revoke(node, [certificate])

    def _revoke(self, node: str, certificates: Sequence[x509.Certificate]) -> None:
        authority, revoked = self._authority(), self.revoked()
        valid = {each.serial_number: each for each in certificates}
        for each in revoked:
            valid.pop(each.serial_number, None)
        if not valid:
            expected = "its certificate is revoked already"
            raise InputError(Fault("NODE", node, expected, str(self.file(node, "crt"))))
        entries = [revoked_entry(each, current_time()) for each in valid.values()]
        with writing(self.folder):
            write(
                self.folder / "revoked.crl",
                text_of(revocation_list([*revoked, *entries], authority, current_time())),
                0o644,
            )
            for serial in valid:
                audit(self.folder, "revoke", node=node, serial=f"{serial:x}")

    def _certificate(self, node: str) -> x509.Certificate:
        file = self.file(node, "crt")
        if not file.exists():
            raise InputError(Fault("NODE", node, f"no certificate was issued to it: there is no {file}"))
        return read_certificate(file)

    def _issued(self, node: str) -> list[x509.Certificate]:
        """All certificates of a node that the authority has signed, and that have not expired."""
        found = [read_certificate(file) for file in sorted((self.folder / "issued").glob("*.crt"))]
        return [
            each for each in found if dns_name(node) in names_of(each) and each.not_valid_after_utc > current_time()
        ]

    def entries(self) -> list[KeyEntry]:
        """The certificates in the folder, by node.

        Raises:
            InputError: one cannot be read, or there is no authority.
        """
        authority, revoked, found = self.authority(), self.revoked(), []
        for file in sorted((self.folder / "nodes").glob("*.crt")):
            certificate = read_certificate(file)
            shortened, plain = common_name(certificate), unquote(file.stem)
            node = plain if dns_name(plain) in names_of(certificate) else shortened
            wrong = objection(certificate, plain, authority, revoked, current_time()) if node == plain else None
            found.append(KeyEntry(node, role_of(certificate), certificate.not_valid_after_utc, wrong or "valid"))
        return found

    def note(self, event: AuditEvent, **about: str) -> None:
        """Note in the audit log what a hub has seen; where the log cannot be written, the hub goes on."""
        with suppress(OSError):
            audit(self.folder, event, **about)

    def credentials(self, node: str) -> Credentials:
        """A node's key and certificate, and the authority that it trusts.

        Raises:
            InputError: something is missing, readable by others, or not valid.
        """
        file = self.file(node, "crt")
        if not file.exists():
            make = f"make one with: palmette keys issue {node} --keys {self.folder}"
            raise InputError(ArgumentFault("keys", file.name, f"node {node} has no certificate; {make}", str(file)))
        authority, revoked, certificate = self.authority(), self.revoked(), read_certificate(file)
        wrong = objection(certificate, node, authority, revoked, current_time())
        if wrong is not None:
            renew = f"make a new one with: palmette keys issue {node} --keys {self.folder}"
            raise InputError(Fault("certificate", node, f"{wrong}; {renew}", str(file)))
        key = read_key(self.file(node, "key"))
        if key.public_key() != certificate.public_key():
            raise InputError(Fault("key", node, f"it does not match certificate {file}", str(self.file(node, "key"))))
        return Credentials(node, key_text(key), text_of(certificate), text_of(authority), text_of(revoked))

    def keep_certificate(self, own: Credentials) -> None:
        """Keep a node's renewed certificate; where the folder cannot be written, it is asked for again."""
        with suppress(InputError), writing(self.folder):
            write(self.file(own.node, "crt"), own.certificate, 0o644)

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
        if current_time() > found.not_valid_after_utc:
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
