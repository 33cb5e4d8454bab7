"""Processes of a peer: one a node, inside the node's network namespace, talking gloo over its shaped links."""

from __future__ import annotations

import contextlib
import datetime as dt
import multiprocessing
import os
import signal
import socket
import subprocess
import tempfile
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.peers.clocked import replicas
from benchmarks.peers.tasks import (
    Copy,
    Ddp,
    Done,
    Failed,
    Lesson,
    MadeElsewhere,
    Order,
    Pipeline,
    PlainScript,
    Setup,
    Trainer,
    Way,
)
from benchmarks.peers.trainers import DdpTrainer, PipelineTrainer, PlainTrainer, copy_samples
from palmette.cost.evaluate import Evaluator
from palmette.runtime.phase_programs import parts_of
from palmette.runtime.transports.service import ProcessInitializer
from palmette.spec.profile import Times
from palmette.testbed.namespace_network import NamespaceNetwork
from palmette.testbed.namespaces import NamespaceTestbed

START_PATIENCE_S = 120.0
STEP_PATIENCE_S = 600.0
GLOO_PATIENCE = dt.timedelta(minutes=15)


class Crew:
    """The workers of a peer, rank by rank on these nodes. Counts its steps: batch k is that of its k-th step.

    The links are shaped once the workers are connected, as in every run of Palmette.
    """

    def __init__(self, evaluator: Evaluator, nodes: Sequence[str], lesson: Lesson, way: Way, dilation: float) -> None:
        self._processes: list[Any] = []
        self._lines: list[Connection[Any, Any]] = []
        self._nodes, self._dilation = list(nodes), dilation
        self.losses: list[float] = []
        self._folder = tempfile.TemporaryDirectory(prefix="peers-")
        self._ground = NamespaceTestbed(dilation)
        phase = replicas(nodes, [1] * len(nodes), len(evaluator.profile.layers))
        self._network = NamespaceNetwork(
            evaluator.cluster, tuple(phase.nodes()), evaluator.routes
        )  # as the testbed has it
        try:
            self._ground.open(phase, parts_of(phase, evaluator), evaluator)
            for rank, node in enumerate(nodes):
                setup = self._setup(rank, node, lesson, way, evaluator.profile.nodes[node])
                self._start(node, self._ground.initializer(node), setup)
            self._answers(START_PATIENCE_S)
            self._ground.apply_calibration({node: {} for node in nodes})
        except BaseException:
            self.close()
            raise

    def _setup(self, rank: int, node: str, lesson: Lesson, way: Way, times: Times) -> Setup:
        return Setup(
            lesson=lesson,
            way=way,
            rank=rank,
            world=len(self._nodes),
            store=Path(self._folder.name) / "store",
            address=self._network.address(node),
            times=times,
            dilation=self._dilation,
        )

    def _start(self, node: str, initializer: ProcessInitializer | None, setup: Setup) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["palmette.runtime.engines.preload", __name__])
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(initializer, setup, theirs), name=f"peer on {node}", daemon=True)
        process.start()
        theirs.close()
        self._processes.append(process)
        self._lines.append(ours)

    def step(self, split: tuple[int, ...] = (), *, send_data: bool = True) -> float:
        """The emulated seconds of the next step: from the first worker's beginning to the last one's end."""
        done = self._done(Order(len(self.losses), split, send_data))
        self.losses.append(sum(each.loss for each in done))
        return self._emulated_s(done)

    def copy(self, size_bytes: Sequence[int]) -> float:
        """The emulated seconds in which the first node sends each node so many bytes."""
        return self._emulated_s(self._done(Copy(tuple(size_bytes))))

    def _done(self, order: Order | Copy) -> list[Done]:
        for line in self._lines:
            line.send(order)
        return self._answers(STEP_PATIENCE_S)

    def _emulated_s(self, done: Sequence[Done]) -> float:
        return (max(each.ended_s for each in done) - min(each.began_s for each in done)) / self._dilation

    def _answers(self, timeout_s: float) -> list[Any]:
        until, answers = time.monotonic() + timeout_s, []
        for node, line in zip(self._nodes, self._lines, strict=True):
            if not line.poll(max(0.0, until - time.monotonic())):
                raise TimeoutError(f"the peer's worker on {node} has not answered within {timeout_s:g} s")
            try:
                answers.append(line.recv())
            except EOFError:
                raise RuntimeError(f"the peer's worker on {node} is gone") from None
            if isinstance(answers[-1], Failed):
                raise RuntimeError(f"the peer's worker on {node}: {answers[-1].reason}")
        return answers

    def close(self) -> None:
        """End the processes."""
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.send(None)
        for process in self._processes:
            process.join(3.0)
            if process.is_alive():
                process.kill()
                process.join()
        for line in self._lines:
            line.close()
        self._ground.close()
        self._folder.cleanup()


def work(initializer: ProcessInitializer | None, setup: Setup, line: Connection[Any, Any]) -> None:
    """The life of a worker's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends all
    try:
        assert initializer is not None
        initializer()
        os.environ["GLOO_SOCKET_IFNAME"] = interface_with(setup.address)
        torch.set_num_threads(1)
        store = dist.FileStore(str(setup.store), setup.world)
        dist.init_process_group("gloo", store=store, rank=setup.rank, world_size=setup.world, timeout=GLOO_PATIENCE)
        trainer = trainer_of(setup)
        line.send("ready")
        while (order := line.recv()) is not None:
            line.send(copy_samples(setup, order) if isinstance(order, Copy) else trainer.step(order))
    except EOFError:
        os._exit(1)  # whoever started it is gone
    except BaseException:  # noqa: BLE001  (told to the parent, which ends the run)
        line.send(Failed(traceback.format_exc(limit=-4)))
        os._exit(1)
    os._exit(0)  # gloo's threads may still wait


def trainer_of(setup: Setup) -> Trainer:
    """What trains in the worker's way."""
    match setup.way:
        case Ddp():
            return DdpTrainer(setup)
        case Pipeline():
            return PipelineTrainer(setup)
        case PlainScript():
            return PlainTrainer(setup)
        case MadeElsewhere(make):
            return make(setup)


def interface_with(address: str) -> str:
    """An interface of this namespace that has the node's address; gloo takes names of interfaces, not addresses.

    The testbed gives the address to the loopback device, where gloo would find 127.0.0.1 first.
    """
    name = next(name for _, name in socket.if_nameindex() if name.startswith("link"))
    # It fails if another crew was here before.
    subprocess.run(["ip", "address", "add", f"{address}/32", "dev", name], check=False, capture_output=True)
    return name
