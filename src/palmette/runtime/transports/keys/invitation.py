"""An invitation: a code with which a node is given its certificate online, for a key that it has made itself.

    the authority   invite()   a certificate of the role ``invited`` and its key, valid for a day, in a code
    the node        connects to the hub with these, and sends a request for a certificate of its own
    the hub         redeem()   signs the request, and revokes the invitation

The code also has the hub's address and the authority's certificate, by which the node knows that it talks to the hub.
It is a secret until it was used: whoever has it first is the node.

    version (1 byte) │ length (2), node │ …, address │ …, private key │ …, certificate │ …, authority │ checksum (4)
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from palmette.errors import ArgumentFault, Fault, InputError
from palmette.runtime.transports.keys.certificates import NODE_DAYS, new_key, node_request
from palmette.runtime.transports.keys.credentials import Credentials
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.pem import key_text, read_key, text_of, write, writing

DAYS = 1.0
_VERSION, _KEY_BYTES = b"\x01", 32
_LENGTH, _CHECKSUM = struct.Struct("<H"), struct.Struct("<I")
_LONGEST_CODE = 20_000


@dataclass(frozen=True)
class Invitation:
    """Where the hub is, and what a node shows there once."""

    address: str
    own: Credentials


def invite(keys: Keys, node: str, address: str) -> str:
    """A code with which a node gets its certificate from the hub at an address, once and within a day.

    Raises:
        InputError: the node has a valid certificate, there is no authority, or the folder cannot be written.
    """
    keys.refuse_issued(node)
    key = new_key()
    made = keys.invited(node, key.public_key(), DAYS)
    secret = key.private_numbers().private_value.to_bytes(_KEY_BYTES, "big")
    ders = [each.public_bytes(Encoding.DER) for each in (made, keys.authority())]
    fields = [node.encode(), address.encode(), secret, *ders]
    data = _VERSION + b"".join(_LENGTH.pack(len(each)) + each for each in fields)
    return base64.urlsafe_b64encode(data + _CHECKSUM.pack(zlib.crc32(data))).decode().rstrip("=")


def read_invitation(code: str) -> Invitation:
    """What a code says.

    Raises:
        InputError: it is none; says nothing of its content.
    """
    try:
        if len(code) > _LONGEST_CODE:
            raise ValueError
        node, address, secret, *ders = _fields(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)))
        key = ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256R1())
        certificate, authority = (text_of(x509.load_der_x509_certificate(each)) for each in ders)
        return Invitation(address.decode(), Credentials(node.decode(), key_text(key), certificate, authority, b""))
    except (ValueError, TypeError, struct.error, binascii.Error, UnsupportedAlgorithm):
        expected = "is not a complete code of palmette keys invite"
        raise InputError(ArgumentFault("enroll", "the code", expected)) from None


def _fields(data: bytes) -> list[bytes]:
    content, (expected,) = data[: -_CHECKSUM.size], _CHECKSUM.unpack(data[-_CHECKSUM.size :])
    if zlib.crc32(content) != expected or content[:1] != _VERSION:
        raise ValueError
    found, at = [], 1
    while at < len(content):
        (long,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size + long
        found.append(content[at - long : at])
    return found


def redeem(keys: Keys, node: str, invitation: bytes, request: bytes) -> bytes:
    """Sign the request of a node that was invited, and revoke the invitation; returns the certificate.

    Raises:
        InputError: the request is not that node's, the node has a certificate, or there is no authority here.
    """
    if not (keys.folder / "authority.key").exists():
        raise InputError(Fault("", "this hub", "has no key of the authority; expected palmette keys enroll"))
    try:
        asked = x509.load_pem_x509_csr(request)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(Fault("", "the request", "cannot be read")) from None
    made = keys.sign_request(node, asked, NODE_DAYS)
    keys.revoke_certificate(node, x509.load_pem_x509_certificate(invitation))
    return text_of(made)


def own_request(keys: Keys, node: str) -> bytes:
    """A request for a certificate of the key that a node has, or is given now.

    Raises:
        InputError: the key cannot be used or written.
    """
    file = keys.file(node, "key")
    key = read_key(file) if file.exists() else new_key()
    with writing(keys.folder):
        (keys.folder / "nodes").mkdir(mode=0o700, parents=True, exist_ok=True)
        write(file, key_text(key), 0o600)
    return text_of(node_request(node, key))


def refuse_other_authority(folder: Path, own: Credentials) -> None:
    """Refuse a folder with the keys of another authority, or of this node already.

    Raises:
        InputError: says which.
    """
    known = folder / "authority.crt"
    if known.exists() and known.read_bytes() != own.authority:
        raise InputError(ArgumentFault("keys", str(folder), "has another authority; expected another folder"))
    if Keys(folder).file(own.node, "crt").exists():
        expected = f"has the certificate of {own.node} already; expected the same command without --enroll"
        raise InputError(ArgumentFault("keys", str(folder), expected))
