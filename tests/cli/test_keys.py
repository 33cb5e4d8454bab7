"""``palmette keys`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.world import World


@pytest.fixture
def folder(world: World) -> Path:
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
        (("issue",), "Missing argument"),
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
