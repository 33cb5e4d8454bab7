"""``palmette keys`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.world import World


@pytest.fixture
def folder(world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(world.folder)
    made = world.folder / "keys"
    assert world.palmette("keys", "init", "--keys", made).code == 0
    return made


def test_an_authority_certificates_and_an_end(world: World, folder: Path) -> None:
    done = world.palmette("keys", "issue", "phone", "server", "--days", "7", "--keys", folder)
    assert (done.code, done.err) == (0, "")
    assert [line.split(":")[0] for line in done.out.splitlines()] == ["phone", "server"]
    assert sorted(path.name for path in (folder / "nodes").iterdir()) == [
        f"{node}.{suffix}" for node in ("phone", "server") for suffix in ("crt", "key")
    ]
    done = world.palmette("keys", "revoke", "phone", "--keys", folder)
    assert (done.code, done.out) == (0, f"phone: revoked; copy {folder}/revoked.crl to the other hosts\n")


def test_what_is_there_is_not_overwritten(world: World, folder: Path) -> None:
    (line,) = world.refused("keys", "init", "--keys", folder)
    assert line.endswith("an authority exists already: authority.key")
    world.palmette("keys", "issue", "phone", "--keys", folder)
    (line,) = world.refused("keys", "issue", "server", "phone", "--keys", folder)
    assert "phone: its certificate is valid until" in line
    assert not (folder / "nodes" / "server.crt").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("issue", "phone", "--days", "0"), "greater than or equal to 1"),
        (("issue", "phone", "--days", "99999"), "--days: 99999: expected more than 0 and at most 7300"),
        (("issue", "phone", "--address", "two words"), "--address: two words: expected an IP address or a host name"),
        (("issue", "a", "b", "--address", "10.0.0.1"), "--address: 10.0.0.1: expected one node, not 2"),
        (("issue", ""), "NODE: '': expected 1 to 200 printable characters"),
        (("issue", "two\nlines"), "NODE: two\\nlines: expected 1 to 200 printable characters"),
        (("revoke", "phone"), "NODE: phone: no certificate was issued to it"),
        (("issue",), "NODE...: missing; palmette keys issue --help"),
    ],
)
def test_bad_input_is_one_line(world: World, folder: Path, words: tuple[str, ...], says: str) -> None:
    (line,) = world.refused("keys", *words, "--keys", folder)
    assert says in line


def test_without_an_authority_nothing_is_issued(world: World) -> None:
    (line,) = world.refused("keys", "issue", "phone", "--keys", world.folder / "none")
    assert "there is no authority.crt; make one with: palmette keys init --keys" in line


def test_where_nothing_can_be_written_it_says_so(world: World) -> None:
    (line,) = world.refused("keys", "init", "--keys", "/proc/palmette")
    assert line == "--keys: /proc/palmette: cannot be written: No such file or directory"


def test_a_node_is_packed_listed_renewed_and_unpacked(world: World, folder: Path) -> None:
    world.palmette("keys", "issue", "phone", "--keys", folder)
    world.palmette("keys", "issue", "screen", "--role", "viewer", "--keys", folder)
    done = world.palmette("keys", "pack", "phone", "-o", "p.palmette", "--hub", "phone@h:1", "--code", "--keys", folder)
    assert done.out.splitlines()[0] == "p.palmette: all that phone needs; give it to nobody else"
    (world.folder / "code").write_text(done.out.splitlines()[1].removeprefix("code: "))
    done = world.palmette("keys", "unpack", "p.palmette", "--passphrase-file", "code", "--keys", "there")
    assert done.out.startswith("there: keys of phone\nhub: phone at h:1, fingerprint ")
    assert world.palmette("keys", "renew", "phone", "--keys", folder).code == 0
    rows = json.loads(world.palmette("keys", "list", "--json", "--keys", folder).out)
    assert [(row["node"], row["role"], row["state"]) for row in rows] == [
        ("phone", "worker", "valid"),
        ("screen", "viewer", "valid"),
    ]
    assert "screen  viewer    until " in world.palmette("keys", "list", "--keys", folder).out


def test_a_key_made_on_its_node_is_signed_and_accepted(world: World, folder: Path) -> None:
    assert world.palmette("keys", "enroll", "phone", "--keys", "there").code == 0
    said = world.palmette("keys", "sign", "phone", "phone.csr", "--keys", folder).out.splitlines()[1]
    mark = said.rpartition(" ")[2]
    done = world.palmette("keys", "accept", "phone", "phone.pem", "--fingerprint", mark, "--keys", "there")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("issue", "a", "--role", "viewr"), "--role: viewr: no such role; did you mean viewer?"),
        (("pack", "a", "-o", "p", "--hub", "h:1", "--code"), "--hub: h:1: expected NODE@host:port"),
        (("pack", "a", "-o", "p"), "--passphrase-file: missing: there is nobody to ask; expected one"),
        (("pack", "a", "-o", "p", "--code"), "node a has no certificate"),
        (("unpack", "none", "--passphrase-file", "none"), "--passphrase-file: none: cannot be read"),
        (("renew", "a"), "NODE: a: no certificate was issued to it"),
        (("sign", "a", "none"), "cannot be read: No such file or directory"),
        (("accept", "a", "none"), "cannot be read: No such file or directory"),
    ],
)
def test_wrong_words_about_packs_and_requests_are_one_line(
    world: World, folder: Path, words: tuple[str, ...], says: str
) -> None:
    (line,) = world.refused("keys", *words, "--keys", folder)
    assert says in line
