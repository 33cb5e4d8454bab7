"""What may happen to a run: each is given the scene, with the workers' processes and namespaces, if there are any."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.home_networks import HomeNetwork
from palmette.runtime.transports.keys.folder import Keys
from palmette.testbed.namespace_network import shaping_rules

CLUSTER = """\
nodes:
  phone: {tier: device, threads: 1, power: {idle: 2 W, busy: 5 W}, source: {samples: 1500}}
  server: {tier: edge, threads: 1, power: {idle: 7 W, busy: 22 W}}
  cloud: {tier: cloud, threads: 1, power: {idle: 90 W, busy: 300 W}}
links:
  - {between: [phone, server], bandwidth: 200 Mbit/s}
  - {between: [server, cloud], bandwidth: 100 Mbit/s}
"""
WITHOUT_CLOUD = "".join(line for line in CLUSTER.splitlines(keepends=True) if "cloud" not in line)
HALF_BPS = 50e6

GARBAGE = """
import os, socket, sys
for port in map(int, sys.argv[2:]):
    for words in (b"", b"GET / HTTP/1.1\\r\\n\\r\\n", os.urandom(20_000), b"\\x80\\x05pickle" * 500):
        try:
            with socket.create_connection((sys.argv[1], port), timeout=5) as line:
                line.sendall(words)
        except OSError:
            pass
"""


@dataclass(frozen=True)
class Scene:
    """A run to which something may happen: workers' processes, the cluster file, namespaces and where it writes.

    At a hub, ``networks`` are those of its workers, if each has one, and ``keys`` those of the hub.
    """

    pids: Mapping[str, int]
    cluster: Path
    spaces: Mapping[str, str]
    folder: Path
    networks: Mapping[str, HomeNetwork] = field(default_factory=dict)
    keys: Keys | None = None


Fault = Callable[[Scene], None]


def _signalled(number: int, *nodes: str) -> Fault:
    def fault(scene: Scene) -> None:
        for node in nodes:
            if node in scene.pids:
                os.kill(scene.pids[node], number)

    return fault


def _leave_and_come_back(scene: Scene) -> None:
    scene.cluster.write_text(WITHOUT_CLOUD)
    time.sleep(3)
    scene.cluster.write_text(CLUSTER)


def _cut(scene: Scene) -> None:
    """Take the cloud's cable away; it has one."""
    subprocess.run(["ip", "-n", scene.spaces["cloud"], "link", "set", "link1", "down"], check=True)


def _halve(scene: Scene) -> None:
    """Let the link between server and cloud become half as fast, both ways."""
    (slow,) = (line for line in shaping_rules("link1", HALF_BPS, ()) if "tbf" in line)
    for node in ("server", "cloud"):
        words = slow.replace("qdisc add", "qdisc change").split()
        subprocess.run(["tc", "-n", scene.spaces[node], *words], check=True)


def _garbage(scene: Scene) -> None:
    """Let a stranger speak to every port that is open in a namespace, from another one."""
    for node, space in scene.spaces.items():
        table = subprocess.run(
            ["ip", "netns", "exec", space, "cat", "/proc/net/tcp"], check=True, capture_output=True, text=True
        ).stdout
        rows = [line.split() for line in table.splitlines()[1:]]
        other = next(each for name, each in scene.spaces.items() if name != node)
        for address, port in (row[1].split(":") for row in rows if row[3] == "0A"):
            host = socket.inet_ntoa(bytes.fromhex(address)[::-1])
            command = ["ip", "netns", "exec", other, sys.executable, "-c", GARBAGE, host, str(int(port, 16))]
            subprocess.run(command, check=True)


def _fill(scene: Scene) -> None:
    """Fill the disk on which the run writes; it has one of its own."""
    with (scene.folder / "filler").open("wb") as file:
        try:
            while True:
                file.write(bytes(2**16))
                file.flush()
        except OSError:
            pass


def _revoke(scene: Scene) -> None:
    """Take the cloud's certificate back; it is out within seconds."""
    assert scene.keys is not None, "only at a hub"
    scene.keys.revoke("cloud")


ANYWHERE: dict[str, Fault] = {
    "nothing": lambda _: None,
    "kill the cloud": _signalled(signal.SIGKILL, "cloud"),
    "kill the server": _signalled(signal.SIGKILL, "server"),
    "kill both": _signalled(signal.SIGKILL, "cloud", "server"),
    "freeze the cloud": _signalled(signal.SIGSTOP, "cloud"),
    "freeze the server": _signalled(signal.SIGSTOP, "server"),
    "leave and come back": _leave_and_come_back,
}
# These want network namespaces, and a disk that may be filled.
IN_NAMESPACES: dict[str, Fault] = {
    "cut the cloud off": _cut,
    "halve a link": _halve,
    "fill the disk": _fill,
}
AT_HUB: dict[str, Fault] = {
    **{name: ANYWHERE[name] for name in ("nothing", "kill the cloud", "freeze the cloud", "leave and come back")},
    "revoke the cloud": _revoke,
}
# These want a router in front of each worker.
BEHIND_NAT: dict[str, Fault] = {
    "pull the cloud's cable": lambda scene: scene.networks["cloud"].pull(),
    "change the server's address": lambda scene: scene.networks["server"].change_address(),
}
# This wants a transport that lets nobody else in.
LOCKED: dict[str, Fault] = {"a stranger with garbage": _garbage}
