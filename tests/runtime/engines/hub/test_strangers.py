"""Who comes to a hub with mutilated frames, or without a certificate that counts: nobody gets in, nothing breaks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import resource
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from safetensors.torch import save as to_bytes

from palmette.cli import execute
from palmette.measure.probing import WorkerProbes
from palmette.runtime.engines.hub import dialler, server
from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.runtime.engines.hub.building import SetupBuilder
from palmette.runtime.engines.hub.codec import MessageParts
from palmette.runtime.engines.hub.dialler import HubConnection
from palmette.runtime.engines.hub.messages import PROTOCOL, TO_ENGINE, TO_WORKER, Introduction, WorkOrder
from palmette.runtime.record.operations import OperationRecord
from palmette.runtime.transports.base import ConnectionLost
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.tls.frames import TOKEN_BYTES, alive, control_frames, decoded, hello
from palmette.runtime.transports.tls.hub import SERVICE
from palmette.runtime.worker.commands import Calibrated, Calibration, Event, IterationDone, Ready, StateReply
from tests.control.hub_workers import HubWorkers
from tests.control.run.test_processes import trees
from tests.runtime.engines.hub.test_codec import EVENTS, mutated
from tests.runtime.world import CLUSTER, TINY, Runs
from tests.testbed.test_namespaces import eventually
from tests.thorough import mostly_thorough

MINE = Introduction(protocol=PROTOCOL, palmette_version="1", torch_version=str(torch.__version__))
HELLO = hello(bytes(TOKEN_BYTES), "phone")
MOST_GROWTH_MB = 20
# A connection that cannot be secured counts as one that is not there.
ALLOWED: dict[str, tuple[Any, ...]] = {
    "known": (grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT),
    "revoked": (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT),
    "unknown": (grpc.StatusCode.UNAVAILABLE,),
    "bare": (None,),
}


@pytest.fixture
def place(runs: Runs) -> Iterator[HubWorkers]:
    runs.cluster.write_text(CLUSTER.replace("tier:", "threads: 1, tier:"))
    with HubWorkers(runs.folder) as made:
        yield made


def answered(door: HubAccess, frames: list[bytes], method: str = "Enlist") -> Any:
    """How the hub ends a stream with these frames."""
    with door.dialled() as dialled:
        call = dialled.stream_stream(f"/{SERVICE}/{method}")(iter(frames), timeout=10)
        try:
            for _ in call:
                pass
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK


def others(folder: Path) -> Any:
    """Credentials of the same name from another authority."""
    keys = Keys(folder / "others")
    keys.init()
    keys.issue("phone")
    return keys.credentials("phone")


def frames_of(*messages: Any) -> list[bytes]:
    return [frame for each in messages for frame in control_frames(TO_ENGINE.written(each, "run"))]


def no_strangers(place: HubWorkers) -> None:
    """Nobody is left, and an honest worker still gets in."""
    assert eventually(lambda: not place.hub.present(), 10)
    place.start(["phone"])
    assert eventually(lambda: "phone" in place.hub.present(), 20)


@pytest.mark.parametrize("seed", mostly_thorough(range(11), few=1))
def test_mutilated_frames(place: HubWorkers, tmp_path: Path, seed: int) -> None:
    """Each attempt ends by itself; a whole introduction gets in, and is out again with the first wrong frame.

    Nobody without a certificate that counts gets that far. What the hub needs is taken in the first tenth.
    """
    draw, doors = random.Random(seed), doors_of(place, tmp_path)
    frames = 1_000 if seed else 60
    for number in range(frames):
        if number == frames // 10:
            before_mb = resident_mb()
        name = draw.choice(["known", "known", "revoked", "unknown", "bare"])
        found = answered_to(doors[name], mutilated(draw), draw)
        assert found in ALLOWED[name], (name, found)
    assert resident_mb() - before_mb < MOST_GROWTH_MB
    no_strangers(place)


def doors_of(place: HubWorkers, folder: Path) -> dict[str, HubAccess | int]:
    """How a hub is come to: with a certificate that counts, one that was revoked, one of others, and a bare socket."""
    real, stranger = place.keys.credentials("phone"), others(folder)
    unknown = type(real)("phone", stranger.key, stranger.certificate, real.authority, b"")
    revoked = place.keys.credentials("cloud")
    place.keys.revoke("cloud")
    doors = {"known": real, "revoked": revoked, "unknown": unknown}
    return {name: HubAccess(place.address, each) for name, each in doors.items()} | {"bare": place.hub.port}


def mutilated(draw: random.Random) -> list[bytes]:
    """What a worker says, one frame of it changed."""
    frames = [HELLO, *frames_of(MINE), alive(), *frames_of(draw.choice(EVENTS)), *frames_of(draw.choice(EVENTS))]
    which = draw.randrange(len(frames))
    frames[which] = mutated(frames[which], draw)
    return frames


def answered_to(door: HubAccess | int, frames: list[bytes], draw: random.Random) -> Any:
    """How the hub ends; None where it hangs up on a bare socket without a word that can be read."""
    if isinstance(door, HubAccess):
        return answered(door, frames, draw.choice(["Enlist"] * 3 + ["Attend", "Carry"]))
    with socket.create_connection(("127.0.0.1", door), timeout=10) as line, contextlib.suppress(ConnectionError):
        line.sendall(b"".join(frames))
        line.shutdown(socket.SHUT_WR)
        while line.recv(4096):
            pass
    return None


def resident_mb() -> float:
    """The memory of this process, in which the hub is."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def test_without_a_certificate_that_counts(place: HubWorkers, tmp_path: Path) -> None:
    stolen = place.keys.credentials("cloud")
    place.keys.revoke("cloud")
    frames = [HELLO, *frames_of(MINE)]
    real, theirs = place.keys.credentials("phone"), others(tmp_path)
    knows_hub = HubAccess(place.address, type(real)("phone", theirs.key, theirs.certificate, real.authority, b""))
    assert answered(knows_hub, frames) is grpc.StatusCode.UNAVAILABLE  # in the handshake
    assert answered(HubAccess(place.address, stolen), [hello(bytes(TOKEN_BYTES), "cloud"), *frames[1:]]) is (
        grpc.StatusCode.PERMISSION_DENIED
    )
    assert answered(HubAccess(place.address, place.keys.credentials("server")), frames) is (
        grpc.StatusCode.PERMISSION_DENIED  # a node's certificate for another node
    )
    hub = HubAccess(place.address, place.keys.credentials("hub"))
    assert answered(hub, [hello(bytes(TOKEN_BYTES), "hub"), *frames[1:]]) is grpc.StatusCode.PERMISSION_DENIED
    for words in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(20_000), *frames):
        with socket.create_connection(("127.0.0.1", place.hub.port), timeout=5) as line:
            line.sendall(words)
    no_strangers(place)


