"""A worker that dials out: one connection to a hub, which it opens itself and opens again when it is lost.

    dial ──▶ introduce ──▶ wait for orders ◀─────────────┐
      ▲                        └▶ set up ─▶ run ─▶ stop ─┘
      └── wait, longer each time ◀── the connection is lost, or the hub has left

A run is executed in threads of this process, so that its channels are streams of the same connection; but samples that
are sent ahead have another one (``endpoint``).
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from queue import SimpleQueue

import torch

from palmette.errors import RunError
from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.building import SetupBuilder
from palmette.runtime.engines.hub.codec import BadMessage, Envelope, MessageParts
from palmette.runtime.engines.hub.endpoint import ConnectionEndpoint
from palmette.runtime.engines.hub.messages import (
    HUB,
    PROTOCOL,
    TO_ENGINE,
    TO_WORKER,
    ForgetKept,
    Introduction,
    KeptRequest,
    RenewalRequest,
    RenewedCertificate,
    RunEnded,
    WorkOrder,
)
from palmette.runtime.engines.hub.renewal import is_due, with_certificate
from palmette.runtime.engines.probes import CarryOut, ProbeRequest, ProbeResult, TimeTransfer
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import ConnectionLost, TransportClosed
from palmette.runtime.transports.heartbeat import SILENCE_S, peer_silent
from palmette.runtime.transports.liveness import Liveness
from palmette.runtime.transports.tls.frames import (
    TOKEN_BYTES,
    BadFrame,
    FrameKind,
    alive,
    control_frames,
    hello,
)
from palmette.runtime.transports.tls.streams import NetworkStream, StreamState
from palmette.runtime.worker.commands import Command, EngineGone, Event, Stop
from palmette.runtime.worker.failure import failure
from palmette.runtime.worker.tuning import use_threads
from palmette.runtime.worker.worker import Worker

_NO_TOKEN = bytes(TOKEN_BYTES)
ALIVE_EVERY_S = 1.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 15.0
WELCOME_S = 30.0
_FAREWELL_S = 1.0
_KEEPING_S = _MEASURED_S = 10.0
_LOOK_EVERY_S = 10.0
RENEW_EVERY_S = 3600.0


class _RunControl:
    """A run's part of the connection: its commands, and its events."""

    def __init__(self, run: str, send: Callable[[Event, str], None]) -> None:
        self.run, self._send = run, send
        self.commands: SimpleQueue[Command | None] = SimpleQueue()
        self.worker: Worker | None = None

    def send(self, event: Event) -> None:
        self._send(event, self.run)

    def stop(self, last: Command | None) -> None:
        """Let the worker obey one more command, without what is left of several iterations at once."""
        self.commands.put(last)
        if self.worker is not None:
            self.worker.stop()

    def receive(self) -> Command:
        command = self.commands.get()
        if command is None:
            raise EngineGone
        return command


