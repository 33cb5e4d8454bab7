"""A folder of keys: who counts, who does not, and what is never overwritten."""

from __future__ import annotations

import datetime as dt
import json
import stat
from pathlib import Path

import pytest
from cryptography import x509

from palmette.errors import InputError
from palmette.runtime.transports.keys import audit, credentials, folder
from palmette.runtime.transports.keys.certificates import addresses_in, dns_name, node_certificate
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.pem import read_certificate, read_key, text_of


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    made = Keys(tmp_path / "keys")
    made.init()
    return made


def later(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    then = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    for module in (folder, credentials):
        monkeypatch.setattr(module, "current_time", lambda: then)


def refused(keys: Keys, node: str) -> str:
    with pytest.raises(InputError) as caught:
        keys.credentials(node)
    (fault,) = caught.value.faults
    return str(fault)


def test_secrets_are_for_their_owner_alone(keys: Keys) -> None:
    made = keys.issue("phone")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in keys.folder.rglob("*")}
    assert stat.S_IMODE(keys.folder.stat().st_mode) == 0o700
    assert modes == {
        "authority.key": 0o600,
        "authority.crt": 0o644,
        "revoked.crl": 0o644,
        "audit.jsonl": 0o600,
        "nodes": 0o700,
        "issued": 0o700,
        "phone.key": 0o600,
        "phone.crt": 0o644,
        f"{made.serial_number:x}.crt": 0o644,
    }


def test_a_certificate_says_what_it_may_be_used_for(keys: Keys) -> None:
    made = keys.issue("phone", 30, ["10.0.0.3", "phone.example"])
    extensions = {each.oid._name: each for each in made.extensions}
    assert extensions["basicConstraints"].value == x509.BasicConstraints(ca=False, path_length=None)
    assert extensions["basicConstraints"].critical
    assert extensions["keyUsage"].value.digital_signature
    assert not extensions["keyUsage"].value.key_cert_sign
    names = extensions["subjectAltName"].value
    assert names.get_values_for_type(x509.DNSName) == [dns_name("phone"), "phone.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.3"]
    lasting = made.not_valid_after_utc - dt.datetime.now(dt.UTC)
    assert dt.timedelta(days=29.9) < lasting <= dt.timedelta(days=30)


