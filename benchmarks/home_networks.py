"""Networks of their own for workers at a hub: behind routers that let nothing in, with links of a bandwidth."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

INSIDE, GATEWAY = "192.168.1.2", "192.168.1.1"
_NAMES = re.compile(r"plm(\d+)(?:-\d+[mr]|n)")  # the process that made it, and what it is
_MASQUERADE = """\
table ip nat {
  chain out { type nat hook postrouting priority 100; oifname "public" masquerade; }
}
table ip filter {
  chain pass {
    type filter hook forward priority 0; policy drop;
    iifname "inside" accept
    ct state established,related accept
  }
  chain in {
    type filter hook input priority 0; policy drop;
    iifname "inside" accept
    ct state established,related accept
  }
}
"""


def why_no_networks(*tools: str) -> str | None:
    """What is missing on this machine, None if nothing."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [tool for tool in ("ip", *tools) if shutil.which(tool) is None]
    return f"needs {missing[0]}" if missing else None


def remove_left_networks() -> None:
    """End workers in networks whose tests were killed, and remove those: their addresses would lead nowhere."""
    listed = subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout
    for name in (line.split()[0] for line in listed.splitlines()):
        found = _NAMES.fullmatch(name)
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            _remove(name)


def _remove(name: str) -> None:
    # Another test may do the same at this moment, so that what is there now need not be there next.
    inside = subprocess.run(["ip", "netns", "pids", name], check=False, capture_output=True, text=True).stdout
    for pid in inside.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


class HomeNetwork:
    """A machine behind a router: ``192.168.1.2`` inside, a public address outside, and nobody comes in.

    The machine that runs the tests is ``10.79.N.1`` to it. ``up_mbit`` is the bandwidth towards the hub, ``down_mbit``
    the other way, None for as fast as it goes.
    """

    def __init__(self, number: int, up_mbit: float | None = None, down_mbit: float | None = None) -> None:
        base = f"plm{os.getpid()}-{number}"
        self.machine, self.router, self._cable = f"{base}m", f"{base}r", f"{base}c"[-15:]
        self.hub, self._public = f"10.79.{number}.1", f"10.79.{number}.2"
        self._other, self._rates = f"10.79.{number}.3", (up_mbit, down_mbit)

    def __enter__(self) -> Self:
        remove_left_networks()
        ip("netns", "add", self.machine)
        ip("netns", "add", self.router)
        ip("link", "add", self._cable, "type", "veth", "peer", "name", "public", "netns", self.router)
        ip("link", "add", "inside", "netns", self.router, "type", "veth", "peer", "name", "lan", "netns", self.machine)
        ip("address", "add", f"{self.hub}/24", "dev", self._cable)
        ip("link", "set", self._cable, "up")
        ip("-n", self.router, "address", "add", f"{self._public}/24", "dev", "public")
        ip("-n", self.router, "address", "add", f"{GATEWAY}/24", "dev", "inside")
        ip("-n", self.machine, "address", "add", f"{INSIDE}/24", "dev", "lan")
        for where, device in ((self.router, "public"), (self.router, "inside"), (self.machine, "lan")):
            ip("-n", where, "link", "set", device, "up")
            ip("-n", where, "link", "set", "lo", "up")
        ip("-n", self.machine, "route", "add", "default", "via", GATEWAY)
        self._inside(self.router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        self._inside(self.router, "nft", "-f", "-", given=_MASQUERADE)
        self.shape(*self._rates)
        return self

    def shape(self, up_mbit: float | None, down_mbit: float | None) -> None:
        """Give the public cable other bandwidths; None leaves one as it is."""
        queue = ["root", "tbf", "burst", "16kb", "latency", "200ms", "rate"]
        if up_mbit is not None:
            self._inside(self.router, "tc", "qdisc", "replace", "dev", "public", *queue, f"{up_mbit}mbit")
        if down_mbit is not None:
            words = ["tc", "qdisc", "replace", "dev", self._cable, *queue, f"{down_mbit}mbit"]
            subprocess.run(words, check=True, capture_output=True)

    def _inside(self, where: str, *words: str, given: str | None = None) -> None:
        command = ["ip", "netns", "exec", where, *words]
        subprocess.run(command, check=True, capture_output=True, text=True, input=given)

    def carried_bytes(self) -> int:
        """Bytes that have passed the public cable in either direction, with all headers."""
        folder = Path(f"/sys/class/net/{self._cable}/statistics")
        return sum(int((folder / f"{way}_bytes").read_text()) for way in ("rx", "tx"))

    def pull(self) -> None:
        """Take the public cable out."""
        ip("-n", self.router, "link", "set", "public", "down")

    def plug_in(self) -> None:
        ip("-n", self.router, "link", "set", "public", "up")

    def change_address(self) -> None:
        """The provider gives the router another address; what it knew of connections is gone."""
        # Before the other one is there: with the first address of a network the kernel deletes all others of it.
        ip("-n", self.router, "address", "del", f"{self._public}/24", "dev", "public")
        ip("-n", self.router, "address", "add", f"{self._other}/24", "dev", "public")
        self._public, self._other = self._other, self._public
        self._inside(self.router, "nft", "flush", "ruleset")
        self._inside(self.router, "nft", "-f", "-", given=_MASQUERADE)

    def open(self) -> None:
        """Let the router pass on everything, to show that it is the router that keeps others out."""
        self._inside(self.router, "nft", "flush", "ruleset")

    def lets_in(self, port: int) -> bool:
        """Whether who knows the way to the machine inside, through the router, gets a connection to its port."""
        way = [f"{INSIDE}/32", "via", self._public, "dev", self._cable]
        ip("route", "add", *way)
        try:
            socket.create_connection((INSIDE, port), 1).close()
        except OSError:
            return False
        finally:
            ip("route", "del", *way)
        return True

    def listener(self, port: int) -> subprocess.Popen[bytes]:
        """A process that listens on the machine inside."""
        words = [sys.executable, "-m", "http.server", str(port), "--bind", INSIDE]
        return subprocess.Popen(["ip", "netns", "exec", self.machine, *words], stderr=subprocess.DEVNULL)

    def worker(self, keys: Path, node: str, port: int, *more: str, at: str = "", **environment: str) -> Worker:
        """``palmette worker`` on the machine."""
        words = ["worker", f"{at or self.hub}:{port}", "--keys", str(keys), "--node", node, *more]
        return Worker(["ip", "netns", "exec", self.machine], words, environment)

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "link", "del", self._cable], check=False, capture_output=True)
        for name in (self.machine, self.router):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


class Worker:
    """A process of ``palmette worker`` somewhere."""

    def __init__(self, where: list[str], words: list[str], environment: Mapping[str, str]) -> None:
        command = [*where, sys.executable, "-c", "from palmette.cli import main; main()", *words]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
