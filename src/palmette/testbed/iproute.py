"""Calls ``ip`` and ``tc``, and removes the namespaces that they make.

A namespace is called palmette-PID-START-NUMBER after the process that made it, so that concurrent runs do not collide
and leftovers of dead processes are recognised. A cleaner, a small shell in a session of its own, holds the list of a
run's namespaces and one end of a pipe: when the other end closes, because the run is over or its process was killed, it
kills every process still inside and removes them.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palmette.errors import ArgumentFault, InputError, RunError
from palmette.testbed.namespace_network import TcpEndpoint, TcpFlow

_FOLDER = Path("/var/run/netns")  # where ip keeps the names
_NAME = re.compile(r"palmette-(\d+)-(\d+)-\d+")
_CLONE_NEWNET = 0x40000000
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
_TIMEOUT_S = 30.0
_ESTABLISHED = "01"  # in /proc/net/tcp

_REMOVE = f"""
for name; do
    [ -e "{_FOLDER}/$name" ] || continue
    for pid in $(ip netns pids "$name"); do kill -9 "$pid"; done
    ip netns delete "$name" || :  # somebody else may have removed it
done
"""
# End of file without a line means that the engine was killed: what it had begun may take a moment to end.
_CLEAN_UP = f"trap '' HUP INT QUIT TERM; read -r word || sleep 1; {_REMOVE}"

_numbers = itertools.count()

_SETTINGS = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv4/tcp_congestion_control": "reno",
    "ipv4/tcp_slow_start_after_idle": "0",
    "ipv4/tcp_no_metrics_save": "1",
    "ipv6/conf/all/disable_ipv6": "1",
}


def require_namespaces() -> None:
    """Refuse a machine on which no namespaces can be made.

    Raises:
        InputError: says what is missing.
    """
    missing = _missing()
    if missing:
        expected = f"needs {', '.join(missing)}; --testbed paced does without"
        raise InputError(ArgumentFault("testbed", "namespaces", expected))


def _missing() -> list[str]:
    if not sys.platform.startswith("linux"):
        return ["Linux"]
    denied = missing_capabilities(Path("/proc/self/status").read_text(encoding="ascii"))
    missing = [f"root ({' and '.join(denied)})"] if denied else []
    return missing + [f"the command {tool} (of iproute2)" for tool in ("ip", "tc") if shutil.which(tool) is None]


def missing_capabilities(status: str) -> list[str]:
    """The capabilities that a process needs and does not have, by its ``/proc/PID/status``."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    held = int(found[1], 16) if found else 0
    return [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]


def run_command(*words: str, lines: Sequence[str] | None = None) -> str:
    """Run a command; ``lines`` are its input. Returns its output.

    Raises:
        RunError: it failed; says what it printed.
    """
    text = None if lines is None else "".join(f"{line}\n" for line in lines)
    # In a session of its own, so that Ctrl-C does not interrupt it.
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False, start_new_session=True)
    if done.returncode != 0:
        message = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise RunError(f"cannot make the namespaces: {' '.join(words[:4])}: {message}; --testbed paced does without")
    return done.stdout


def new_names(many: int) -> list[str]:
    """Names for new namespaces that no other run uses."""
    pid = os.getpid()
    return [f"palmette-{pid}-{_started(pid)}-{next(_numbers)}" for _ in range(many)]


def create_namespace(name: str, send_buffer_bytes: int) -> None:
    """Make a namespace that forwards packets and whose TCP behaves predictably."""
    run_command("ip", "netns", "add", name)
    settings = _SETTINGS | {"ipv4/tcp_wmem": f"4096 16384 {send_buffer_bytes}"}
    files = {f"/proc/sys/net/{key}": value for key, value in settings.items()}
    script = "; ".join(f"[ ! -e {path} ] || echo {value} > {path}" for path, value in files.items())
    run_command("ip", "netns", "exec", name, "sh", "-e", "-c", script)


def established_flows(name: str) -> list[TcpFlow]:
    """The connections of a namespace, as its processes send over them."""
    return parse_established(run_command("ip", "netns", "exec", name, "cat", "/proc/net/tcp"))


def parse_established(table: str) -> list[TcpFlow]:
    """The established connections in ``/proc/net/tcp``, each from its local end to its remote end."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return [TcpFlow(_parse_endpoint(row[1]), _parse_endpoint(row[2])) for row in rows if row[3] == _ESTABLISHED]


def _parse_endpoint(text: str) -> TcpEndpoint:
    address, port = text.split(":")
    return TcpEndpoint(socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16))


@dataclass(frozen=True)
class EnterNamespace:
    """Moves the process that calls it into a namespace; threads and sockets made afterwards are inside."""

    name: str

    def __call__(self) -> None:
        """Move.

        Raises:
            RunError: there is no such namespace.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            descriptor = os.open(_FOLDER / self.name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if libc.setns(descriptor, _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise RunError(f"cannot enter the namespace {self.name}: {error.strerror}") from None


class NamespaceCleaner:
    """Removes namespaces, even if this process is killed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._process = subprocess.Popen(
            ["sh", "-c", _CLEAN_UP, "palmette-cleaner", *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def close(self) -> None:
        """Remove the namespaces now."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.communicate(b"done\n", _TIMEOUT_S)
        remove(self._names)  # nothing is left to do, unless somebody killed the cleaner
        left = [name for name in self._names if (_FOLDER / name).exists()]
        if left:
            raise RunError(f"cannot remove the namespaces {', '.join(left)}; try: ip netns delete {left[0]}")


def remove(names: Sequence[str]) -> None:
    """Remove namespaces and kill the processes in them."""
    here = [name for name in names if (_FOLDER / name).exists()]
    if here:
        run_command("sh", "-c", _REMOVE, "palmette-remove", *here)


def remove_leftovers() -> None:
    """Remove the namespaces of runs whose process is dead."""
    paths = list(_FOLDER.iterdir()) if _FOLDER.is_dir() else []
    found = [match for path in paths if (match := _NAME.fullmatch(path.name))]
    remove([match[0] for match in found if _started(int(match[1])) != int(match[2])])


def _started(pid: int) -> int | None:
    """When a process started, in ticks since boot; None where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])
