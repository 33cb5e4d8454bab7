"""What a machine can do for Palmette: one finding per subject, with what would fix it.

A finding is ``ok``, ``absent`` (something optional that is not there) or ``wrong`` (runs will fail or mislead).
"""

from __future__ import annotations

import ctypes
import datetime as dt
import importlib.util
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from palmette.errors import Fault, InputError, PalmetteError, RunError
from palmette.spec.reading import size

if TYPE_CHECKING:
    from palmette.runtime.engines.hub.requests import WorkerEntry

Status = Literal["ok", "absent", "wrong"]
LEAST_FREE_BYTES = 2.0**30
SOON = dt.timedelta(days=14)
_UNSYNCHRONISED = 5  # what adjtimex returns then


@dataclass(frozen=True)
class Finding:
    """What was found about a subject, and what to do about it where it is not ok."""

    subject: str
    status: Status
    found: str
    fix: str = ""

    def as_json(self) -> dict[str, Any]:
        """As scripts read it."""
        return asdict(self)


def examine(keys: Path | None = None) -> list[Finding]:
    """What this machine can do; ``keys`` is a folder of keys whose certificates are looked at, too."""
    found = [each for each in map(_probed, PROBES) if each is not None]
    return found if keys is None else [*found, *_certificates(keys)]


def _probed(probe: Callable[[], Finding]) -> Finding | None:
    """What a probe finds; None where it needs a package that only runs need, about which ``_torch`` says more."""
    try:
        return probe()
    except ModuleNotFoundError:
        return None


def examine_hosts(nodes: Sequence[str]) -> dict[str, list[Finding]]:
    """What the hosts of a Ray cluster can do, by the node that each stands for; a cluster out of reach is a finding."""
    try:
        from palmette.runtime.engines.ray.hosts import Hosts
    except ModuleNotFoundError as error:
        return {"hosts of the cluster": [_not_looked_at("hosts", error)]}
    try:
        return Hosts(nodes).each(nodes, examine)
    except InputError as error:  # no cluster, or one that lacks a host
        return {"hosts of the cluster": [_unreachable(fault) for fault in error.faults]}
    except RunError as error:
        return {"hosts of the cluster": [Finding("hosts", "wrong", str(error), "palmette cluster join --help")]}


def examine_workers(workers: Iterable[WorkerEntry]) -> dict[str, list[Finding]]:
    """What is known of workers that are connected to a hub: their versions beside those here, and their limits."""
    return {each.node: list(_worker(each)) for each in workers}


def examine_hub(workers: Callable[[], Iterable[WorkerEntry]]) -> dict[str, list[Finding]]:
    """What is known of the workers of a hub that is asked for them; that this machine cannot ask is a finding, too."""
    try:
        return examine_workers(workers())
    except ModuleNotFoundError as error:
        return {"workers at the hub": [_not_looked_at("workers", error)]}


def _unreachable(fault: Fault) -> Finding:
    reason, _, fix = fault.expected.partition("; ")
    return Finding("hosts", "wrong", reason, fix or "palmette cluster join --help")


def _not_looked_at(subject: str, error: ModuleNotFoundError) -> Finding:
    return Finding(subject, "absent", f"not looked at: {error.name} is not installed", "pip install 'palmette[run]'")


def _worker(worker: WorkerEntry) -> Iterator[Finding]:
    yield Finding("connection", "ok", f"since {worker.since[:16].replace('T', ' ')}")
    from palmette.runtime.engines.hub.versions import were_tested

    for package, there in (("palmette", worker.palmette_version), ("torch", worker.torch_version)):
        here = version(package)
        same = were_tested(there, here) if package == "torch" else _numbers(there)[:2] == _numbers(here)[:2]
        fix = (
            ""
            if same
            else f"this machine has {here}; on {worker.node}: pip install '{package}=={here.partition('+')[0]}'"
        )
        yield Finding(package, "ok" if same else "wrong", there, fix)
    yield Finding("limits", "ok", worker.limits.text() or "none")


def _python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _torch() -> Finding:
    tested, least = _required("torch", "=="), _required("torch", ">=")
    try:
        here = version("torch")
    except PackageNotFoundError:
        return Finding("torch", "absent", "not installed: enough to plan", "pip install 'palmette[run]' to train, too")
    if _numbers(here) < _numbers(least):
        return Finding("torch", "wrong", here, f"pip install torch=={tested}")
    same = _numbers(here) == _numbers(tested)
    return Finding("torch", "ok", here if same else f"{here}, tests use {tested}")


def _required(package: str, relation: str) -> str:
    """The version of a package that Palmette asks for: ``==`` what tests use, ``>=`` the least."""
    needs = [each.partition(";")[0].strip() for each in requires("palmette") or ()]
    return next(each.partition(relation)[2] for each in needs if each.startswith(f"{package}{relation}"))


