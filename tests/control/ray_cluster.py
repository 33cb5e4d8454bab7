"""A real Ray cluster: hosts in network namespaces behind a router, with token authentication and TLS."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from palmette.runtime.engines.ray.library import environment
from palmette.runtime.transports.keys.folder import Keys
from tests.runtime.world import ROOT

HOSTS = ("server", "phone", "cloud")  # the first is the head
LATE = "hut"  # a host that may join later
PORT = 6379
WORKER = "ray::WorkerActor"
# The head misses a silent host after ten seconds instead of a minute, long after Palmette has missed its worker.
HEALTH_CHECKS = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
}
PALMETTE = [sys.executable, "-c", "from palmette.cli import main; main()"]

UNTIL_GONE = """
import sys, time
from palmette.runtime.engines.ray.hosts import connected

ray = connected()
while any(host["Alive"] and sys.argv[1] in host["Resources"] for host in ray.nodes()):
    time.sleep(0.5)
"""


class RayCluster:
    """Three hosts that stand for nodes, one that may join, a router between them, and a stranger's host beside them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="plm-", dir="/tmp"))  # Ray's sockets want a short path
        self._names = {host: f"plm-{os.getpid()}-{host}" for host in ("router", *HOSTS, LATE, "stranger")}
        self.addresses = {host: f"10.78.{k}.2" for k, host in enumerate((*HOSTS, LATE, "stranger"))}
        self.keys = Keys(self.folder / "keys")
        self.token = self.folder / "token"
        self._lost: set[str] = set()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        """Wire the hosts, make keys and a token, and start Ray everywhere."""
        self._wire()
        self._disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512m", "plm", str(self._disk)], check=True)
        self.keys.init()
        for host in (*HOSTS, LATE):
            self.keys.issue(host, addresses=[self.addresses[host], "127.0.0.1"])
        self.token.write_text(secrets.token_hex(32))
        self.token.chmod(0o600)
        head = ["start", "--head", "--port", str(PORT), "--include-dashboard=false", "--disable-usage-stats"]
        head += ["--node-ip-address", self.addresses["server"], "--resources", json.dumps({"server": 1})]
        ray = [sys.executable, "-m", "ray.scripts.scripts", *head, "--temp-dir", str(self._disk)]
        subprocess.run(self._inside("server", ray), env=self.environment("server"), check=True, capture_output=True)
        for host in HOSTS[1:]:  # one after the other, as they share this machine's folder for Ray
            self.join(host)

    def cut(self, host: str) -> None:
        """Take the cable of a host away."""
        self._lost.add(host)
        _ip("-n", self._names["router"], "link", "set", self._device(host), "down")

    def signal(self, host: str, number: int, words: str = "") -> None:
        """Send a signal to the processes of a host whose command line has these words."""
        pids = self.pids(host, words)
        assert pids, self.commands(host)
        if words != WORKER:
            self._lost.add(host)
        for pid in pids:
            os.kill(pid, number)

    def mend(self, host: str) -> None:
        """Let a host be as before: a lost one is renewed, on another only workers are ended that are left."""
        if host in self._lost:
            self._renew(host)
        for pid in self.pids(host, WORKER):
            os.kill(pid, signal.SIGKILL)

    def _renew(self, host: str) -> None:
        """End all that is left on a host, and let it come back once Ray knows that it had left."""
        self.leave(host)
        waiting = self._inside("server", [sys.executable, "-c", UNTIL_GONE, host])
        subprocess.run(waiting, env=self.environment("server"), cwd=ROOT, check=True, capture_output=True, timeout=90)
        self.come_back(host)

    def come_back(self, host: str) -> None:
        """Mend a host's cable, and let it join again."""
        router = self._names["router"]
        _ip("-n", router, "link", "set", self._device(host), "up")
        # What was asked for in vain while the cable was away is remembered as unreachable for some seconds.
        for name in (router, self._names[host]):
            _ip("-n", name, "neighbour", "flush", "all")
        self.join(host)

    def leave(self, host: str) -> None:
        """End all that is left on a host."""
        self._lost.add(host)
        for pid in self.pids(host):
            os.kill(pid, signal.SIGKILL)

    def join(self, host: str) -> None:
        """Let a host join, as people would."""
        given = ["--token", str(self.token), "--keys", str(self.keys.folder)]
        head = f"{self.addresses['server']}:{PORT}"
        done = self.palmette("cluster", "join", head, "--node", host, *given, on=host)
        assert (done.returncode, done.stderr) == (0, ""), done
        self._lost.discard(host)

    @property
    def _disk(self) -> Path:
        return self.folder / "ray"

    def _device(self, host: str) -> str:
        return f"to{list(self.addresses).index(host)}"

    def palmette(
        self, *words: str, on: str = "server", extra: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """``palmette WORDS`` on a host."""
        env = self.environment(on) | (extra or {})
        command = self._inside(on, [*PALMETTE, *words])
        return subprocess.run(command, env=env, cwd=ROOT, check=False, capture_output=True, text=True, timeout=200)

    def python(self, script: str, *given: str) -> None:
        """Run a script on the head."""
        command = self._inside("server", [sys.executable, "-c", script, *given])
        subprocess.run(command, env=self.environment("server"), cwd=ROOT, check=True, capture_output=True, timeout=200)

    def begin(self, *words: str, on: str = "server") -> subprocess.Popen[str]:
        """The same, without waiting for its end."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = self._inside(on, [*PALMETTE, *words])
        return subprocess.Popen(command, env=self.environment(on), cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]

    def environment(self, host: str) -> dict[str, str]:
        """What Ray and palmette find in a host's environment."""
        nodes = self.keys.folder / "nodes"
        settings = (
            environment()
            | HEALTH_CHECKS
            | {
                "RAY_AUTH_MODE": "token",
                "RAY_AUTH_TOKEN_PATH": str(self.token),
                "RAY_USE_TLS": "1",
                "RAY_TLS_SERVER_CERT": str(nodes / f"{host}.crt"),
                "RAY_TLS_SERVER_KEY": str(nodes / f"{host}.key"),
                "RAY_TLS_CA_CERT": str(self.keys.folder / "authority.crt"),
                "RAY_ADDRESS": f"{self.addresses['server']}:{PORT}",
                "OMP_NUM_THREADS": "1",
            }
        )
        path = [str(ROOT / "src"), str(ROOT), *filter(None, [settings.get("PYTHONPATH")])]
        return settings | {"PYTHONPATH": os.pathsep.join(path)}

    def pids(self, host: str, words: str = "") -> list[int]:
        """The processes of a host whose command line has these words."""
        found = subprocess.run(["ip", "netns", "pids", self._names[host]], check=True, capture_output=True, text=True)
        return [pid for pid in map(int, found.stdout.split()) if words in _command(pid)]

    def commands(self, host: str) -> list[str]:
        """The command lines of a host's processes."""
        return [_command(pid)[:60] for pid in self.pids(host)]

    def listening(self, host: str) -> list[int]:
        """The TCP ports that are open on a host."""
        table = subprocess.run(
            self._inside(host, ["cat", "/proc/net/tcp", "/proc/net/tcp6"]), check=True, capture_output=True, text=True
        ).stdout
        rows = [line.split() for line in table.splitlines()]
        return sorted({int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"})

    def stranger(self, script: str, *given: str) -> subprocess.CompletedProcess[str]:
        """What a script says that somebody runs who is on the network and has no keys."""
        command = self._inside("stranger", [sys.executable, "-c", script, *given])
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    def close(self) -> None:
        """End all processes on the hosts, and the hosts."""
        for host, name in self._names.items():
            if Path("/var/run/netns", name).exists():
                for pid in self.pids(host):
                    os.kill(pid, signal.SIGKILL)
                subprocess.run(["ip", "netns", "delete", name], check=True)
        if self._disk.is_mount():
            subprocess.run(["umount", "--lazy", str(self._disk)], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _inside(self, host: str, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._names[host], *command]

    def _wire(self) -> None:
        for name in self._names.values():
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        router = self._names["router"]
        subprocess.run(self._inside("router", ["sysctl", "-qw", "net.ipv4.ip_forward=1"]), check=True)
        for k, (host, address) in enumerate(self.addresses.items()):
            name, device = self._names[host], f"to{k}"
            _ip("link", "add", device, "netns", router, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", router, "address", "add", f"10.78.{k}.1/24", "dev", device)
            _ip("-n", router, "link", "set", device, "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "route", "add", "default", "via", f"10.78.{k}.1")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""
