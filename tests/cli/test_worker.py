"""What ``palmette worker`` is told, and what it refuses before it dials."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.cli import execute
from palmette.cli.worker import access_from_pack
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.pack import write_pack

SECRET = "a long passphrase"


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    found = Keys(tmp_path / "keys")
    found.init()
    for node in ("hub", "phone"):
        found.issue(node)
    (tmp_path / "secret").write_text(SECRET)
    return found


def packed(keys: Keys, hub: str | None) -> Path:
    file = keys.folder.parent / "phone.palmette"
    write_pack(keys, "phone", file, SECRET, None if hub is None else (hub, "hub"))
    return file


@pytest.mark.parametrize(
    ("typed", "in_pack", "expected"),
    [(None, "a.b:1", "a.b:1"), ("c.d:2", "a.b:1", "c.d:2"), ("c.d:2", None, "c.d:2")],
)
def test_a_pack_has_the_keys_and_the_way_to_the_hub(
    keys: Keys, typed: str | None, in_pack: str | None, expected: str
) -> None:
    door = access_from_pack(typed, None, packed(keys, in_pack), keys.folder.parent / "secret")()
    assert door.address == expected
    assert door.own.certificate == keys.credentials("phone").certificate


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--keys", "{pack}", "--passphrase-file", "{secret}"], "phone.palmette does not say where the hub is"),
        (["a.b:1", "--keys", "{pack}", "--passphrase-file", "{secret}", "--node", "cloud"], "has the keys of phone"),
        (["a.b:1", "--keys", "{pack}", "--passphrase-file", "{pack}"], "the passphrase or code is wrong"),
        (["a.b:1", "--keys", "{pack}", "--passphrase-file", "{pack}x"], "cannot be read"),
        (["a.b:1", "--keys", "{secret}", "--passphrase-file", "{secret}"], "expected a pack of keys"),
        (["--keys", "{pack}x"], "is not there; expected a folder of keys, or a pack"),
        (["--keys", "{folder}", "--node", "phone"], "hub: missing: expected it, or a pack of keys that has it"),
        (["a.b:1", "--keys", "{folder}"], "node: missing: expected it, or a pack of keys that has it"),
        (["a.b:none", "--keys", "{folder}", "--node", "phone"], "expected host:port, such as hub.example:8443"),
    ],
)
def test_what_is_wrong_is_one_line(keys: Keys, words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    places = {"pack": packed(keys, None), "secret": keys.folder.parent / "secret", "folder": keys.folder}
    assert execute(["worker", *(word.format(**places) for word in words)]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert len(said.splitlines()) == 1
