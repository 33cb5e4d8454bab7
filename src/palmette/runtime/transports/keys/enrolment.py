"""A key that is made on its node: only a request and the answer to it travel, and neither is secret.

    the node        enroll()   keys/nodes/NAME.key and a request, NAME.csr
    the authority   answer()   the certificate, the authority's and the list of the revoked in one file
    the node        accept()   the three files beside the key

The answer is believed if its authority has the fingerprint that the node's user was told, or that is there already.
"""

from __future__ import annotations

import re
from pathlib import Path

from cryptography import x509

from palmette.errors import ArgumentFault, Fault, InputError
from palmette.runtime.transports.keys.certificates import (
    NODE_DAYS,
    Role,
    fingerprint,
    new_key,
    node_request,
    objection,
    signed_by,
)
from palmette.runtime.transports.keys.credentials import current_time
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.pem import key_text, parsed, read_certificate, read_key, text_of, write, writing

_PARTS = re.compile(rb"-----BEGIN [A-Z0-9 ]+-----.+?-----END [A-Z0-9 ]+-----\n?", re.DOTALL)


def enroll(keys: Keys, node: str, request: Path) -> None:
    """Make a key for a node, if it has none, and a request for its certificate.

    Raises:
        InputError: the key cannot be used, or a file cannot be written.
    """
    file = keys.file(node, "key")
    key = read_key(file) if file.exists() else new_key()
    with writing(keys.folder):
        (keys.folder / "nodes").mkdir(mode=0o700, parents=True, exist_ok=True)
        write(file, key_text(key), 0o600)
    with writing(request):
        write(request, text_of(node_request(node, key)), 0o644)


def answer(
    keys: Keys, node: str, request: Path, reply: Path, *, days: float = NODE_DAYS, role: Role = "worker"
) -> x509.Certificate:
    """Sign a node's request; what it needs besides its key goes into one file.

    Raises:
        InputError: the request is not that node's, there is no authority, or a file cannot be written.
    """
    made = keys.sign(node, request, days, role)
    with writing(reply):
        write(reply, text_of(made) + text_of(keys.authority()) + text_of(keys.revoked()), 0o644)
    return made


def accept(keys: Keys, node: str, reply: Path, trusted: str | None = None) -> x509.Certificate:
    """Take an answer: its certificate is for the node's key, and its authority is the one that is ``trusted`` or known.

    Raises:
        InputError: it is not, cannot be read, or cannot be written.
    """
    certificate, authority, revoked = parsed(reply, _loaded, "a certificate, an authority's and a list")
    known = keys.folder / "authority.crt"
    expected = fingerprint(read_certificate(known)) if known.exists() else trusted
    if expected is None or expected.lower().replace(":", "") != fingerprint(authority):
        told = "expected that of the authority, as palmette keys sign has printed it"
        raise InputError(ArgumentFault("fingerprint", expected or "missing", told))
    wrong = objection(certificate, node, authority, revoked, current_time())
    if wrong is None and read_key(keys.file(node, "key")).public_key() != certificate.public_key():
        wrong = "it is for another key"
    if wrong is not None or not signed_by(revoked, authority):
        raise InputError(Fault("certificate", node, wrong or "its list was signed by another authority", str(reply)))
    with writing(keys.folder):
        write(known, text_of(authority), 0o644)
        write(keys.folder / "revoked.crl", text_of(revoked), 0o644)
        write(keys.file(node, "crt"), text_of(certificate), 0o644)
    return certificate


def _loaded(text: bytes) -> tuple[x509.Certificate, x509.Certificate, x509.CertificateRevocationList]:
    own, authority, revoked = _PARTS.findall(text)
    return (
        x509.load_pem_x509_certificate(own),
        x509.load_pem_x509_certificate(authority),
        x509.load_pem_x509_crl(revoked),
    )
