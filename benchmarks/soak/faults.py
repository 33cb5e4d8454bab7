"""What may happen to a run: each is given the workers' processes by node, and the cluster file."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

CLUSTER = """\
nodes:
  phone: {tier: device, power: {idle: 2 W, busy: 5 W}, source: {samples: 1500}}
  server: {tier: edge, power: {idle: 7 W, busy: 22 W}}
  cloud: {tier: cloud, power: {idle: 90 W, busy: 300 W}}
links:
  - {between: [phone, server], bandwidth: 200 Mbit/s}
  - {between: [server, cloud], bandwidth: 100 Mbit/s}
"""
WITHOUT_CLOUD = "".join(line for line in CLUSTER.splitlines(keepends=True) if "cloud" not in line)

Fault = Callable[[Mapping[str, int], Path], None]


def _signalled(number: int, *nodes: str) -> Fault:
    def fault(pids: Mapping[str, int], _: Path) -> None:
        for node in nodes:
            if node in pids:
                os.kill(pids[node], number)

    return fault


def _leave_and_come_back(_: Mapping[str, int], cluster: Path) -> None:
    cluster.write_text(WITHOUT_CLOUD)
    time.sleep(3)
    cluster.write_text(CLUSTER)


FAULTS: dict[str, Fault] = {
    "nothing": lambda *_: None,
    "kill the cloud": _signalled(signal.SIGKILL, "cloud"),
    "kill the server": _signalled(signal.SIGKILL, "server"),
    "kill both": _signalled(signal.SIGKILL, "cloud", "server"),
    "freeze the cloud": _signalled(signal.SIGSTOP, "cloud"),
    "freeze the server": _signalled(signal.SIGSTOP, "server"),
    "leave and come back": _leave_and_come_back,
}
