"""The testbed for root on Linux: every node in a network namespace, every link a veth pair with a token bucket.

Workers enter their node's namespace, and their TCP connections go over the emulated links. The kernel often
lacks ``netem``, so latency is added at the receiver: a message is held back by the latency of its route, while those
behind it come off the wire (``read_ahead``).

Samples that are sent ahead give way to all else: over gloo on every link, by the mark of their packets (``marking``);
over tls, where all messages of a worker share a connection, at their sender only (``yielding``).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from palmette.cost.evaluate import Evaluator
from palmette.errors import Fault, InputError
from palmette.runtime.engines.service import ServiceProcess
from palmette.runtime.engines.socket_folder import SocketFolder, socket_folder
from palmette.runtime.engines.testbed import Calibrations
from palmette.runtime.phase_programs import PhasePart, background_channels, channels_of
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Endpoint, Transport
from palmette.runtime.transports.rendezvous import FileRendezvous, Rendezvous, Site
from palmette.runtime.transports.service import ProcessInitializer
from palmette.runtime.worker.cpu_queue import sleep_until
from palmette.runtime.worker.executor import Pace
from palmette.spec.plan import Phase, Plan
from palmette.testbed import iproute
from palmette.testbed.jitter import Jitter
from palmette.testbed.namespace_network import NamespaceNetwork
from palmette.testbed.padding import Padding, TransferOverhead
from palmette.testbed.read_ahead import ReadAhead
from palmette.testbed.replay import Replay, traces_of

# A message passes the queues of every link, and wakes a thread that holds it back.
OVERHEAD = TransferOverhead(0.0016, max_dilation=6.0)


@dataclass(frozen=True)
class DelayedEndpoint:
    """A place whose incoming messages are delayed; ``dilation`` is a file that holds the factor on latencies."""

    endpoint: Endpoint
    latencies_s: Mapping[str, float]
    jitters_s: Mapping[str, tuple[float, ...]]
    dilation: Path

    def connect(self, node: str) -> Transport:
        """Connect, and hold back what arrives."""
        return DelayedTransport(self.endpoint.connect(node), self.latencies_s, self.jitters_s, self.dilation)


class DelayedTransport:
    """A transport whose messages arrive a latency later; the dilation may change during a run."""

    def __init__(
        self,
        inner: Transport,
        latencies_s: Mapping[str, float],
        jitters_s: Mapping[str, tuple[float, ...]],
        dilation: Path,
    ) -> None:
        self._inner, self._incoming = inner, ReadAhead(inner)
        self._latencies_s, self._jitters_s, self._file = latencies_s, jitters_s, dilation
        self._delays: dict[int, Jitter] = {}

    def send(self, channel: Channel, message: Tensor, *, sized: bool = True, background: bool = False) -> None:
        """Send the bytes."""
        self._inner.send(channel, message, sized=sized, background=background)

    def receive(self, channel: Channel, size_bytes: int | None) -> Tensor:
        """Wait for the bytes, and for the latency of their route."""
        message, arrived_s = self._incoming.receive(channel, size_bytes)
        dilation = float(self._file.read_text(encoding="ascii"))
        sleep_until(arrived_s + (self._latencies_s[channel.sender] + self._jitter_s(channel)) * dilation)
        return message

    def _jitter_s(self, channel: Channel) -> float:
        if channel.number not in self._delays:
            self._delays[channel.number] = Jitter(self._jitters_s[channel.sender], channel.number)
        return self._delays[channel.number].next_s()

    def close(self) -> None:
        """Close what is underneath."""
        self._incoming.close()


class NamespaceTestbed:
    """Pads calls to their times in the profile and gives every node a network namespace with shaped links.

    Raises:
        InputError: namespaces cannot be made on this machine.
    """

    name = "namespaces"
    emulates = True

    def __init__(self, fixed_dilation: float | None = None, rendezvous: Rendezvous | None = None) -> None:
        self._rendezvous = rendezvous or FileRendezvous()
        iproute.require_namespaces()
        self.dilation = fixed_dilation or 1.0
        self._fixed = fixed_dilation
        self._folder: SocketFolder | None = None
        self._cleaner: iproute.NamespaceCleaner | None = None
        self._replay = Replay({})
        self.moment_s = 0.0
        self._shaping = threading.Lock()
        self._ended: threading.Event | None = None

    def open(self, phase: Phase, parts: Sequence[PhasePart], evaluator: Evaluator) -> None:
        """Make the namespaces and their links, as fast as they can be."""
        self._padding = Padding(parts, evaluator, self._fixed, OVERHEAD)
        self._hosts = tuple(phase.nodes())
        self._parts, self._channels = parts, tuple(channels_of(parts).values())
        self._replay = Replay(traces_of(evaluator.cluster), self.moment_s)
        self._network = NamespaceNetwork(evaluator.cluster, self._hosts, evaluator.routes, self._replay)
        iproute.remove_leftovers()
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        network = self._network
        self._folder = socket_folder()
        self._names = dict(zip(network.nodes, iproute.new_names(len(network.nodes)), strict=True))
        self._cleaner = iproute.NamespaceCleaner(list(self._names.values()))
        for node, name in self._names.items():
            iproute.create_namespace(name, network.send_buffer_bytes(node))
        pairs = []
        for link in network.links:
            one, other = (f"{link.device} netns {self._names[end]}" for end in link.ends)
            pairs.append(f"link add {one} type veth peer name {other}")
        iproute.run_command("ip", "-batch", "-", lines=pairs)
        for node, name in self._names.items():
            iproute.run_command("ip", "-n", name, "-batch", "-", lines=network.address_commands(node))
        self._rendezvous.open(
            Site(
                folder=Path(self._folder.name),
                nodes=self._hosts,
                parts=self._parts,
                addresses={node: network.address(node) for node in self._hosts},
                serve=lambda node, service: ServiceProcess(service, self.initializer(node)),
                apart=True,
                networked=True,
            )
        )

    def endpoint(self, node: str) -> Endpoint:
        """In the node's namespace, behind the latencies of its routes."""
        assert self._folder is not None, "open() comes first"
        senders = {channel.sender for channel in self._channels if channel.receiver == node}
        latencies_s = {sender: self._network.latency_s(sender, node) for sender in senders}
        jitters_s = {sender: self._network.jitters_s(sender, node) for sender in senders}
        dilation = Path(self._folder.name) / "dilation"
        return DelayedEndpoint(self._rendezvous.endpoint(node), latencies_s, jitters_s, dilation)

    def initializer(self, node: str) -> ProcessInitializer | None:
        """Into the node's namespace."""
        return iproute.EnterNamespace(self._names[node])

    def apply_calibration(self, calibrated: Calibrations) -> dict[str, dict[int, Pace]]:
        """Choose the dilation, make the links as slow as it says, and give every call its time."""
        self.dilation, paces = self._padding.apply_calibration(calibrated)
        self._write_dilation()
        flows = [flow for host in self._hosts for flow in iproute.established_flows(self._names[host])]
        background = bool(background_channels(self._parts))
        self._call_tc(lambda node: self._network.shaping_commands(node, self.dilation, flows, background=background))
        self._replay.begin(time.monotonic(), self.dilation)
        self._ended = threading.Event()
        threading.Thread(target=self._follow_traces, args=(self._ended,), daemon=True).start()
        return paces

    def _follow_traces(self, ended: threading.Event) -> None:
        """Change the rates of links when their traces say so, until the testbed is closed."""
        while (next_s := self._replay.next_s) < float("inf"):
            if ended.wait(max(0.0, next_s - time.monotonic())):
                return
            with self._shaping:
                if ended.is_set() or self._replay.next_s > time.monotonic():
                    continue  # time was stretched meanwhile
                link = self._network.change(*self._replay.take())
                for node in link.ends if link is not None else ():
                    lines = self._network.rate_commands(node, self.dilation, link)
                    iproute.run_command("tc", "-n", self._names[node], "-batch", "-", lines=lines)

    def increase_dilation(self, by: float) -> dict[str, dict[int, Pace]] | None:
        """Increase the dilation of links and calls."""
        wider = self._padding.increased(self.dilation, by)
        if wider is None:
            return None
        with self._shaping:
            self.dilation = wider
            self._write_dilation()
            self._call_tc(lambda node: self._network.rate_commands(node, self.dilation))
            self._replay.begin(time.monotonic(), wider)
        return self._padding.paces(wider)

    def _write_dilation(self) -> None:
        """Make latencies as long as the dilation says."""
        assert self._folder is not None, "open() comes first"
        draft = Path(self._folder.name) / "dilation.new"
        draft.write_text(repr(self.dilation), encoding="ascii")
        draft.replace(Path(self._folder.name) / "dilation")

    def _call_tc(self, lines: Callable[[str], list[str]]) -> None:
        """Call ``tc`` with the lines for each node in its namespace."""
        for node, name in self._names.items():
            iproute.run_command("tc", "-n", name, "-batch", "-", lines=lines(node))

    def close(self) -> None:
        """End the rendezvous, and remove the namespaces and the folder."""
        self._rendezvous.close()
        if self._ended is not None:
            with self._shaping:
                self._ended.set()
            self.moment_s += self._replay.passed_s(time.monotonic())
            self._ended = None
        if self._cleaner is not None:
            self._cleaner.close()
            self._cleaner = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def namespace_testbed(
    fixed_dilation: float | None, rendezvous: Rendezvous, plan: Plan, evaluator: Evaluator
) -> NamespaceTestbed:
    """The testbed for a plan.

    Raises:
        InputError: namespaces cannot be made on this machine, or not for this plan.
    """
    testbed = NamespaceTestbed(fixed_dilation, rendezvous)
    refuse_half_duplex(plan, evaluator)
    return testbed


def refuse_half_duplex(plan: Plan, evaluator: Evaluator) -> None:
    """Refuse a plan that uses links whose two directions share their bandwidth: two token buckets cannot.

    Raises:
        InputError: names them.
    """
    pairs = {pair for phase in plan.phases for pair in itertools.combinations(phase.nodes(), 2)}
    routes = [route for pair in pairs if (route := evaluator.routes.between(*pair)) is not None]
    used = {resource // 2 for route in routes for resource in route.resources}
    expected = "the testbed namespaces has no half-duplex links; expected full, or --testbed paced"
    wrong = [
        Fault(f"links[{k}].duplex", f"half ({' – '.join(link.between)})", expected)
        for k, link in enumerate(evaluator.cluster.links)
        if k in used and link.duplex == "half"
    ]
    if wrong:
        raise InputError(wrong)
