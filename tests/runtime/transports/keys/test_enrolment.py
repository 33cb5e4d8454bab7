"""A key that is made on its node never leaves it, and only the right authority's answer is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.errors import InputError
from palmette.runtime.transports.keys.certificates import fingerprint, role_of
from palmette.runtime.transports.keys.enrolment import accept, answer, enroll
from palmette.runtime.transports.keys.folder import Keys


@pytest.fixture
def authority(tmp_path: Path) -> Keys:
    made = Keys(tmp_path / "authority")
    made.init()
    return made


@pytest.fixture
def phone(tmp_path: Path) -> Keys:
    made = Keys(tmp_path / "phone")
    enroll(made, "phone", tmp_path / "phone.csr")
    return made


def test_only_a_request_and_its_answer_travel(authority: Keys, phone: Keys, tmp_path: Path) -> None:
    made = answer(authority, "phone", tmp_path / "phone.csr", tmp_path / "phone.pem", role="viewer")
    accept(phone, "phone", tmp_path / "phone.pem", fingerprint(authority.authority()))
    own = phone.credentials("phone")
    authority.issue("server")
    assert authority.credentials("server").objection(own.certificate, "phone", "viewer") is None
    assert role_of(made) == "viewer"
    assert not authority.file("phone", "key").exists()
    for travelled in ("phone.csr", "phone.pem"):
        assert b"PRIVATE" not in (tmp_path / travelled).read_bytes()


def test_an_answer_of_a_stranger_is_not_taken(authority: Keys, phone: Keys, tmp_path: Path) -> None:
    stranger = Keys(tmp_path / "stranger")
    stranger.init()
    answer(stranger, "phone", tmp_path / "phone.csr", tmp_path / "phone.pem")
    for told in (None, fingerprint(authority.authority())):
        with pytest.raises(InputError, match="expected that of the authority"):
            accept(phone, "phone", tmp_path / "phone.pem", told)
    assert not (phone.folder / "authority.crt").exists()


def test_a_request_of_another_node_is_not_signed(authority: Keys, phone: Keys, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the request is for another node"):
        answer(authority, "server", tmp_path / "phone.csr", tmp_path / "server.pem")
    for text in (b"", b"nonsense", (authority.folder / "authority.crt").read_bytes()):
        (tmp_path / "phone.csr").write_bytes(text)
        with pytest.raises(InputError, match="expected a request for a certificate in the PEM format"):
            answer(authority, "phone", tmp_path / "phone.csr", tmp_path / "phone.pem")
    assert phone.file("phone", "key").exists()


def test_an_answer_for_another_key_is_not_taken(authority: Keys, phone: Keys, tmp_path: Path) -> None:
    answer(authority, "phone", tmp_path / "phone.csr", tmp_path / "phone.pem")
    phone.file("phone", "key").unlink()
    enroll(phone, "phone", tmp_path / "again.csr")
    with pytest.raises(InputError, match="it is for another key"):
        accept(phone, "phone", tmp_path / "phone.pem", fingerprint(authority.authority()))
    for text in (b"", b"nonsense", b"-----BEGIN A-----\nx\n-----END A-----\n" * 3):
        (tmp_path / "phone.pem").write_bytes(text)
        with pytest.raises(InputError, match="cannot be read"):
            accept(phone, "phone", tmp_path / "phone.pem")