def test_no_certificate_outlives_the_authority(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys")
    authority = keys.init(days=10)
    assert keys.issue("phone", 365).not_valid_after_utc == authority.not_valid_after_utc


def test_what_counts_is_not_overwritten(keys: Keys) -> None:
    keys.issue("phone")
    before = {path: path.read_bytes() for path in keys.folder.rglob("*") if path.is_file()}
    for again in (keys.init, lambda: keys.issue("phone")):
        with pytest.raises(InputError):
            again()
    assert before == {path: path.read_bytes() for path in keys.folder.rglob("*") if path.is_file()}


def test_a_node_that_was_revoked_or_whose_time_is_over_gets_a_new_one(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = keys.issue("phone")
    keys.revoke("phone")
    assert "it was revoked" in refused(keys, "phone")
    second = keys.issue("phone")
    assert second.serial_number != first.serial_number
    assert keys.credentials("phone").objection(text_of(first), "phone") == "it was revoked"
    assert keys.credentials("phone").objection(text_of(second), "phone") is None
    later(monkeypatch, 91)
    assert "it expired on" in refused(keys, "phone")
    keys.issue("phone")
    assert keys.credentials("phone").node == "phone"


def test_all_that_were_revoked_stay_revoked(keys: Keys) -> None:
    made = [keys.issue(name) for name in ("a", "b", "c")]
    keys.revoke("a")
    keys.revoke("c")
    found = [keys.credentials("b").objection(text_of(each), name) for each, name in zip(made, "abc", strict=True)]
    assert found == ["it was revoked", None, "it was revoked"]
    with pytest.raises(InputError, match="revoked already"):
        keys.revoke("a")


def test_a_stranger_does_not_count(keys: Keys, tmp_path: Path) -> None:
    keys.issue("phone")
    other = Keys(tmp_path / "other")
    other.init()
    foreign = other.issue("phone")
    own = keys.credentials("phone")
    assert own.objection(text_of(foreign), "phone") == "it was issued by another authority"
    assert own.objection(b"-----BEGIN CERTIFICATE-----\nnonsense", "phone") == "it cannot be read"
    assert own.objection(b"", "phone") == "it cannot be read"


def test_one_node_is_not_another(keys: Keys) -> None:
    keys.issue("phone")
    shown = keys.credentials("phone").certificate
    assert keys.credentials("phone").objection(shown, "phon") == "it belongs to phone"
    (keys.folder / "nodes" / "cloud.crt").write_bytes(shown)
    assert "it belongs to phone" in refused(keys, "cloud")


def test_a_certificate_of_tomorrow_does_not_count_yet(keys: Keys) -> None:
    key = read_key(keys.folder / "authority.key")
    authority = (key, read_certificate(keys.folder / "authority.crt"))
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    early = node_certificate("phone", key, authority, days=1, now=tomorrow)
    keys.issue("phone")
    found = keys.credentials("phone").objection(text_of(early), "phone")
    assert found is not None
    assert found.startswith("it is not valid before")


@pytest.mark.parametrize("name", ["öffentlich 1", "../../etc/passwd", ".", "x" * 200, "節點" * 50, "authority", "a.b"])
def test_any_name_of_a_node_will_do(keys: Keys, name: str) -> None:
    keys.issue(name)
    own = keys.credentials(name)
    assert own.objection(own.certificate, name) is None
    assert len(list((keys.folder / "nodes").iterdir())) == 2
    assert len(list(keys.folder.iterdir())) == 6


def test_a_secret_that_others_may_read_is_refused(keys: Keys) -> None:
    keys.issue("phone")
    (keys.folder / "nodes" / "phone.key").chmod(0o640)
    assert "permissions: 0640: others may read it" in refused(keys, "phone")


@pytest.mark.parametrize("name", ["authority.crt", "revoked.crl", "nodes/phone.crt", "nodes/phone.key"])
@pytest.mark.parametrize("text", [b"", b"garbage", b"\xff" * 100, None])
def test_a_file_that_is_broken_or_gone_is_named(keys: Keys, name: str, text: bytes | None) -> None:
    keys.issue("phone")
    file = keys.folder / name
    if text is None:
        file.unlink()
    else:
        file.write_bytes(text)
    assert str(file) in refused(keys, "phone") or "authority.crt" in refused(keys, "phone")


def test_a_key_of_another_certificate_is_refused(keys: Keys) -> None:
    for node in ("phone", "cloud"):
        keys.issue(node)
    nodes = keys.folder / "nodes"
    (nodes / "phone.key").write_bytes((nodes / "cloud.key").read_bytes())
    assert "it does not match certificate" in refused(keys, "phone")


def test_a_list_that_another_has_signed_is_refused(keys: Keys, tmp_path: Path) -> None:
    keys.issue("phone")
    other = Keys(tmp_path / "other")
    other.init()
    (keys.folder / "revoked.crl").write_bytes((other.folder / "revoked.crl").read_bytes())
    assert "signature" in refused(keys, "phone")


def test_an_authority_whose_time_is_over_is_refused(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.issue("phone")
    later(monkeypatch, 6 * 365)
    assert "authority: expired on" in refused(keys, "phone")


def test_a_certificate_is_renewed_with_overlap_and_revoked_with_all_that_came_before(keys: Keys) -> None:
    first = keys.issue("phone", 10, ["10.0.0.3", "phone.example"], "operator")
    second = keys.renew("phone", 30)
    own = keys.credentials("phone")
    assert second.not_valid_after_utc > first.not_valid_after_utc
    assert second.public_key() == first.public_key()
    assert addresses_in(second) == addresses_in(first) == ["phone.example", "10.0.0.3"]
    assert [own.objection(text_of(each), "phone", ("operator",)) for each in (first, second)] == [None, None]
    keys.revoke("phone")
    own = keys.renewed(own)
    assert [own.objection(text_of(each), "phone", ("operator",)) for each in (first, second)] == ["it was revoked"] * 2
    with pytest.raises(InputError, match="it was revoked; to make a new one"):
        keys.renew("phone")


def test_a_role_is_for_what_it_says(keys: Keys) -> None:
    viewer, worker = keys.issue("screen", role="viewer"), keys.issue("phone")
    own = keys.credentials("phone")
    assert own.objection(text_of(viewer), "screen") == "it is for the role viewer, not worker"
    assert own.objection(text_of(viewer), "screen", ("viewer",)) is None
    assert own.objection(text_of(worker), "phone") is None


def test_the_list_tells_role_end_and_state(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.issue("screen", 5, role="viewer")
    keys.issue("x" * 150, 20)
    keys.issue("gone", 20)
    keys.revoke("gone")
    later(monkeypatch, 10)
    found = {each.node: (each.role, each.state.partition(" on ")[0]) for each in keys.entries()}
    assert found == {
        "gone": ("worker", "it was revoked"),
        "screen": ("viewer", "it expired"),
        "x" * 150: ("worker", "valid"),
    }


def test_what_happens_is_logged_within_bounds(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    made = keys.issue("phone")
    keys.revoke("phone")
    keys.note("refusal", node="phone\n", why="it was revoked")
    lines = [json.loads(line) for line in (keys.folder / "audit.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["init", "issue", "revoke", "refusal"]
    assert lines[1]["serial"] == lines[2]["serial"] == f"{made.serial_number:x}"
    monkeypatch.setattr(audit, "_LONGEST_BYTES", 1_000)
    for _ in range(100):
        keys.note("refusal", node="phone", why="it was revoked")
    assert sum(path.stat().st_size for path in keys.folder.glob("audit*")) < 3_000
