"""Clusters and plans to try testbeds on, nodes that only send and receive, and files for ``palmette run``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from palmette.cost.evaluate import Evaluator
from palmette.cost.steps import Kind
from palmette.errors import PalmetteError
from palmette.runtime.engines.forkserver import forkserver_context
from palmette.runtime.engines.testbed import Testbed
from palmette.runtime.phase_programs import channels_of, parts_of
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Endpoint, Transport
from palmette.runtime.transports.service import ProcessInitializer
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.models import load_network

PALMETTE = [sys.executable, "-c", "from palmette.cli import main; main()"]


def cluster(*links: tuple[str, str, str], **more: Any) -> Cluster:
    """Nodes in a cluster of these links: two names and a bandwidth each."""
    names = dict.fromkeys(name for a, b, _ in links for name in (a, b))
    nodes = {name: {"tier": "device", "source": {"samples": 10}} for name in names}
    listed = [{"between": [a, b], "bandwidth": bandwidth, **more} for a, b, bandwidth in links]
    return validated(Cluster, {"nodes": nodes, "links": listed}, "cluster")


def evaluator(of: Cluster, layer_s: float = 0.0) -> Evaluator:
    """Prices for two layers that take no time, or so long a sample."""
    times = {"forward_s": [layer_s] * 2, "backward_s": [layer_s] * 2, "update_s": [layer_s] * 2}
    layer = {"parameter_bytes": 4, "output_bytes": 1000}
    fields = {
        "format": "palmette.profile/1",
        "model": "two",
        "input_bytes": 100,
        "layers": [{"name": "one", **layer}, {"name": "two", **layer}],
        "nodes": dict.fromkeys(of.nodes, times),
    }
    return Evaluator(validated(Profile, fields, "profile"), of)


def split(a: str, b: str) -> Plan:
    """Layer 1 on one node, layer 2 on the other: one message each way."""
    phase = {
        "sources": [{"node": a, "samples": 10, "into": "S"}],
        "instances": [{"id": "S", "layers": [1, 1], "node": a, "into": "O"}, {"id": "O", "layers": [2, 2], "node": b}],
    }
    return validated(Plan, {"format": "palmette.plan/1", "model": "two", "batch": 10, "phases": [phase]}, "plan")


def ahead(a: str, b: str, to: str) -> Phase:
    """Samples of one node, sent ahead, and outputs of another, both to the same node."""
    phase = {
        "sources": [{"node": a, "samples": 10, "into": "T"}, {"node": b, "samples": 10, "into": "S"}],
        "instances": [
            {"id": "S", "layers": [1, 1], "node": b, "into": "O"},
            {"id": "T", "layers": [1, 1], "node": to, "into": "O"},
            {"id": "O", "layers": [2, 2], "node": to},
        ],
    }
    return validated(Phase, phase).model_copy(update={"ahead": True})


class Message(NamedTuple):
    """A message to send, so long after all have begun; ``times`` over, one right after the other."""

    channel: Channel
    size_bytes: int
    after_s: float = 0.0
    background: bool = False
    times: int = 1


class Ends:
    """Nodes that stand on a ground and send each other what they are told to."""

    def __init__(self, testbed: Testbed, of: Cluster, phase: Phase) -> None:
        prices = evaluator(of)
        parts = parts_of(phase, prices)
        self._ground = testbed
        self._parts, self.channels = parts, sorted(channels_of(parts).values())
        testbed.open(phase, parts, prices)
        self._processes: list[Any] = []
        self._lines: dict[str, Any] = {}
        for node in phase.nodes():
            self._start(node)
        for line in self._lines.values():
            assert line.recv() == "ready"
        testbed.apply_calibration({})

    def channel_of(self, kind: Kind) -> Channel:
        """The channel of a kind of message."""
        operations = [each for part in self._parts for program in part.programs.values() for each in program.operations]
        return next(each.channel for each in operations if each.what is kind and each.channel is not None)

    @property
    def there(self) -> Channel:
        """The first channel."""
        return self.channels[0]

    @property
    def back(self) -> Channel:
        """The second channel."""
        return self.channels[1]

    def _start(self, node: str) -> None:
        ours, theirs = forkserver_context().Pipe()
        arguments = (self._ground.initializer(node), self._ground.endpoint(node), node, theirs)
        process = forkserver_context().Process(target=_stand, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self._processes.append(process)
        self._lines[node] = ours

    def transfer_s(self, channels: Sequence[Channel], size_bytes: int) -> list[float]:
        """How long messages take that begin together."""
        return self.arrivals_s([Message(channel, size_bytes) for channel in channels])

    def arrivals_s(self, messages: Sequence[Message]) -> list[float]:
        """When messages arrive, the last of each that is sent several times."""
        began_s = time.monotonic() + 0.05
        for node, line in self._lines.items():
            line.send(([message for message in messages if node in message.channel[1:]], began_s))
        ended_s: dict[int, float] = {}
        for line in self._lines.values():
            found = line.recv()
            if isinstance(found, PalmetteError):
                raise found
            ended_s |= found
        return [ended_s[message.channel.number] - began_s for message in messages]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self._ground.close()


@contextmanager
def ends(testbed: Testbed, of: Cluster, a: str, b: str) -> Iterator[Ends]:
    """Two nodes, for as long as they are needed."""
    with standing(testbed, of, split(a, b).phases[0]) as made:
        yield made


@contextmanager
def standing(testbed: Testbed, of: Cluster, phase: Phase) -> Iterator[Ends]:
    """The nodes of a phase, for as long as they are needed."""
    made = None
    try:
        made = Ends(testbed, of, phase)
        yield made
    finally:
        if made is not None:
            made.close()
        testbed.close()


def _stand(initializer: ProcessInitializer | None, endpoint: Endpoint, node: str, line: Connection[Any, Any]) -> None:
    if initializer is not None:
        initializer()
    transport = endpoint.connect(node)
    line.send("ready")
    while True:
        messages, began_s = line.recv()
        with ThreadPoolExecutor() as pool:
            ends_s = list(pool.map(partial(_carried, transport, node, began_s), messages))
        failed = [end for end in ends_s if isinstance(end, PalmetteError)]
        numbers = [message.channel.number for message in messages]
        line.send(failed[0] if failed else {k: end for k, end in zip(numbers, ends_s, strict=True) if end})


def _carried(transport: Transport, node: str, began_s: float, message: Message) -> float | PalmetteError | None:
    """When a message arrived, if this node is where."""
    channel, size_bytes, after_s, background, times = message
    try:
        if channel.receiver == node:
            for _ in range(times):
                transport.receive(channel, None if background else size_bytes)
            return time.monotonic()
        time.sleep(max(0.0, began_s + after_s - time.monotonic()))
        content = torch.zeros(size_bytes, dtype=torch.uint8)
        for _ in range(times):
            transport.send(channel, content, sized=not background, background=background)
    except PalmetteError as error:
        return error
    return None


class Files:
    """A three-node cluster, LeNet-5 and a HierTrain-like plan, as ``palmette run`` takes them."""

    def __init__(self, folder: Path, bandwidth: str) -> None:
        self.folder = folder
        times = {"forward_s": [1e-6] * 7, "backward_s": [1e-6] * 7, "update_s": [1e-6] * 7}
        layers = [
            {"name": layer.name, "parameter_bytes": 4 * sum(w.numel() for w in layer.module.parameters())}
            for layer in load_network("lenet5", seed=0).layers
        ]
        profile = {
            "format": "palmette.profile/1",
            "model": "lenet5",
            "input_bytes": 12288,
            "layers": [{"output_bytes": 4, **layer} for layer in layers],
            "nodes": dict.fromkeys(("phone", "server", "cloud"), times),
        }
        self._write("profile.json", profile)
        nodes = {name: {"tier": "edge"} for name in ("phone", "server", "cloud")}
        nodes["phone"]["source"] = {"samples": 1500}  # type: ignore[assignment]
        links = [{"between": ["phone", "server"], "bandwidth": bandwidth, "latency": "1 ms"}]
        links.append({"between": ["server", "cloud"], "bandwidth": bandwidth})
        self._write("cluster.yaml", {"nodes": nodes, "links": links})
        phase = {
            "sources": [{"node": "phone", "samples": 4, "into": name} for name in ("S", "L")],
            "instances": [
                {"id": "S", "layers": [1, 2], "node": "phone", "into": "O"},
                {"id": "O", "layers": [3, 7], "node": "cloud"},
                {"id": "L", "layers": [1, 7], "node": "server"},
            ],
        }
        self._write("plan.json", {"format": "palmette.plan/1", "model": "lenet5", "batch": 8, "phases": [phase]})

    def _write(self, name: str, fields: Any) -> None:
        (self.folder / name).write_text(json.dumps(fields))

    def arguments(self, out: str, testbed: str, iterations: int) -> list[str]:
        """``run PLAN …``."""
        given = {"--cluster": "cluster.yaml", "--profile": "profile.json", "-o": out}
        files = [word for option, name in given.items() for word in (option, str(self.folder / name))]
        more = ["--testbed", testbed, "--dilation", "1", "--iterations", str(iterations), "--quiet"]
        return ["run", str(self.folder / "plan.json"), *files, *more]

    def start(self, out: str, testbed: str, iterations: int) -> subprocess.Popen[str]:
        """``palmette run`` in a process of its own."""
        words = [*PALMETTE, *self.arguments(out, testbed, iterations)]
        return subprocess.Popen(words, cwd=self.folder, stderr=subprocess.PIPE, text=True)
