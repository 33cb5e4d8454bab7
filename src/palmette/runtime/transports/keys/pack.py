"""All that one node needs to dial out, in one file that a passphrase or a code opens.

    phone.palmette   JSON: format, node, kdf (scrypt), nonce, sealed
    sealed           AES-256-GCM of a JSON text: key, certificate, authority, revoked, the hub's address and fingerprint

What is not sealed is authenticated with it. scrypt makes every guess cost 64 MiB and some tenths of a second; how much
it may cost whoever opens a file has an upper limit, as the file says it.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from palmette.errors import ArgumentFault, Fault, InputError
from palmette.runtime.transports.keys.certificates import fingerprint
from palmette.runtime.transports.keys.credentials import Credentials
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.held import HeldKeys
from palmette.runtime.transports.keys.pem import parsed, read_certificate, write, writing

FORMAT = "palmette.pack/1"
LEAST_CHARACTERS = 8
_KDF = {"name": "scrypt", "n": 2**16, "r": 8, "p": 1}
_MOST_N = 2**18
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without what is easily mistaken
_GROUPS, _GROUP = 5, 4


@dataclass(frozen=True)
class HubPin:
    """Where a hub is, which node it is, and the fingerprint of its key, by which it is recognised."""

    address: str
    node: str
    fingerprint: str


@dataclass(frozen=True)
class KeyPack:
    """What one node needs to dial out."""

    node: str
    keys: HeldKeys
    hub: HubPin | None


def new_code() -> str:
    """A code of 99 bits, for a pack that is opened once, by somebody who is told it."""
    groups = ("".join(secrets.choice(_ALPHABET) for _ in range(_GROUP)) for _ in range(_GROUPS))
    return "-".join(groups)


def write_pack(keys: Keys, node: str, file: Path, passphrase: str, hub: tuple[str, str] | None = None) -> None:
    """Pack a node's keys; ``hub`` is an address, host:port, and the node that listens there.

    Raises:
        InputError: keys are missing or not valid, the passphrase is short, or the file cannot be written.
    """
    if len(passphrase) < LEAST_CHARACTERS:
        raise InputError(ArgumentFault("passphrase", "too short", f"expected at least {LEAST_CHARACTERS} characters"))
    own = keys.credentials(node)
    names = ("key", "certificate", "authority", "revoked")
    content: dict[str, Any] = {name: getattr(own, name).decode() for name in names}
    if hub is not None:
        address, at = hub
        content["hub"] = {
            "address": address,
            "node": at,
            "fingerprint": fingerprint(read_certificate(keys.file(at, "crt"))),
        }
    text = _sealed(node, json.dumps(content).encode(), passphrase)
    with writing(file):
        write(file, text.encode(), 0o600)
    keys.note("pack", node=node)


def open_pack(file: Path, passphrase: str) -> KeyPack:
    """What is in a pack; its certificate is valid now.

    Raises:
        InputError: it cannot be read or opened, or what is in it is not valid.
    """
    found = parsed(file, _header, "a pack of keys")
    try:
        content = json.loads(_opened(found, passphrase))
        own = Credentials(
            found["node"], *(content[name].encode() for name in ("key", "certificate", "authority", "revoked"))
        )
        hub = HubPin(**content["hub"]) if "hub" in content else None
    except InvalidTag:
        wrong = "the passphrase or code is wrong, or the file is damaged"
        raise InputError(Fault("pack", found["node"], wrong, str(file))) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(Fault("pack", found["node"], "holds no keys", str(file))) from None
    wrong_now = own.objection(own.certificate, own.node, roles=())
    if wrong_now is not None:
        raise InputError(Fault("certificate", own.node, f"{wrong_now}; expected a new pack", str(file)))
    return KeyPack(own.node, HeldKeys({own.node: own}), hub)


def renew_pack(file: Path, passphrase: str, own: Credentials) -> None:
    """Write a pack again, with a renewed certificate.

    Raises:
        InputError: it cannot be read, opened or written.
    """
    found = parsed(file, _header, "a pack of keys")
    try:
        content = json.loads(_opened(found, passphrase))
    except InvalidTag:
        raise InputError(Fault("pack", own.node, "was changed meanwhile", str(file))) from None
    text = _sealed(own.node, json.dumps({**content, "certificate": own.certificate.decode()}).encode(), passphrase)
    with writing(file):
        write(file, text.encode(), 0o600)


def write_folder(pack: KeyPack, folder: Path) -> None:
    """Write what a pack holds as a folder of keys.

    Raises:
        InputError: the folder has another node's authority, or cannot be written.
    """
    keys, own = Keys(folder), pack.keys.credentials(pack.node)
    known = folder / "authority.crt"
    if known.exists() and known.read_bytes() != own.authority:
        raise InputError(ArgumentFault("keys", str(folder), "has another authority; expected another folder"))
    own = keys.renewed(own)  # a list that is there may be later than the pack's
    with writing(folder):
        (folder / "nodes").mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        write(keys.file(pack.node, "key"), own.key, 0o600)
        write(keys.file(pack.node, "crt"), own.certificate, 0o644)
        write(folder / "revoked.crl", own.revoked, 0o644)
        write(known, own.authority, 0o644)


def _sealed(node: str, content: bytes, passphrase: str) -> str:
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    head = {"format": FORMAT, "node": node, "kdf": {**_KDF, "salt": _text(salt)}, "nonce": _text(nonce)}
    sealed = AESGCM(_key(head["kdf"], passphrase)).encrypt(nonce, content, _authenticated(head))  # type: ignore[arg-type]
    return json.dumps({**head, "sealed": _text(sealed)}, indent=1) + "\n"


def _opened(found: Mapping[str, Any], passphrase: str) -> bytes:
    head = {name: value for name, value in found.items() if name != "sealed"}
    cipher = AESGCM(_key(found["kdf"], passphrase))
    return cipher.decrypt(_bytes(found["nonce"]), _bytes(found["sealed"]), _authenticated(head))


def _header(text: bytes) -> dict[str, Any]:
    """What a pack says before it is opened.

    Raises:
        ValueError: it is none, or it would take too much to open it.
    """
    try:
        found = json.loads(text)
        kdf = found["kdf"]
        shaped = found["format"] == FORMAT and isinstance(found["node"], str) and kdf["name"] == "scrypt"
        cheap = type(kdf["n"]) is int and 2 <= kdf["n"] <= _MOST_N and (kdf["r"], kdf["p"]) == (_KDF["r"], _KDF["p"])
        sized = (
            len(_bytes(kdf["salt"])) == 16 and len(_bytes(found["nonce"])) == 12 and len(_bytes(found["sealed"])) > 16
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError from error
    if not (shaped and cheap and sized and kdf["n"].bit_count() == 1):
        raise ValueError
    return dict(found)


def _key(kdf: Mapping[str, Any], passphrase: str) -> bytes:
    made = Scrypt(salt=_bytes(kdf["salt"]), length=32, n=kdf["n"], r=kdf["r"], p=kdf["p"])
    return made.derive(passphrase.strip().encode())


def _authenticated(head: Mapping[str, Any]) -> bytes:
    return json.dumps(head, sort_keys=True).encode()


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError from error
