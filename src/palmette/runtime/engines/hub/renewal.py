"""Certificates of workers renew themselves: in the last third of its validity a worker asks for another one.

A hub whose folder has the authority's key signs one for the same key; another hub passes on what the authority has put
into its folder. The one before stays valid until its end, so that nothing has to happen at once.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from cryptography import x509

from palmette.errors import RunError
from palmette.runtime.engines.hub.messages import HUB
from palmette.runtime.transports.keys.certificates import objection, validity_of
from palmette.runtime.transports.keys.credentials import Credentials, current_time
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.pem import read_certificate, text_of

_LAST_PART = 3


def is_due(certificate: bytes, now: dt.datetime | None = None) -> bool:
    """Whether a certificate is in the last third of its validity."""
    found = x509.load_pem_x509_certificate(certificate)
    return (now or current_time()) > found.not_valid_after_utc - validity_of(found) / _LAST_PART


def renewed_certificate(keys: Keys, node: str, shown: bytes) -> bytes | None:
    """A certificate for the key in one that was shown and is due, valid for longer; None where there can be none.

    Raises:
        InputError: the authority's key or the folder cannot be used.
    """
    before, file = x509.load_pem_x509_certificate(shown), keys.file(node, "crt")
    if not is_due(shown) or not file.exists():
        return None
    known = read_certificate(file)
    if known.public_key() != before.public_key():
        return None  # the node has been given another key, and this one is to end
    if known.not_valid_after_utc - before.not_valid_after_utc > validity_of(before) / _LAST_PART:
        return text_of(known)
    if not (keys.folder / "authority.key").exists():
        return None
    return text_of(keys.renew(node, validity_of(before) / dt.timedelta(days=1)))


def renew_hub(keys: Keys) -> None:
    """Renew the hub's own certificate, if it is due and the authority's key is there.

    Raises:
        InputError: the hub has no valid certificate, or the folder cannot be used.
    """
    renewed_certificate(keys, HUB, keys.credentials(HUB).certificate)


def with_certificate(own: Credentials, offered: bytes) -> Credentials:
    """A node's credentials with a certificate that it is offered.

    Raises:
        RunError: it is not valid, or not for the node's key.
    """
    try:
        found, before = (x509.load_pem_x509_certificate(each) for each in (offered, own.certificate))
        authority, revoked = x509.load_pem_x509_certificate(own.authority), x509.load_pem_x509_crl(own.revoked)
    except ValueError:
        raise RunError("the hub offers a certificate that cannot be read") from None
    wrong = objection(found, own.node, authority, revoked, current_time())
    if wrong is None and found.public_key() != before.public_key():
        wrong = "it is for another key"
    if wrong is not None:
        raise RunError(f"the hub offers a certificate that is not valid: {wrong}")
    return replace(own, certificate=text_of(found))
