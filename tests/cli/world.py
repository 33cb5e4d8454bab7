"""A folder with a cluster, a profile and plans, and a command line that can be called in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from palmette.cli import execute
from tests.plan.problems import profile

CLUSTER = """\
nodes:
  phone:
    tier: device
    memory: 1 GiB
    power: {idle: 2 W, busy: 5 W, exponent: 3}
    source: {samples: 1000, data: digits}
    limits: {cpu: 50%, energy: 2 Wh}
  server: {tier: edge, memory: 8 GiB, power: {idle: 7 W, busy: 22 W}}
  cloud: {tier: cloud, hardware: xeon-gtx-1080-ti}
links:
  - {between: [phone, server], bandwidth: 5 Mbit/s, latency: 2 ms, energy: 90 nJ/bit}
  - {between: [server, cloud], bandwidth: 3 Mbit/s}
sets: {all: [phone, server, cloud]}
"""

LEARNING = """{"format": "palmette.learning/1", "floor": 0.05, "scale": 2.2, "epoch_exponent": 0.6,
"data_exponent": 0.4, "replica_exponent": 0.05}"""

TREE: dict[str, Any] = {
    "format": "palmette.plan/1",
    "model": "tiny",
    "batch": 12,
    "phases": [
        {
            "sources": [
                {"node": "phone", "samples": 8, "into": "front"},
                {"node": "phone", "samples": 4, "into": "whole"},
            ],
            "instances": [
                {"id": "front", "layers": [1, 1], "node": "phone", "cpu_share": 0.5, "into": "back", "codec": "int8"},
                {"id": "back", "layers": [2, 2], "node": "server"},
                {"id": "whole", "layers": [1, 2], "node": "cloud"},
            ],
        }
    ],
}


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it said on stderr, line by line."""
        return self.err.splitlines()


class World:
    """The files, and ``palmette ARGUMENTS`` with them."""

    def __init__(self, folder: Path, capsys: Any) -> None:
        self.folder, self._capsys = folder, capsys
        self.cluster = self.write("cluster.yaml", CLUSTER)
        self.profile = self.write("profile.json", profile().to_json())
        self.tree = self.write("tree.json", json.dumps(TREE))
        self.inputs = ("--profile", str(self.profile), "--cluster", str(self.cluster))

    def write(self, name: str, text: str) -> Path:
        """A file of this name and text."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def palmette(self, *arguments: object) -> Done:
        """Run a command in this process."""
        self._capsys.readouterr()
        code = execute([str(argument) for argument in arguments])
        return Done(code, *self._capsys.readouterr())

    def json(self, *arguments: object) -> Any:
        """Run a command that has to succeed, and read the JSON it prints."""
        done = self.palmette(*arguments, "--json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)

    def refused(self, *arguments: object, code: int = 2) -> list[str]:
        """Run a command that has to be refused; returns its lines on stderr."""
        done = self.palmette(*arguments)
        assert done.code == code, done
        assert done.out == ""
        assert done.lines
        assert all(line.startswith("palmette: ") for line in done.lines)
        return [line.removeprefix("palmette: ") for line in done.lines]
