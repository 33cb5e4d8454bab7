"""The testbed that needs no privileges: bytes travel over loopback, and arrive when the emulated links say so."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from torch import Tensor

from palmette.cost.evaluate import Evaluator
from palmette.errors import RunError
from palmette.runtime.engines.socket_folder import SocketFolder, socket_folder
from palmette.runtime.engines.testbed import Calibrations, on_loopback
from palmette.runtime.phase_programs import PhasePart, background_channels
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Arrival, Endpoint, Transport
from palmette.runtime.transports.rendezvous import FileRendezvous, Rendezvous
from palmette.runtime.transports.service import ProcessInitializer
from palmette.runtime.worker.cpu_queue import sleep_until
from palmette.runtime.worker.executor import Pace
from palmette.spec.plan import Phase
from palmette.testbed.link_emulator import ChannelRoute, LinkClient, LinkEmulator, LinkTraces
from palmette.testbed.padding import Padding, TransferOverhead
from palmette.testbed.read_ahead import ReadAhead
from palmette.testbed.replay import traces_of

OVERHEAD = TransferOverhead(0.0008, max_dilation=3.0)


@dataclass(frozen=True)
class PacedEndpoint:
    """A place on loopback, and the address of the emulated links."""

    endpoint: Endpoint
    links: str

    def connect(self, node: str) -> Transport:
        """Connect, and hold back what arrives until the links let it through."""
        return PacedTransport(self.endpoint.connect(node), LinkClient(self.links, node))


class PacedTransport:
    """A transport whose messages take the time of the emulated links."""

    def __init__(self, inner: Transport, links: LinkClient) -> None:
        self._inner, self._incoming, self._links = inner, ReadAhead(inner), links
        self._arrivals: dict[int, SimpleQueue[float | None]] = {}
        self._gone = False
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, channel: Channel, message: Tensor, *, sized: bool = True, background: bool = False) -> None:
        """Send bytes that leave now; returns when they would have arrived.

        Raises:
            RunError: the emulated links are gone.
        """
        self.send_due(channel, message, time.monotonic(), sized=sized, background=background)

    def send_due(
        self,
        channel: Channel,
        message: Tensor,
        due_s: float,
        *,
        sized: bool = True,
        background: bool = False,
        until_left: bool = False,
    ) -> float:
        """Announce the transfer, which was due to begin at a moment, and send the bytes; returns when they arrive.

        A message in the background, or one that is followed by another, has left then; nobody waits here for its
        arrival.

        Raises:
            RunError: the emulated links are gone.
        """
        try:
            self._links.begin(channel.number, message.numel() * message.element_size(), due_s)
        except OSError:
            raise _gone() from None
        self._inner.send(channel, message, sized=sized)  # the emulated links let background messages give way
        return self._arrival_s(channel) if background or until_left else self._await(channel)

    def receive(self, channel: Channel, size_bytes: int | None) -> Tensor:
        """Wait for the bytes, and for the moment at which they would have arrived.

        Raises:
            RunError: the emulated links are gone.
        """
        return self.receive_due(channel, size_bytes).message

    def receive_due(self, channel: Channel, size_bytes: int | None) -> Arrival:
        """The same, with that moment."""
        message, _ = self._incoming.receive(channel, size_bytes)
        return Arrival(message, self._await(channel))

    def close(self) -> None:
        """Close what is underneath."""
        self._incoming.close()

    def _await(self, channel: Channel) -> float:
        arrived_s = self._arrival_s(channel)
        sleep_until(arrived_s)
        return arrived_s

    def _arrival_s(self, channel: Channel) -> float:
        """When a transfer arrives; known once its last bit has left."""
        arrived_s = None if self._gone else self._queue(channel.number).get()
        if arrived_s is None:
            raise _gone()
        return arrived_s

    def _queue(self, number: int) -> SimpleQueue[float | None]:
        return self._arrivals.setdefault(number, SimpleQueue())

    def _listen(self) -> None:
        while not self._gone:
            try:
                channel, arrived_s = self._links.arrives()
                self._queue(channel).put(arrived_s)
            except (EOFError, OSError):
                self._gone = True
        for waiting in list(self._arrivals.values()):
            waiting.put(None)


def _gone() -> RunError:
    return RunError("the emulated links are gone: their process has ended")


class PacedTestbed:
    """Pads calls to their times in the profile and paces transfers to the emulated links."""

    name = "paced"
    emulates = True

    def __init__(self, fixed_dilation: float | None = None, rendezvous: Rendezvous | None = None) -> None:
        self._rendezvous = rendezvous or FileRendezvous()
        self.dilation = fixed_dilation or 1.0
        self._fixed = fixed_dilation
        self._folder: SocketFolder | None = None
        self._links: LinkEmulator | None = None
        self._began_s: float | None = None
        self.moment_s = 0.0

    def open(self, phase: Phase, parts: Sequence[PhasePart], evaluator: Evaluator) -> None:
        """Start the emulated links."""
        self._folder = socket_folder()
        self._nodes = tuple(phase.nodes())
        self._padding = Padding(parts, evaluator, self._fixed, OVERHEAD)
        routes = {number: route for part in parts for number, route in _channel_routes(part, evaluator).items()}
        folder = Path(self._folder.name)
        traces = LinkTraces(traces_of(evaluator.cluster), self.moment_s)
        self._links = LinkEmulator(routes, evaluator.routes.capacities, self._nodes, folder, traces)
        self._rendezvous.open(on_loopback(folder, phase, parts))

    def endpoint(self, node: str) -> Endpoint:
        """On loopback, behind the emulated links."""
        assert self._links is not None, "open() comes first"
        return PacedEndpoint(self._rendezvous.endpoint(node), self._links.address)

    def initializer(self, node: str) -> ProcessInitializer | None:
        """Nothing to do."""
        return None

    def apply_calibration(self, calibrated: Calibrations) -> dict[str, dict[int, Pace]]:
        """Choose the dilation, slow the links down by it, and give every call its time."""
        assert self._links is not None, "open() comes first"
        self.dilation, paces = self._padding.apply_calibration(calibrated)
        self._set_dilation(self.dilation)
        return paces

    def _set_dilation(self, dilation: float) -> None:
        assert self._links is not None, "open() comes first"
        self._note_replayed()
        self._links.set_dilation(dilation)
        self._began_s, self.dilation = time.monotonic(), dilation

    def _note_replayed(self) -> None:
        if self._began_s is not None:
            self.moment_s += (time.monotonic() - self._began_s) / self.dilation
            self._began_s = None

    def increase_dilation(self, by: float) -> dict[str, dict[int, Pace]] | None:
        """Increase the dilation of links and calls."""
        wider = self._padding.increased(self.dilation, by)
        if wider is None:
            return None
        self._set_dilation(wider)
        return self._padding.paces(wider)

    def close(self) -> None:
        """End the rendezvous and the links, and remove the folder."""
        self._rendezvous.close()
        self._note_replayed()
        if self._links is not None:
            self._links.close()
            self._links = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _channel_routes(part: PhasePart, evaluator: Evaluator) -> dict[int, ChannelRoute]:
    """The route of each channel of a part."""
    found = {}
    background = background_channels([part])
    for program in part.programs.values():
        for operation in program.operations:
            if operation.channel is not None:
                number, sender, receiver = operation.channel
                route = evaluator.route(sender, receiver)
                path = route.resources, route.latency_s, sender, receiver
                found[number] = ChannelRoute(*path, number in background, route.jitters_s)
    return found
