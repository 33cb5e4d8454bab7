"""Certificates of a private authority: how they are issued and checked.

A node is identified by one DNS name in its certificate, a hash of the node's name, since names of nodes may be long and
in any script; the common name is for people. Its role is the organizational unit; a certificate without one is a
worker's. P-256, because gRPC's TLS library accepts no Ed25519 certificates.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Literal, get_args

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey
Authority = tuple[Key, x509.Certificate]

PublicKey = ec.EllipticCurvePublicKey
Role = Literal["worker", "viewer", "operator", "invited"]
"""What the holder of a certificate may do: take part in runs, watch them, start and stop them, or get another one."""

Roles = tuple[Role, ...]
ROLES: Roles = get_args(Role)
AUTHORITY = "palmette authority"
AUTHORITY_DAYS = 5 * 365
NODE_DAYS = 90
# The clocks of small machines without a battery may be a little behind.
_BEHIND = dt.timedelta(hours=1)
_LONGEST_COMMON_NAME = 64  # bytes


def dns_name(node: str) -> str:
    """The DNS name that identifies a node in TLS."""
    return f"{hashlib.sha256(node.encode()).hexdigest()[:40]}.palmette"


def new_key() -> Key:
    """A new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def authority_certificate(key: Key, days: float, now: dt.datetime) -> x509.Certificate:
    """The authority's certificate, signed by itself."""
    name = _name(AUTHORITY)
    return (
        _begun(name, name, key, now, now + dt.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, SHA256())
    )


def node_certificate(
    node: str,
    key: Key | PublicKey,
    authority: Authority,
    *,
    days: float,
    now: dt.datetime,
    addresses: Sequence[str] = (),
    role: Role = "worker",
) -> x509.Certificate:
    """A node's certificate, for both ends of a connection; it expires with the authority at the latest."""
    signing, issuer = authority
    until = min(now + dt.timedelta(days=days), issuer.not_valid_after_utc)
    names = [x509.DNSName(dns_name(node)), *map(_general_name, addresses)]
    both_ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        _begun(_node_name(node, role), issuer.subject, key, now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both_ends), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
            critical=False,
        )
        .sign(signing, SHA256())
    )


def node_request(node: str, key: Key) -> x509.CertificateSigningRequest:
    """A node's request for a certificate, signed with its own key."""
    names = x509.SubjectAlternativeName([x509.DNSName(dns_name(node))])
    builder = x509.CertificateSigningRequestBuilder().subject_name(_node_name(node, "worker"))
    return builder.add_extension(names, critical=False).sign(key, SHA256())


def requested_key(request: x509.CertificateSigningRequest, node: str) -> PublicKey | None:
    """The key for which a node's certificate is requested; None where the request is not that node's, or has none."""
    try:
        key = request.public_key()
    except (ValueError, UnsupportedAlgorithm):  # no point of its curve, or a curve that nobody knows
        return None
    signed = isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)
    if not (signed and request.is_signature_valid and dns_name(node) in names_of(request)):
        return None
    return key  # type: ignore[return-value]  # mypy forgets what ``signed`` knows


def revocation_list(
    revoked: Iterable[x509.RevokedCertificate], authority: Authority, now: dt.datetime
) -> x509.CertificateRevocationList:
    """The list of revoked certificates, signed by the authority."""
    signing, issuer = authority
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .last_update(now)
        .next_update(max(issuer.not_valid_after_utc, now + dt.timedelta(days=1)))
    )
    for each in revoked:
        builder = builder.add_revoked_certificate(each)
    return builder.sign(signing, SHA256())


def revoked_entry(certificate: x509.Certificate, now: dt.datetime) -> x509.RevokedCertificate:
    """An entry of that list."""
    builder = x509.RevokedCertificateBuilder()
    return builder.serial_number(certificate.serial_number).revocation_date(now).build()


def objection(
    certificate: x509.Certificate,
    node: str,
    authority: x509.Certificate,
    revoked: x509.CertificateRevocationList,
    now: dt.datetime,
    *,
    roles: Roles = (),
) -> str | None:
    """Why a certificate is not valid for a node, and for one of the roles, if some are asked for; None if it is."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return "it was issued by another authority"
    if now < certificate.not_valid_before_utc:
        return f"it is not valid before {_moment(certificate.not_valid_before_utc)}"
    if now > certificate.not_valid_after_utc:
        return f"it expired on {_moment(certificate.not_valid_after_utc)}"
    if revoked.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
        used = ", as a code is once it was used" if role_of(certificate) == "invited" else ""
        return f"it was revoked{used}"
    if dns_name(node) not in names_of(certificate):
        return f"it belongs to {common_name(certificate)}"
    if roles and role_of(certificate) not in roles:
        return f"it is for the role {role_of(certificate)}, not {' or '.join(roles)}"
    return None


def signed_by(revoked: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    """Whether a list of revoked certificates was signed by the authority."""
    public = authority.public_key()
    return isinstance(public, ec.EllipticCurvePublicKey) and revoked.is_signature_valid(public)


def role_of(certificate: x509.Certificate) -> Role:
    """What the holder of a certificate may do."""
    found = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
    return next((role for role in ROLES if found and found[0].value == role), "worker")


def addresses_in(certificate: x509.Certificate) -> list[str]:
    """The host names and IP addresses in a node's certificate."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*names.get_values_for_type(x509.DNSName)[1:], *map(str, names.get_values_for_type(x509.IPAddress))]


def fingerprint(certificate: x509.Certificate) -> str:
    """The SHA-256 of a certificate's public key, which stays the same when the certificate is renewed."""
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).hexdigest()


def validity_of(certificate: x509.Certificate) -> dt.timedelta:
    """For how long a certificate was issued."""
    return certificate.not_valid_after_utc - certificate.not_valid_before_utc - _BEHIND


def serial_of(certificate: x509.Certificate) -> str:
    """A certificate's serial number, as written in files."""
    return f"{certificate.serial_number:x}"


def names_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> list[str]:
    """The DNS names in a certificate, or in a request for one."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return found.value.get_values_for_type(x509.DNSName)


def common_name(certificate: x509.Certificate) -> str:
    """The name of a certificate's owner, for people."""
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else "nobody"


def _begun(
    subject: x509.Name, issuer: x509.Name, key: Key | PublicKey, now: dt.datetime, until: dt.datetime
) -> x509.CertificateBuilder:
    public = key if isinstance(key, ec.EllipticCurvePublicKey) else key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEHIND)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _node_name(node: str, role: Role) -> x509.Name:
    shortened = node.encode()[:_LONGEST_COMMON_NAME].decode(errors="ignore")
    unit = x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role)
    return x509.Name([unit, x509.NameAttribute(NameOID.COMMON_NAME, shortened)])


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _moment(at: dt.datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M UTC")
