"""Certificates of workers renew themselves while they are valid."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from palmette.errors import RunError
from palmette.runtime.engines.hub import dialler, renewal, server
from palmette.runtime.engines.hub.open_hubs import open_hub
from palmette.runtime.engines.hub.renewal import is_due, renew_hub, renewed_certificate, with_certificate
from palmette.runtime.transports.keys import credentials, folder
from palmette.runtime.transports.keys.certificates import dns_name
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.pack import open_pack, renew_pack, write_pack
from tests.control.hub_workers import DiallingWorkers, HubWorkers
from tests.runtime.world import Runs
from tests.testbed.test_namespaces import eventually

SECRET = "a long passphrase"


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    found = Keys(tmp_path / "keys")
    found.init()
    for node in ("hub", "phone"):
        found.issue(node, 90)
    return found


@pytest.fixture
def later(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> Keys:
    """The keys, sixty-five days after the certificates were issued."""
    moment = dt.datetime.now(dt.UTC) + dt.timedelta(days=65)
    for module in (folder, credentials, renewal):
        monkeypatch.setattr(module, "current_time", lambda: moment)
    return keys


def end(certificate: bytes) -> dt.datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def test_due_is_the_last_third(keys: Keys) -> None:
    shown, now = keys.credentials("phone").certificate, dt.datetime.now(dt.UTC)
    assert [is_due(shown, now + dt.timedelta(days=days)) for days in (0, 59, 61)] == [False, False, True]
    assert renewed_certificate(keys, "phone", shown) is None


def test_the_authority_signs_another_for_the_same_key_and_length(later: Keys) -> None:
    keys = later
    own = keys.credentials("phone")
    found = renewed_certificate(keys, "phone", own.certificate)
    assert found is not None
    assert end(found) - end(own.certificate) == pytest.approx(dt.timedelta(days=65), abs=dt.timedelta(seconds=5))
    assert own.objection(own.certificate, "phone") is None, "the one before stays valid"
    assert with_certificate(own, found).key == own.key
    assert renewed_certificate(keys, "phone", own.certificate) == found, "asked again, there is no third"


def test_a_hub_without_the_authority_passes_on_what_it_was_given(later: Keys) -> None:
    keys = later
    shown = keys.credentials("phone").certificate
    (keys.folder / "authority.key").rename(keys.folder / "away")
    assert renewed_certificate(keys, "phone", shown) is None
    (keys.folder / "away").rename(keys.folder / "authority.key")
    keys.renew("phone")
    (keys.folder / "authority.key").unlink()
    assert renewed_certificate(keys, "phone", shown) == keys.credentials("phone").certificate


def test_an_old_key_is_not_renewed(later: Keys) -> None:
    keys = later
    shown = keys.credentials("phone").certificate
    keys.revoke("phone")
    keys.issue("phone")
    assert renewed_certificate(keys, "phone", shown) is None


def test_a_hub_that_starts_renews_its_own(later: Keys) -> None:
    before = later.credentials("hub").certificate
    renew_hub(later)
    after = later.credentials("hub").certificate
    assert end(after) > end(before)
    renew_hub(later)
    assert later.credentials("hub").certificate == after


def test_what_a_worker_does_not_take(keys: Keys) -> None:
    own, hub = keys.credentials("phone"), keys.credentials("hub")
    with pytest.raises(RunError, match="it belongs to hub"):
        with_certificate(own, hub.certificate)
    with pytest.raises(RunError, match="cannot be read"):
        with_certificate(own, b"nonsense")
    keys.revoke("phone")
    keys.issue("phone")
    with pytest.raises(RunError, match="it is for another key"):
        with_certificate(own, keys.credentials("phone").certificate)


def test_a_pack_is_sealed_again(keys: Keys, tmp_path: Path) -> None:
    file = tmp_path / "phone.palmette"
    write_pack(keys, "phone", file, SECRET, ("a.b:1", "hub"))
    keys.renew("phone", 200)
    renew_pack(file, SECRET, keys.credentials("phone"))
    found = open_pack(file, SECRET)
    assert found.keys.credentials("phone") == keys.credentials("phone")
    assert found.hub is not None
    assert found.hub.address == "a.b:1"


def test_a_connected_worker_is_renewed(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialler, "is_due", lambda _: True)
    monkeypatch.setattr(renewal, "is_due", lambda _: True)
    with HubWorkers(runs.folder) as place:
        before = place.keys.credentials("phone")
        place.start(["phone"])
        assert eventually(lambda: place.keys.credentials("phone").certificate != before.certificate, 10)
        assert place.hub.present() == {"phone"}
        connection = place.hub.connection("phone")
        assert connection is not None
        renewed = eventually(lambda: connection.certificate == place.keys.credentials("phone").certificate, 10)
        assert renewed, "it stays connected when the one before has expired"


def shown(place: DiallingWorkers) -> bytes:
    """The certificate that the hub shows in a handshake."""
    secured = ssl.create_default_context(cafile=str(place.keys.folder / "authority.crt"))
    secured.load_cert_chain(place.keys.file("phone", "crt"), place.keys.file("phone", "key"))
    host, port = place.address.split(":")
    with (
        socket.create_connection((host, int(port)), 10) as line,
        secured.wrap_socket(line, server_hostname=dns_name("hub")) as wrapped,
    ):
        return wrapped.getpeercert(binary_form=True) or b""


def test_a_hub_that_keeps_running_shows_its_renewed_certificate(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "is_due", lambda _: True)
    monkeypatch.setattr(server, "RENEW_OWN_EVERY_S", 0.0)
    monkeypatch.setattr(server, "_CHECK_EVERY_S", 0.2)
    place = DiallingWorkers(runs.folder)
    with place:
        open_hub(place.listen, place.keys.folder, keeps_runs=True)
        first = shown(place)
        assert eventually(lambda: shown(place) != first, 10)
        place.start(["phone"])
        assert eventually(lambda: any("connected" in line for line in place.said["phone"]), 10)