def _numbers(number: str) -> list[int]:
    """``[2, 13, 0]`` of ``2.13.0+cpu``."""
    return [int(each) for each in re.findall(r"\d+", number.partition("+")[0])]


def _processor() -> Finding:
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = psutil.virtual_memory()
    return Finding("processor", "ok", f"{cores} cores, {size(memory.available)} of {size(memory.total)} of memory free")


def _gpu() -> Finding:
    from palmette.runtime.devices import is_usable

    usable = [name for name in ("cuda", "mps") if is_usable(name)]
    if usable:
        return Finding("GPU", "ok", f"device: {usable[0]} can be used")
    return Finding("GPU", "absent", "none that torch can use", "nodes without one have device: cpu, the default")


def _namespaces() -> Finding:
    from palmette.testbed.iproute import require_namespaces

    try:
        require_namespaces()
    except InputError as error:
        return Finding("testbed namespaces", "absent", "cannot be made", _expected(error))
    return Finding("testbed namespaces", "ok", "network namespaces can be made")


def _meter() -> Finding:
    from palmette.measure.meters.registry import open_meter

    try:
        found = open_meter("zeus").source
    except InputError as error:
        return Finding("energy meter", "absent", "none; joules are modelled", _expected(error))
    return Finding("energy meter", "ok", found)


def _ray() -> Finding:
    if importlib.util.find_spec("ray") is None:
        return Finding("Ray", "absent", "not installed", "pip install 'palmette[ray]' for --engine ray")
    return Finding("Ray", "ok", f"{version('ray')}; runs on hosts need a cluster: palmette cluster join --help")


def _loopback() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), 2.0):
            pass
    except OSError as error:
        why = error.strerror or str(error)
        return Finding("network", "wrong", f"no connection over loopback: {why}", "allow 127.0.0.1 in the firewall")
    return Finding("network", "ok", f"loopback works; this machine is {socket.gethostname()}")


def _port() -> Finding:
    """Whether workers could dial in here, at the port that a hub takes if the user names none."""
    from palmette.runtime.engines.hub.engine import LISTEN

    host, _, port = LISTEN.rpartition(":")
    try:
        with socket.create_server((host, int(port))):
            pass
    except OSError as error:
        why = error.strerror or str(error)
        return Finding("port for workers", "absent", f"{LISTEN}: {why}", "choose another with --listen HOST:PORT")
    return Finding("port for workers", "ok", f"{LISTEN} is free; a firewall may still keep others out")


def _clock() -> Finding:
    now = dt.datetime.now(dt.UTC)
    stated = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    advice = "check that this is right: certificates are valid by it (timedatectl set-ntp true)"
    if not sys.platform.startswith("linux"):
        return Finding("clock", "ok", f"{stated}; whether it is synchronised is not known here")
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
    if state == _UNSYNCHRONISED:
        return Finding("clock", "absent", f"{stated}, not synchronised", advice)
    return Finding("clock", "ok", f"{stated}, synchronised")


def _disk() -> Finding:
    places = {Path.cwd(), Path(tempfile.gettempdir())}
    free = {place: float(shutil.disk_usage(place).free) for place in places}
    least = min(free, key=lambda place: free[place])
    found = f"{size(free[least])} free in {least}"
    enough = free[least] >= LEAST_FREE_BYTES
    return Finding("disk", "ok" if enough else "wrong", found, "" if enough else "checkpoints need room: free some")


def _certificates(folder: Path) -> Iterator[Finding]:
    try:
        from palmette.runtime.transports.keys.folder import Keys
        from palmette.runtime.transports.keys.pem import read_certificate
    except ModuleNotFoundError as error:
        yield _not_looked_at("keys", error)
        return
    try:
        expiring = {"authority": Keys(folder).authority()}
        for file in sorted((folder / "nodes").glob("*.crt")):
            expiring[file.stem] = read_certificate(file)
    except PalmetteError as error:
        yield Finding("keys", "wrong", f"{folder} cannot be used", str(error).splitlines()[0])
        return
    now = dt.datetime.now(dt.UTC)
    for name, certificate in expiring.items():
        until = certificate.not_valid_after_utc
        renew = f"palmette keys {'init' if name == 'authority' else f'issue {name}'} --keys {folder}"
        if until > now + SOON:
            yield Finding(f"keys of {name}", "ok", f"valid until {until.date()}")
        else:
            yield Finding(f"keys of {name}", "wrong", f"valid until {until.date()}", renew)


def _expected(error: InputError) -> str:
    return error.faults[0].expected


PROBES: tuple[Callable[[], Finding], ...] = (
    _python,
    _torch,
    _processor,
    _gpu,
    _namespaces,
    _meter,
    _ray,
    _loopback,
    _port,
    _clock,
    _disk,
)