def why_not(address: str, own: Any) -> str:
    """Why a worker does not get into a hub."""
    worker = HubConnection(
        HubAccess(address, own), SetupBuilder(AllowedNames(), {}), WorkerProbes(AllowedNames(), None)
    )
    with pytest.raises(ConnectionLost) as lost:
        worker.enlist()
    worker.close()
    return str(lost.value)


def answer_plainly(listening: socket.socket) -> None:
    with listening.accept()[0] as line:
        line.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        line.recv(4096)


def test_a_worker_says_what_is_wrong_with_what_it_finds(place: HubWorkers, tmp_path: Path) -> None:
    assert "its certificate is of another authority" in why_not(place.address, others(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=answer_plainly, args=(other,), daemon=True).start()
        found = why_not(f"127.0.0.1:{other.getsockname()[1]}", place.keys.credentials("phone"))
    assert found.endswith(": what answers there does not speak TLS")


def test_a_worker_of_another_protocol_is_told(place: HubWorkers) -> None:
    door = HubAccess(place.address, place.keys.credentials("phone"))
    other = MINE.model_copy(update={"protocol": PROTOCOL + 1})
    assert answered(door, [HELLO, *frames_of(other)]) is grpc.StatusCode.PERMISSION_DENIED


def test_a_closed_hub_leaves_no_handler_suspended(place: HubWorkers) -> None:
    """One that woke up later, when it is collected, would find its loop closed."""
    calls, entered = [], {"server", "cloud"}
    with contextlib.ExitStack() as dialling:
        for node in ("phone", *entered):
            dialled = dialling.enter_context(HubAccess(place.address, place.keys.credentials(node)).dialled())
            frames = [hello(bytes(TOKEN_BYTES), node), *(frames_of(MINE) if node in entered else [])]
            calls.append(dialled.stream_stream(f"/{SERVICE}/Enlist")(_held_open(frames), timeout=10))
        assert eventually(lambda: place.hub.present() == entered, 10)
        place.hub.close()
        assert not asyncio.all_tasks(place.hub._loop)


def _held_open(frames: list[bytes]) -> Iterator[bytes]:
    yield from frames
    threading.Event().wait(5)


class Liar(HubConnection):
    """A worker that answers orders and commands, by their kinds, with these events."""

    def __init__(self, door: HubAccess, lies: Mapping[str, Sequence[Event]]) -> None:
        super().__init__(door, SetupBuilder(AllowedNames(), {}), WorkerProbes(AllowedNames(), None))  # type: ignore[arg-type]
        self._lies = {"WorkOrder": [Ready()]} | dict(lies)

    def serve(self) -> None:
        parts = MessageParts()
        while True:
            whole = parts.add(decoded(next(self._stream._call)))
            said = None if whole is None else TO_WORKER.read(whole)
            if said is not None and isinstance(said.message, WorkOrder):
                self._order = said.message
            for lie in [] if said is None else self._lies.get(type(said.message).__name__, []):
                self._send(lie if lie is not DONE else self._done(), said.run)

    def _done(self) -> IterationDone:
        """The first iteration, as an honest worker reports it."""
        (program,) = self._order.programs
        assert program is not None
        records = [OperationRecord(o.number, o.op, o.instance, None, 1.0, 2.0, 0) for o in program.operations]
        return IterationDone(0, 0, 0.5, 1.0, records)


DONE = IterationDone(0, 0, 0.5, 0.0, [])
NO_WEIGHTS, OTHERS = StateReply(b"no weights", b""), StateReply(to_bytes({"x": torch.ones(2)}), to_bytes({}))
LIES: dict[str, dict[str, Sequence[Event]]] = {
    "an iteration of no program": {"Execute": [IterationDone(7, 0, 0.5, 0.0, [])]},
    "another answer": {"Execute": [Calibrated(0, Calibration({}))]},
    "weights that are none": {"Execute": [DONE], "GetState": [NO_WEIGHTS]},
    "other weights": {"Execute": [DONE], "GetState": [OTHERS]},
    "weights that nobody asked for": {"Execute": [DONE, OTHERS]},
    "an iteration without operations": {"Execute": [IterationDone(0, 0, 0.5, 0.0, [])]},
    "an iteration twice": {"Execute": [DONE, DONE]},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_worker_that_lies_is_named(
    runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str], lie: str
) -> None:
    """It runs alone, so that its lie is the first answer."""
    liar = Liar(HubAccess(place.address, place.keys.credentials("phone")), LIES[lie])
    liar.enlist()
    threading.Thread(target=_serve, args=(liar,), daemon=True).start()
    arguments = [*runs.arguments(TINY, trees(5)["alone"]), *place.options, "--iterations", "1", "--quiet"]
    assert execute([*arguments, "-o", str(runs.folder / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("palmette: node phone: its worker ")
    liar.close()


def _serve(liar: Liar) -> None:
    with contextlib.suppress(StopIteration, grpc.RpcError):
        liar.serve()


def test_a_worker_whose_network_is_gone_is_not_listed_for_ever(
    place: HubWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_SILENCE_S", 0.5)
    silent = HubConnection(
        HubAccess(place.address, place.keys.credentials("phone")),
        SetupBuilder(AllowedNames(), {}),
        WorkerProbes(AllowedNames(), None),
    )
    silent.enlist()
    assert eventually(lambda: "phone" in place.hub.present(), 10)
    assert eventually(lambda: not place.hub.present(), 20), "it enlisted, and gave no sign of life"
    silent.close()


def test_a_worker_dials_again_where_the_hub_does_not_answer(place: HubWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the network goes between the handshake and the hub's welcome."""
    monkeypatch.setattr(dialler, "WELCOME_S", 0.5)

    async def silence(*_: object) -> None:
        await asyncio.sleep(60)

    with monkeypatch.context() as dark:
        dark.setattr(server, "_introduction", silence)
        place.start(["phone"])
        assert eventually(lambda: any("does not answer" in line for line in place.said["phone"]), 20)
    assert eventually(lambda: "phone" in place.hub.present(), 20)
    assert not place.errors


def test_a_worker_that_introduces_itself_too_late_may_try_again(
    place: HubWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_PATIENCE_S", 0.3)
    door = HubAccess(place.address, place.keys.credentials("phone"))
    with door.dialled() as dialled:
        held = threading.Event()
        call = dialled.stream_stream(f"/{SERVICE}/Enlist")(held_back(HELLO, held), timeout=10)
        with pytest.raises(grpc.RpcError) as ended:
            next(call)
        held.set()
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE, "a refusal would end a worker for good"


def held_back(first: bytes, until: threading.Event) -> Iterator[bytes]:
    yield first
    until.wait(10)


def test_a_second_worker_of_a_node_takes_the_place_of_the_first(place: HubWorkers) -> None:
    place.start(["phone"])
    assert eventually(lambda: "phone" in place.hub.present(), 20)
    first = place.hub.connection("phone")
    place.start(["phone"])
    assert eventually(lambda: "phone" in place.errors, 20)
    assert str(place.errors["phone"]).endswith("refuses: another worker has connected as node phone; expected one")
    second = place.hub.connection("phone")
    assert second is not None
    assert second is not first
