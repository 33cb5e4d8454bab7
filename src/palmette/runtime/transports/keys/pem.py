"""Keys and certificates in the PEM format: errors name the file, and only the owner can read private keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from palmette.errors import ArgumentFault, Fault, InputError
from palmette.runtime.transports.keys.certificates import Key

_LONGEST_FILE_BYTES = 10 * 2**20

T = TypeVar("T")


def read_certificate(file: Path) -> x509.Certificate:
    """Read a certificate.

    Raises:
        InputError: it is missing, or not one.
    """
    return parsed(file, x509.load_pem_x509_certificate, "a certificate in the PEM format")


def read_revoked(file: Path) -> x509.CertificateRevocationList:
    """Read a list of revoked certificates.

    Raises:
        InputError: it is missing, or not one.
    """
    return parsed(file, x509.load_pem_x509_crl, "a list of revoked certificates in the PEM format")


def read_request(file: Path) -> x509.CertificateSigningRequest:
    """Read a request for a certificate.

    Raises:
        InputError: it is missing, or not one.
    """
    return parsed(file, x509.load_pem_x509_csr, "a request for a certificate in the PEM format")


def read_key(file: Path) -> Key:
    """Read a private key.

    Raises:
        InputError: it is missing, not one, or others may read it.
    """
    if file.exists():
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            raise InputError(Fault("permissions", f"{mode:04o}", f"others may read it; chmod 600 {file}", str(file)))
    return parsed(file, _loaded_key, "a private key in the PEM format")


def _loaded_key(text: bytes) -> Key:
    found = load_pem_private_key(text, None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise TypeError
    return found


def parsed(file: Path, load: Callable[[bytes], T], what: str) -> T:
    """What ``load`` makes of a file; it raises ``ValueError`` or ``TypeError`` where that is not ``what``.

    Raises:
        InputError: the file is missing, or something else.
    """
    try:
        with file.open("rb") as stream:
            text = stream.read(_LONGEST_FILE_BYTES)
    except OSError as error:
        raise InputError(ArgumentFault("keys", file.name, f"cannot be read: {error.strerror}", str(file))) from None
    try:
        return load(text)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        expected = f"cannot be read; expected {what}"
        raise InputError(ArgumentFault("keys", file.name, expected, str(file))) from None


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an ``OSError`` into an error that names the folder.

    Raises:
        InputError: something in it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise InputError(ArgumentFault("keys", str(folder), f"cannot be written: {error.strerror}")) from None


def write(file: Path, text: bytes, mode: int) -> None:
    """Write a file atomically; others cannot read a secret even while it is written."""
    draft = file.with_name(f".{file.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, mode)
        stream.write(text)
    draft.replace(file)


def key_text(key: Key) -> bytes:
    """A private key in the PEM format."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def text_of(
    signed: x509.Certificate | x509.CertificateRevocationList | x509.CertificateSigningRequest,
) -> bytes:
    """A certificate, a list or a request in the PEM format."""
    return signed.public_bytes(Encoding.PEM)