class HubConnection:
    """One connection to a hub, from its beginning to its end.

    ``orders`` counts the orders that came, ``runs`` the runs that have ended meanwhile; ``probes`` measures here what
    the hub asks for.
    """

    def __init__(self, access: HubAccess, builder: SetupBuilder, probes: CarryOut) -> None:
        self._builder, self._probes, self.orders, self.runs = builder, probes, 0, 0
        self.address, self.node = access.address, access.own.node
        self._own, self._keep, self._asked_s = access.own, access.keep, -math.inf
        self._access, self._dialled = access, access.dialled()
        self._state = StreamState(access.own.node, HUB, f"the hub at {access.address}")
        self._working: tuple[_RunControl, threading.Thread] | None = None
        self._measuring: list[threading.Thread] = []
        self._sending, self._ended = threading.Lock(), threading.Event()
        self._liveness = Liveness(SILENCE_S, 2 * ALIVE_EVERY_S)
        self._stream = NetworkStream(self._dialled, "Enlist", hello(_NO_TOKEN, access.own.node), self._state)

    def enlist(self, *, any_version: bool = False) -> None:
        """Say who this is, and wait until the hub agrees; ``any_version``: also one with another torch.

        Raises:
            ConnectionLost: the hub cannot be reached, or does not answer: the network may have gone meanwhile.
            RunError: it refuses this worker.
        """
        mine = Introduction(
            protocol=PROTOCOL,
            palmette_version=version("palmette"),
            torch_version=str(torch.__version__),
            any_version=any_version,
            limits=self._builder.limits.introduced(),
        )
        self._send(mine, "")
        limit = threading.Timer(WELCOME_S, self._break_off, [ConnectionLost("the hub does not answer", HUB)])
        limit.daemon = True
        limit.start()
        try:
            if self._stream.next().kind is not FrameKind.WELCOME:
                raise BadMessage("the hub did not send welcome")
        finally:
            limit.cancel()

    def serve(self, *, once: bool = False) -> None:
        """Execute orders until the hub leaves; with ``once``, or a run is over.

        Raises:
            ConnectionLost: the connection is lost.
            RunError: the hub refuses this worker, or sends what is no message.
        """
        self._liveness.heard([HUB], time.monotonic())
        threading.Thread(target=self._be_there, name="signs of life", daemon=True).start()
        parts = MessageParts()
        while (frame := self._stream.next()).kind is not FrameKind.FAREWELL:
            self._liveness.heard([HUB], time.monotonic())
            if frame.kind is not FrameKind.ALIVE and (whole := parts.add(frame)) is not None:
                self._obey(TO_WORKER.read(whole))
                if once and self.runs:
                    return

    def _obey(self, said: Envelope) -> None:
        """Do what one message asks for."""
        match said.message:
            case WorkOrder() as order:
                self._begin(order, said.run)
            case RenewedCertificate(certificate=certificate):
                self._own = with_certificate(self._own, certificate)
                self._keep(self._own)
            case RunEnded():
                self.runs += 1
            case asked if isinstance(asked, KeptRequest):
                self._send(self._builder.answer(asked, self.node), said.run)
            case ForgetKept(kept=kept):
                self._builder.forget_kept(kept, self.node)
            case request if isinstance(request, ProbeRequest):
                self._measuring = [each for each in self._measuring if each.is_alive()]
                measuring = threading.Thread(target=self._measure, args=(request, said.run), daemon=True)
                measuring.start()
                self._measuring.append(measuring)  # another thread that closes waits for started ones alone
            case command if self._working is not None and said.run == self._working[0].run:
                self._working[0].commands.put(command)

    def close(self) -> None:
        """Stop what is running, which keeps its state, and end the connection."""
        self._ended.set()
        working = self._working
        self._stop_working(None)
        self._state.closed = True
        self._stream.close()
        self._dialled.close()
        if working is not None:  # until its state is written; whoever asks for it next has to find it
            working[1].join(_KEEPING_S)
        for each in self._measuring:  # torch aborts a process that ends while it computes
            each.join(_MEASURED_S)

    def _begin(self, order: WorkOrder, run: str) -> None:
        """Set up for an order, and execute its commands, in a separate thread."""
        self._stop_working(Stop())
        self.orders += 1
        control = _RunControl(run, self._send)
        working = threading.Thread(target=self._work, args=(order, control), name=f"run {run}", daemon=True)
        working.start()
        self._working = control, working

    def _work(self, order: WorkOrder, control: _RunControl) -> None:
        try:
            background = frozenset[int]().union(*(each.background_channels for each in order.programs if each))
            endpoint = self._endpoint(order.token, order.channels, background)
            setup = self._builder.built(order, endpoint)
            use_threads(setup.threads)
            control.worker = worker = Worker(setup, control)
            try:
                worker.run()
            except BaseException:  # its threads must not outlast it: the process goes on to the next run
                worker.close()
                raise
        except (EngineGone, TransportClosed):
            return
        except BaseException as error:  # noqa: BLE001  (sent to the engine, which ends the run)
            control.send(failure(error))

    def _endpoint(
        self, token: bytes, channels: tuple[Channel, ...], background: frozenset[int] = frozenset()
    ) -> ConnectionEndpoint:
        access = replace(self._access, own=self._own)
        return ConnectionEndpoint(self._dialled, access, token, channels, background)

    def _renew(self) -> None:
        """Ask for another certificate when this one ends soon, not too often."""
        if time.monotonic() - self._asked_s > RENEW_EVERY_S and is_due(self._own.certificate):
            self._asked_s = time.monotonic()
            self._send(RenewalRequest(), "")

    def _watch_memory(self) -> None:
        """End the current run, and let the engine know, where this process takes more memory than it may."""
        working = self._working
        if working is not None and working[1].is_alive():
            try:
                self._builder.limits.refuse_memory()
            except RunError as error:
                working[0].send(failure(error))
                working[0].stop(Stop())

    def _measure(self, request: ProbeRequest, run: str) -> None:
        try:
            endpoint = None
            if isinstance(request, TimeTransfer):
                endpoint = self._endpoint(request.token, request.channels)
            self._send(self._probes(self.node, request, endpoint), run)
        except BaseException as error:  # noqa: BLE001  (sent to the engine)
            self._send(failure(error), run)

    def _stop_working(self, last: Command | None) -> None:
        """Let the current run end; one that waits for others that will not come ends with its relay."""
        if self._working is not None:
            control, thread = self._working
            control.stop(last)
            thread.join(_FAREWELL_S)
            self._working = None

    def _send(self, message: Event | ProbeResult | Introduction | RenewalRequest, run: str) -> None:
        """Send a message; from any thread. Where the connection is lost, ``serve`` finds out."""
        with self._sending:
            try:
                for frame in control_frames(TO_ENGINE.written(message, run)):
                    self._stream.put(frame)
            except (RunError, TransportClosed):
                return

    def _break_off(self, why: RunError) -> None:
        """End the connection; whoever waits for the hub hears why."""
        self._state.broken = why
        self._stream.cancel()

    def _be_there(self) -> None:
        """Send heartbeats to the hub, until it is silent, the owner's hours end, or the connection is closed."""
        while not self._ended.wait(ALIVE_EVERY_S):
            self._watch_memory()
            self._renew()
            away = self._builder.limits.away()
            if away is not None:
                self._break_off(ConnectionLost(away, HUB))
                return
            if self._liveness.first_silent(time.monotonic()) is not None:
                self._break_off(peer_silent(HUB))
                return
            try:
                self._stream.put(alive())
            except (RunError, TransportClosed):
                return


