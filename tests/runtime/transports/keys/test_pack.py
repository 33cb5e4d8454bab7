"""One file for one node: it opens with its passphrase alone, and gives what the folder gives."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from palmette.errors import InputError
from palmette.runtime.transports.keys import pack as module
from palmette.runtime.transports.keys.certificates import fingerprint
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.pack import new_code, open_pack, write_folder, write_pack
from palmette.runtime.transports.keys.pem import read_certificate
from tests.runtime.transports.keys.test_folder import later

PASSPHRASE = "four words are enough"


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keys:
    """Keys of two nodes; guesses are cheap in tests."""
    monkeypatch.setitem(module._KDF, "n", 16)
    made = Keys(tmp_path / "keys")
    made.init()
    for node in ("phone", "server"):
        made.issue(node)
    return made


@pytest.fixture
def packed(keys: Keys, tmp_path: Path) -> Path:
    """A pack of the phone's."""
    write_pack(keys, "phone", tmp_path / "phone.palmette", PASSPHRASE, ("hub.example:8443", "server"))
    return tmp_path / "phone.palmette"


def refused(file: Path, passphrase: str = PASSPHRASE) -> str:
    with pytest.raises(InputError) as caught:
        open_pack(file, passphrase)
    (fault,) = caught.value.faults
    return str(fault)


def test_a_pack_gives_what_the_folder_gives(keys: Keys, packed: Path) -> None:
    found = open_pack(packed, f"{PASSPHRASE}\n")
    assert found.keys.credentials("phone") == keys.credentials("phone")
    assert found.hub is not None
    mark = fingerprint(read_certificate(keys.file("server", "crt")))
    assert (found.hub.address, found.hub.node, found.hub.fingerprint) == ("hub.example:8443", "server", mark)
    assert stat.S_IMODE(packed.stat().st_mode) == 0o600
    assert b"PRIVATE" not in packed.read_bytes()


def test_a_wrong_passphrase_is_refused_in_one_line(packed: Path) -> None:
    wrong = "the passphrase or code is wrong, or the file is damaged"
    assert refused(packed, "another one") == f"{packed}: pack: phone: {wrong}"


@pytest.mark.parametrize(
    "change",
    [
        {"node": "server"},
        {"format": "palmette.pack/2"},
        {"kdf": {"name": "scrypt", "n": 2**40, "r": 8, "p": 1, "salt": "A" * 22 + "=="}},
        {"kdf": {"name": "scrypt", "n": 17, "r": 8, "p": 1, "salt": "A" * 22 + "=="}},
        {"nonce": ""},
        {"sealed": "A" * 40},
        {"sealed": 3},
        {"kdf": None},
    ],
)
def test_a_pack_that_was_changed_does_not_open(packed: Path, change: dict[str, Any]) -> None:
    packed.write_text(json.dumps(json.loads(packed.read_text()) | change))
    assert "damaged" in refused(packed) or "expected a pack of keys" in refused(packed)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff\xfe", pytest.param(b"[" * 100_000, id="deep")])
def test_what_is_no_pack_is_refused(packed: Path, text: bytes) -> None:
    packed.write_bytes(text)
    assert refused(packed).endswith("cannot be read; expected a pack of keys")


def test_a_pack_ends_with_its_certificate(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch, 91)
    assert "it expired on" in refused(packed)


def test_a_pack_becomes_a_folder_but_no_older_list(keys: Keys, packed: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    write_folder(open_pack(packed, PASSPHRASE), there)
    assert Keys(there).credentials("phone") == keys.credentials("phone")
    assert stat.S_IMODE((there / "nodes" / "phone.key").stat().st_mode) == 0o600
    assert not (there / "authority.key").exists()

    keys.revoke("server")
    (there / "revoked.crl").write_bytes((keys.folder / "revoked.crl").read_bytes())
    write_folder(open_pack(packed, PASSPHRASE), there)
    assert len(Keys(there).revoked()) == 1


def test_a_short_passphrase_is_refused_and_codes_are_long(keys: Keys, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected at least 8 characters"):
        write_pack(keys, "phone", tmp_path / "p", "short")
    codes = {new_code() for _ in range(100)}
    assert len(codes) == 100
    assert {len(code) for code in codes} == {24}
