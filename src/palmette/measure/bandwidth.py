"""Measures the bandwidth between two nodes: bytes go there and come back over the run's own transport.

    device  ▐── bytes ──▶▐                the clock runs on the device
    other                ▐── bytes ──▶▐   from the first byte out to the last one back

A few bytes give the latency; then more and more are sent until a round trip takes long enough, and one with many bytes
there and few back tells the directions apart. The testbed (this machine's loopback, paced or namespaced links) is that
of the run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any, NamedTuple

import torch

from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.errors import RunError
from palmette.runtime.engines.forkserver import forkserver_context
from palmette.runtime.engines.probes import MOST_TRANSFERRED_BYTES, TimeTransfer
from palmette.runtime.engines.testbed import Testbed
from palmette.runtime.phase_programs import parts_of
from palmette.runtime.transports.base import Endpoint, Transport
from palmette.runtime.transports.service import ProcessInitializer
from palmette.spec.cluster import Cluster, Source
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Layer, Profile, Times
from palmette.spec.tree import Feed, Instance

FIRST_BYTES, GROWTH = 1 << 16, 16
LONG_ENOUGH_S = 0.2
FEW_BYTES = 64
ROUND_TRIPS = 3
_TIMEOUT_S = 120.0

TestbedFor = Callable[[Plan, Evaluator], Testbed]
RunTransfer = Callable[["TransferEnd", "TransferEnd"], float]


class MeasuredLink(NamedTuple):
    """Bits per second from one node to another and back, and the seconds that even the shortest message takes."""

    up_bps: float
    down_bps: float
    latency_s: float

    @property
    def bandwidth_bps(self) -> float:
        """That of as many bytes there as back."""
        return 2 / (1 / self.up_bps + 1 / self.down_bps)

    @property
    def reversed(self) -> MeasuredLink:
        """The same, seen from the other node."""
        return MeasuredLink(self.down_bps, self.up_bps, self.latency_s)


def measured_link(round_trip_s: Callable[[int, int], float], most_bytes: int = MOST_TRANSFERRED_BYTES) -> MeasuredLink:
    """Both directions of a path by the seconds of round trips with so many bytes there, and so many back."""
    short_s, size = round_trip_s(FEW_BYTES, FEW_BYTES), FIRST_BYTES
    both_s = round_trip_s(size, size)
    while both_s < LONG_ENOUGH_S and size < most_bytes:
        size = min(most_bytes, size * GROWTH)
        both_s = round_trip_s(size, size)
    there_s = round_trip_s(size, FEW_BYTES)
    bits = 8 * (size - FEW_BYTES)
    return MeasuredLink(bits / _positive_s(there_s - short_s), bits / _positive_s(both_s - there_s), short_s / 2)


def _positive_s(seconds: float) -> float:
    return max(seconds, 1e-9)


def measure_bandwidth(
    device: str, other: str, cluster: Cluster, testbed_for: TestbedFor, run_transfer: RunTransfer | None = None
) -> MeasuredLink:
    """Measure the path between two nodes; ``run_transfer`` runs both ends, by default in processes of this machine.

    Raises:
        RunError: nothing came through.
    """
    return measured_link(
        lambda there, back: _round_trip_s((device, other), (there, back), cluster, testbed_for, run_transfer)
    )


def _round_trip_s(
    pair: tuple[str, str],
    sizes: tuple[int, int],
    cluster: Cluster,
    testbed_for: TestbedFor,
    run_transfer: RunTransfer | None,
) -> float:
    """The fastest of a few round trips of so many bytes: a busy machine only ever adds to it."""
    device, other = pair
    phase, prices = _probe_plan(device, other, max(sizes), cluster)
    plan = Plan(model="probe", batch=1, phases=(phase,))
    testbed = testbed_for(plan, prices)
    parts = parts_of(phase, prices)
    channels = {channel.sender: channel for part in parts for channel in part.programs[device].channels}
    testbed.open(phase, parts, prices)
    try:
        request = TimeTransfer(channels=(channels[device], channels[other]), sizes=sizes)
        ends = [TransferEnd(node, testbed.initializer(node), testbed.endpoint(node), request) for node in pair]
        return run_transfer(ends[0], ends[1]) if run_transfer else transfer_in_processes(ends[0], ends[1], testbed)
    finally:
        testbed.close()


def _probe_plan(device: str, other: str, size: int, cluster: Cluster) -> tuple[Phase, Evaluator]:
    """A network of one layer with so many bytes of weights, with the parameter server on ``other``."""
    none = Times(forward_s=(0.0,), backward_s=(0.0,), update_s=(0.0,))
    layer = Layer(name="probe", parameter_bytes=float(size), output_bytes=4.0)
    profile = Profile(model="probe", input_bytes=4.0, layers=(layer,), nodes={device: none, other: none})
    owner = cluster.nodes[device].model_copy(update={"source": Source(samples=1)})
    owned = cluster.model_copy(update={"nodes": {**cluster.nodes, device: owner}})
    phase = Phase(
        sync="async",
        server=other,
        sources=(Feed(node=device, samples=1, into="probe"),),
        instances=(Instance(id="probe", layers=(1, 1), node=device),),
    )
    return phase, evaluator(profile, owned)


def transfer_in_processes(one: TransferEnd, two: TransferEnd, testbed: Testbed) -> float:
    """The fastest round trip of two ends in processes of this machine.

    Raises:
        RunError: nothing came through.
    """
    context = forkserver_context()
    workers: list[Any] = []
    lines: list[Connection[Any, Any]] = []
    try:
        for end in (one, two):
            ours, theirs = context.Pipe()
            workers.append(context.Process(target=_serve_end, args=(end, theirs), daemon=True))
            workers[-1].start()
            theirs.close()
            lines.append(ours)
        for line in lines:
            _receive(line, one, two)  # it is ready
        if testbed.emulates:
            testbed.apply_calibration({})
        for line in lines:
            line.send("go")
        return _receive(lines[0], one, two)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
        for line in lines:
            line.close()


def _receive(line: Connection[Any, Any], one: TransferEnd, two: TransferEnd) -> float:
    """The next message of an end.

    Raises:
        RunError: there is none.
    """
    try:
        if line.poll(_TIMEOUT_S):
            seconds: float = line.recv()
            return seconds
    except (EOFError, OSError):
        raise RunError(f"the transfer between {one.node} and {two.node} failed") from None
    raise RunError(f"no answer between {one.node} and {two.node} within {_TIMEOUT_S:g} s")


@dataclass(frozen=True)
class TransferEnd:
    """One end of a transfer: how it gets to its place, and what to send."""

    node: str
    initializer: ProcessInitializer | None
    endpoint: Endpoint
    request: TimeTransfer


def _serve_end(end: TransferEnd, line: Connection[Any, Any]) -> None:
    """One end in its process: it reports that it is ready, waits for the start, and reports its fastest round trip.

    It does not exit by itself: what it sent last may still be on its way.
    """
    if end.initializer is not None:
        end.initializer()
    torch.set_num_threads(1)
    transport = end.endpoint.connect(end.node)
    line.send(0.0)
    line.recv()
    line.send(_fastest_s(end.node, end.request, transport))
    threading.Event().wait()


def fastest_round_trip_s(node: str, request: TimeTransfer, endpoint: Endpoint) -> float:
    """Make a few round trips as one of the two nodes; the sender of the first channel begins.

    The transport is not closed: what was sent last may still be on its way. It ends with the relay, or the process.
    """
    return _fastest_s(node, request, endpoint.connect(node))


def _fastest_s(node: str, request: TimeTransfer, transport: Transport) -> float:
    (there, back), (out_bytes, back_bytes) = request.channels, request.sizes
    times_s = []
    for _ in range(ROUND_TRIPS):
        began_s = monotonic()
        if there.sender == node:
            transport.send(there, torch.zeros(out_bytes, dtype=torch.uint8))
            transport.receive(back, back_bytes)
        else:
            transport.receive(there, out_bytes)
            transport.send(back, torch.zeros(back_bytes, dtype=torch.uint8))
        times_s.append(monotonic() - began_s)
    return min(times_s)