class HubWorker:
    """Dials a hub, again and again.

    ``told`` is called with a line for a person whenever something happens. With ``any_version`` it also works for a hub
    whose torch was not tested with its own.
    """

    def __init__(
        self,
        access: Callable[[], HubAccess],
        builder: SetupBuilder,
        probes: CarryOut,
        told: Callable[[str], None] = lambda _: None,
        *,
        any_version: bool = False,
    ) -> None:
        self._access, self._builder, self._probes, self._told = access, builder, probes, told
        self._any_version = any_version
        self._closing = threading.Event()
        self._connection: HubConnection | None = None

    def run(self, *, once: bool = False) -> None:
        """Serve the hub until ``close``; with ``once``, until a run is over, whether or not it used this node.

        No samples of other nodes outlast it, nor any that an earlier one was killed with.

        Raises:
            RunError: the hub refuses this worker.
        """
        self._builder.delete_left(self._access().own.node)
        try:
            self._serve(once=once)
        finally:
            self._builder.delete_lent()

    def _serve(self, *, once: bool) -> None:
        wait_s = FIRST_WAIT_S
        while self._in_time():
            try:
                self._connection = HubConnection(self._access(), self._builder, self._probes)
                if self._closing.is_set():  # before there was a connection that ``close`` could end
                    return
                self._connection.enlist(any_version=self._any_version)
                self._told(f"connected to the hub at {self._connection.address} as node {self._connection.node}")
                wait_s = FIRST_WAIT_S
                self._connection.serve(once=once)
                self._told(_ending(self._connection, once))
                if once and (self._connection.orders or self._connection.runs):
                    return
            except (ConnectionLost, BadFrame) as lost:
                why = str(lost).rpartition(": ")[2]  # gRPC says the rest at length
                self._told(f"no connection to the hub: {why}; trying again in {wait_s:.1f} s")
            except TransportClosed:
                return
            finally:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
            self._closing.wait(wait_s * random.uniform(0.8, 1.2))  # noqa: S311  (so that many do not dial at once)
            wait_s = min(LONGEST_WAIT_S, 2 * wait_s)

    def _in_time(self) -> bool:
        """Wait until the owner lets this worker work; returns False if it is to end."""
        told = False
        while not self._closing.is_set() and (why := self._builder.limits.away()) is not None:
            if not told:
                self._told(f"waiting: {why}")
            told = True
            self._closing.wait(_LOOK_EVERY_S)
        return not self._closing.is_set()

    def close(self) -> None:
        """End soon; from any thread."""
        self._closing.set()
        connection = self._connection
        if connection is not None:
            connection.close()


def _ending(connection: HubConnection, once: bool) -> str:
    if not (once and connection.runs):
        return "the hub has left"
    return "the run is over" if connection.orders else f"the run is over; it did not use node {connection.node}"
