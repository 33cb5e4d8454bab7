"""What ``palmette doctor`` says of a machine, as it is and as it might be."""

from __future__ import annotations

import datetime as dt
import socket
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from palmette.control import doctor
from palmette.control.doctor import (
    LEAST_FREE_BYTES,
    SOON,
    Finding,
    examine,
    examine_hosts,
    examine_hub,
    examine_workers,
)
from palmette.errors import ArgumentFault, InputError, RunError
from palmette.runtime.engines.hub.limits import WorkerLimits
from palmette.runtime.engines.hub.requests import WorkerEntry
from palmette.runtime.transports.keys.folder import Keys


class Usage(NamedTuple):
    free: float


def found(subject: str, keys: Path | None = None) -> Finding:
    (finding,) = [each for each in examine(keys) if each.subject == subject]
    return finding


def test_every_finding_that_is_not_ok_says_what_to_do() -> None:
    findings = examine()
    assert len({each.subject for each in findings}) == len(findings) == len(doctor.PROBES)
    assert all(each.found for each in findings)
    assert all(each.fix for each in findings if each.status != "ok")


def test_a_torch_that_is_too_old_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("torch").found == version("torch")
    monkeypatch.setattr(doctor, "version", lambda _: "2.3.1+cpu")
    assert (found("torch").status, found("torch").fix) == ("wrong", "pip install torch==2.13.0")
    monkeypatch.setattr(doctor, "version", lambda _: "2.4.0")
    assert (found("torch").status, found("torch").found) == ("ok", "2.4.0, tests use 2.13.0")


def test_a_full_disk_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(LEAST_FREE_BYTES - 1))
    assert found("disk").status == "wrong"


def test_a_machine_without_namespaces_lacks_something_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise InputError(ArgumentFault("testbed", "namespaces", "needs root"))

    monkeypatch.setattr("palmette.testbed.iproute.require_namespaces", refuse)
    assert found("testbed namespaces") == Finding("testbed namespaces", "absent", "cannot be made", "needs root")


def test_a_clock_that_is_not_synchronised_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kernel:
        def adjtimex(self, _: object) -> int:
            return 5

    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: Kernel())
    assert found("clock").status == "absent"


@pytest.mark.parametrize(("days", "status"), [(SOON.days + 2, "ok"), (SOON.days - 1, "wrong")])
def test_certificates_that_expire_soon_are_named(tmp_path: Path, days: int, status: str) -> None:
    keys = Keys(tmp_path / "keys")
    keys.init()
    keys.issue("phone", days)
    finding = found("keys of phone", keys.folder)
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days)
    assert (finding.status, finding.found) == (status, f"valid until {until.date()}")
    assert (f"keys issue phone --keys {keys.folder}" in finding.fix) == (status == "wrong")
    assert found("keys of authority", keys.folder).status == "ok"


def test_a_folder_without_keys_is_wrong(tmp_path: Path) -> None:
    assert found("keys", tmp_path).status == "wrong"


def test_workers_at_a_hub_are_compared_with_this_machine() -> None:
    same = {"palmette_version": version("palmette"), "torch_version": version("torch"), "protocol": 2}
    since = "2026-11-18T05:00:00"
    phone = WorkerEntry(node="phone", since=since, **same, limits=WorkerLimits(cpu_share=0.5))
    old = WorkerEntry(node="old", since=since, **{**same, "torch_version": "2.3.1"}, limits=WorkerLimits())
    found_there = examine_workers([phone, old])
    assert [each.status for each in found_there["phone"]] == ["ok"] * 4
    assert found_there["phone"][3].found == "cpu: 50%"
    (torch,) = [each for each in found_there["old"] if each.subject == "torch"]
    assert torch.status == "wrong"
    assert "on old: pip install 'torch==2.13.0'" in torch.fix


def test_a_port_that_is_taken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr("palmette.runtime.engines.hub.engine.LISTEN", f"127.0.0.1:{taken.getsockname()[1]}")
        port = found("port for workers")
    assert (port.status, port.fix) == ("absent", "choose another with --listen HOST:PORT")


def test_what_cannot_be_looked_at_without_the_packages_for_runs_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def ask() -> NoReturn:
        raise ModuleNotFoundError("No module named 'grpc'", name="grpc")

    for module in ("palmette.runtime.engines.ray.hosts", "palmette.runtime.transports.keys.folder"):
        monkeypatch.setitem(sys.modules, module, None)
    found = [*examine_hosts(["phone"]).values(), *examine_hub(ask).values(), examine(tmp_path)]
    assert [(each[-1].subject, each[-1].status) for each in found] == [
        ("hosts", "absent"),
        ("workers", "absent"),
        ("keys", "absent"),
    ]
    assert "grpc is not installed" in found[1][-1].found
    assert found[1][-1].fix == "pip install 'palmette[run]'"


@pytest.mark.parametrize(
    ("error", "said", "fix"),
    [
        (InputError(ArgumentFault("engine", "ray", "no cluster to connect to; start one")), "no cluster", "start one"),
        (InputError(ArgumentFault("cluster", "phone", "no host")), "no host", "palmette cluster join --help"),
        (RunError("host of phone is lost"), "host of phone is lost", "palmette cluster join --help"),
    ],
)
def test_hosts_that_cannot_be_asked_are_a_finding(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str, fix: str
) -> None:
    def lost(_: list[str]) -> None:
        raise error

    monkeypatch.setattr("palmette.runtime.engines.ray.hosts.Hosts", lost)
    (finding,) = examine_hosts(["phone"])["hosts of the cluster"]
    assert (finding.status, finding.fix) == ("wrong", fix)
    assert finding.found.startswith(said)
