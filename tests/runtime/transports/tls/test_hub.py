"""The hub: workers exchange messages through it, and nobody else gets in or disturbs them."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import socket
import ssl
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch

from palmette.errors import InputError, RunError
from palmette.runtime.engines.forkserver import forkserver_context
from palmette.runtime.engines.service import ServiceProcess
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import ConnectionLost, TransportClosed
from palmette.runtime.transports.heartbeat import ASLEEP_S, SILENCE_S
from palmette.runtime.transports.keys.certificates import dns_name, new_key, node_certificate
from palmette.runtime.transports.keys.credentials import Credentials
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.pem import key_text, read_certificate, read_key, text_of
from palmette.runtime.transports.lengths import MOST_BYTES as MOST_MESSAGE_BYTES
from palmette.runtime.transports.lengths import BadLength
from palmette.runtime.transports.liveness import Liveness
from palmette.runtime.transports.tls.credit import WINDOW_BYTES
from palmette.runtime.transports.tls.frames import (
    MOST_BYTES,
    TOKEN_BYTES,
    BadFrame,
    credit,
    data_frames,
    grant,
    hello,
    welcome,
)
from palmette.runtime.transports.tls.hub import SERVICE, HubSetup
from palmette.runtime.transports.tls.local import LENGTH
from palmette.runtime.transports.tls.streams import NetworkStream, StreamState
from palmette.runtime.transports.tls.transport import HubEndpoint, TlsTransport

TOKEN = bytes(range(TOKEN_BYTES))
NODES = ("phone", "server", "cloud")
THERE, BACK, UP = Channel(0, "phone", "cloud"), Channel(1, "cloud", "phone"), Channel(2, "phone", "server")
CHANNELS = (THERE, BACK, UP)
SPARE = Channel(3, "phone", "cloud")  # known to the hub, but not used by the workers
PATIENCE_S = 10.0


class Meeting:
    """A hub on ``server``, its keys, and three workers in this process."""

    def __init__(self, folder: Path) -> None:
        self.keys = Keys(folder / "keys")
        self.keys.init()
        for node in (*NODES, "guest", "thief"):
            self.keys.issue(node)
        self.stolen = self.keys.credentials("thief")
        self.keys.revoke("thief")
        known = (*CHANNELS, SPARE)
        setup = HubSetup("server", self.keys.folder, TOKEN, NODES, known, "127.0.0.1", folder / "hub")
        self.hub = ServiceProcess(setup, None)
        self.endpoint = HubEndpoint(self.hub.info, self.keys.folder, TOKEN, CHANNELS)
        with ThreadPoolExecutor() as pool:
            joined = pool.map(self.endpoint.connect, NODES)
        self.workers: dict[str, TlsTransport] = dict(zip(NODES, joined, strict=True))

    @property
    def port(self) -> int:
        return int(self.hub.info.address.rpartition(":")[2])

    def carried(self, channel: Channel, message: torch.Tensor, **how: bool) -> torch.Tensor:
        """What arrives of a message."""
        with ThreadPoolExecutor() as pool:
            sending = pool.submit(self.workers[channel.sender].send, channel, message, **how)
            size = message.numel() if how.get("sized", True) else None
            arrived = self.workers[channel.receiver].receive(channel, size)
            sending.result()
        return arrived

    def assert_well(self) -> None:
        for channel in CHANNELS:
            message = torch.randint(0, 256, (100_000,), dtype=torch.uint8)
            assert self.carried(channel, message).equal(message)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()
        self.hub.close()


@pytest.fixture
def rendezvous(tmp_path: Path) -> Iterator[Meeting]:
    made = Meeting(tmp_path)
    yield made
    made.close()


@contextmanager
def dialled(rendezvous: Meeting, own: Credentials, **more: Any) -> Iterator[Any]:
    """A line to the hub, by default with a good certificate."""
    known = {"authority": own.authority, "key": own.key, "certificate": own.certificate} | more
    doors = grpc.ssl_channel_credentials(known["authority"], known["key"], known["certificate"])
    options = [("grpc.ssl_target_name_override", dns_name("server")), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(rendezvous.hub.info.address, doors, options=options) as line:
        yield line


def opened(line: Any, method: str, *frames: bytes) -> Any:
    """A stream with these frames."""
    return line.stream_stream(f"/{SERVICE}/{method}")(iter(frames), timeout=PATIENCE_S)


def says(
    rendezvous: Meeting, *frames: bytes, method: str = "Carry", own: Credentials | None = None, **more: Any
) -> Any:
    """How the hub ends a stream with these frames."""
    own = own or rendezvous.keys.credentials("phone")
    with dialled(rendezvous, own, **more) as line, pytest.raises(grpc.RpcError) as caught:
        next(opened(line, method, *frames))
    return caught.value


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 300_001, 9_000_000])
def test_messages_arrive_as_they_were_sent(rendezvous: Meeting, size: int) -> None:
    message = torch.randint(0, 256, (size,), dtype=torch.uint8)
    for channel in CHANNELS:
        for _ in range(2):
            assert rendezvous.carried(channel, message).equal(message)


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("size", [0, 1, 300_001])
def test_background_messages_and_those_of_unknown_size_do_too(rendezvous: Meeting, size: int, sized: bool) -> None:
    message = torch.randint(0, 256, (size,), dtype=torch.uint8)
    for channel in CHANNELS:
        for background in (True, False):
            assert rendezvous.carried(channel, message, sized=sized, background=background).equal(message)


def test_messages_of_unknown_size_are_sent_before_the_receiver_asks_for_them(rendezvous: Meeting) -> None:
    def message(number: int) -> torch.Tensor:
        return torch.full((number % 3,), number, dtype=torch.uint8)

    for channel in CHANNELS:
        sender, receiver = rendezvous.workers[channel.sender], rendezvous.workers[channel.receiver]
        assert rendezvous.carried(channel, message(0), sized=False).equal(message(0))
        for number in range(1, 40):
            sender.send(channel, message(number), sized=False, background=True)
        for number in range(1, 40):
            assert receiver.receive(channel, None).equal(message(number))


@pytest.mark.parametrize("background", [False, True])
def test_messages_of_unknown_size_may_be_larger_than_the_credit(rendezvous: Meeting, background: bool) -> None:
    for size in (3 * WINDOW_BYTES + 1, 5, WINDOW_BYTES, WINDOW_BYTES):
        message = torch.randint(0, 256, (size,), dtype=torch.uint8)
        assert rendezvous.carried(THERE, message, sized=False, background=background).equal(message)


def test_all_channels_at_once_each_in_its_order(rendezvous: Meeting) -> None:
    def carry(channel: Channel) -> None:
        for k in range(20):
            message = torch.full((20_000 + k,), k, dtype=torch.uint8)
            assert rendezvous.carried(channel, message).equal(message)

    with ThreadPoolExecutor() as pool:
        list(pool.map(carry, CHANNELS))


def test_a_message_of_another_size_than_expected_is_refused(rendezvous: Meeting) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(rendezvous.workers["cloud"].receive, THERE, 10)
        with pytest.raises(RunError, match="node cloud expects 10 bytes; the message has 11"):
            rendezvous.workers["phone"].send(THERE, torch.zeros(11, dtype=torch.uint8))
        rendezvous.workers["cloud"].close()
        with pytest.raises(TransportClosed):
            waiting.result()


def test_without_a_certificate_nobody_gets_in(rendezvous: Meeting) -> None:
    refused = says(rendezvous, hello(TOKEN, "phone"), key=None, certificate=None, method="Attend")
    assert refused.code() is grpc.StatusCode.UNAVAILABLE
    rendezvous.assert_well()


def test_another_authority_is_not_believed(rendezvous: Meeting, tmp_path: Path) -> None:
    other = Keys(tmp_path / "other")
    other.init()
    other.issue("phone")
    own = other.credentials("phone")
    refused = says(rendezvous, hello(TOKEN, "phone"), own=own, authority=rendezvous.keys.credentials("phone").authority)
    assert refused.code() is grpc.StatusCode.UNAVAILABLE
    rendezvous.assert_well()


def test_an_expired_certificate_is_refused(rendezvous: Meeting) -> None:
    key = new_key()
    authority = (
        read_key(rendezvous.keys.folder / "authority.key"),
        read_certificate(rendezvous.keys.folder / "authority.crt"),
    )
    then = dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
    expired = text_of(node_certificate("phone", key, authority, days=1, now=then))
    refused = says(rendezvous, hello(TOKEN, "phone"), key=key_text(key), certificate=expired)
    assert refused.code() is grpc.StatusCode.UNAVAILABLE
    rendezvous.assert_well()


def test_a_revoked_certificate_is_refused_and_says_so(rendezvous: Meeting) -> None:
    refused = says(rendezvous, hello(TOKEN, "thief"), own=rendezvous.stolen)
    assert refused.code() is grpc.StatusCode.PERMISSION_DENIED
    assert refused.details() == "the certificate shown for node thief is not valid: it was revoked"
    rendezvous.assert_well()


def test_whoever_is_revoked_while_the_hub_runs_is_refused(rendezvous: Meeting) -> None:
    guest = rendezvous.keys.credentials("guest")
    assert says(rendezvous, hello(TOKEN, "guest"), own=guest).details() == "node guest is not part of this run"
    before = (rendezvous.keys.folder / "revoked.crl").read_bytes()
    rendezvous.keys.revoke("guest")
    refused = says(rendezvous, hello(TOKEN, "guest"), own=guest)
    assert refused.details() == "the certificate shown for node guest is not valid: it was revoked"
    for spoilt in (before, b"nonsense", None):  # an older list, none that can be read, none at all
        if spoilt is None:
            (rendezvous.keys.folder / "revoked.crl").unlink()
        else:
            (rendezvous.keys.folder / "revoked.crl").write_bytes(spoilt)
        assert says(rendezvous, hello(TOKEN, "guest"), own=guest).details() == refused.details()
    rendezvous.assert_well()


def test_whoever_is_revoked_while_connected_is_dropped_and_logged(rendezvous: Meeting) -> None:
    rendezvous.keys.revoke("phone")
    with pytest.raises(RunError, match="phone"):
        rendezvous.workers["cloud"].receive(THERE, 5)
    with pytest.raises(RunError):
        rendezvous.workers["phone"].send(UP, torch.zeros(5, dtype=torch.uint8))
    lines = [json.loads(line) for line in (rendezvous.keys.folder / "audit.jsonl").read_text().splitlines()]
    assert {line["node"] for line in lines if line["event"] == "join"} == set(NODES)
    while_connected = "it was revoked while it was connected"
    assert [line["node"] for line in lines if line.get("why") == while_connected] == ["phone"]


def test_a_viewer_is_no_worker(rendezvous: Meeting) -> None:
    rendezvous.keys.issue("screen", role="viewer")
    refused = says(rendezvous, hello(TOKEN, "screen"), own=rendezvous.keys.credentials("screen"))
    assert refused.details().endswith("is not valid: it is for the role viewer, not worker")
    rendezvous.assert_well()


def test_nobody_is_who_the_certificate_does_not_name(rendezvous: Meeting) -> None:
    refused = says(rendezvous, hello(TOKEN, "phone", UP.number), own=rendezvous.keys.credentials("guest"))
    assert refused.details() == "the certificate shown for node phone is not valid: it belongs to guest"
    rendezvous.assert_well()


@pytest.mark.parametrize(
    ("first", "method", "why"),
    [
        (hello(bytes(TOKEN_BYTES), "phone"), "Attend", "node phone belongs to another run"),
        (hello(TOKEN, "phone"), "Attend", "node phone is connected already"),
        (hello(TOKEN, "phone", 0), "Attend", "a control stream with channel 0; expected none"),
        (hello(TOKEN, "phone", 0), "Carry", "node phone uses channel 0 already"),
        (hello(TOKEN, "phone", 9), "Carry", "node phone does not use channel 9"),
        (welcome(), "Carry", "a stream begins with a frame of kind welcome; expected hello"),
        (b"nonsense", "Attend", "a frame of 8 bytes is shorter than its header of 25"),
    ],
)
def test_one_of_us_gets_only_what_is_its_own(rendezvous: Meeting, first: bytes, method: str, why: str) -> None:
    refused = says(rendezvous, first, method=method)
    assert (refused.code(), refused.details()) == (grpc.StatusCode.PERMISSION_DENIED, why)
    rendezvous.assert_well()


def test_a_node_without_a_part_in_the_run_is_refused(rendezvous: Meeting) -> None:
    refused = says(rendezvous, hello(TOKEN, "guest"), own=rendezvous.keys.credentials("guest"), method="Attend")
    assert refused.details() == "node guest is not part of this run"
    with pytest.raises(RunError, match="the hub on node server refuses: node guest is not part of this run"):
        rendezvous.endpoint.connect("guest")


def test_a_node_whose_certificate_was_revoked_does_not_even_dial(rendezvous: Meeting) -> None:
    with pytest.raises(InputError, match="it was revoked"):
        rendezvous.endpoint.connect("thief")


def _announcing(size: int, offset: int) -> bytes:
    """Four bytes that say they are a part of a message of any size."""
    return struct.pack("<4sBIQQ", b"plm1", 4, SPARE.number, size, offset) + b"abcd"


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "a frame of 0 bytes is shorter than its header of 25"),
        (b"\x00" * 25, "a frame begins with"),
        (_announcing(2**60, 2**60 - 3), "4 bytes at 1152921504606846973 are not a part"),
        (_announcing(2**64 - 1, 2**64 - 1), "4 bytes at 18446744073709551615 are not a part"),
        (grant(SPARE.number, 5), "a frame of kind grant for channel 3 on the stream of channel 3"),
        (credit(SPARE.number, 5), "a frame of kind credit for channel 3 on the stream of channel 3"),
        (
            next(data_frames(BACK.number, memoryview(b"abc"))),
            "a frame of kind data for channel 1 on the stream of channel 3",
        ),
        (hello(TOKEN, "phone", SPARE.number), "a frame of kind hello for channel 3 on the stream of channel 3"),
        (bytes(MOST_BYTES + 1), "larger than max"),
    ],
    ids=[
        "empty",
        "zeros",
        "beyond its end",
        "the largest numbers",
        "grant from the sender",
        "credit from the sender",
        "another channel",
        "hello again",
        "too long",
    ],
)
def test_a_corrupt_frame_ends_its_stream_alone(rendezvous: Meeting, frame: bytes, why: str) -> None:
    with dialled(rendezvous, rendezvous.keys.credentials("cloud")) as line:
        _other = opened(line, "Carry", hello(TOKEN, "cloud", SPARE.number))
        refused = says(rendezvous, hello(TOKEN, "phone", SPARE.number), frame)
    assert refused.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert why in refused.details()
    rendezvous.assert_well()


@pytest.mark.parametrize(
    "frame",
    [
        next(data_frames(SPARE.number, memoryview(b"abcdef"))),
        data_frames(SPARE.number, memoryview(bytes(99_999))).__next__(),
        b"".join((next(data_frames(SPARE.number, memoryview(bytes(5))))[:17], struct.pack("<Q", 3), b"ab")),
        _announcing(2**60, 0),
    ],
    ids=["longer", "much longer", "not from its beginning", "an exbibyte"],
)
def test_what_the_receiver_did_not_make_room_for_is_refused(rendezvous: Meeting, frame: bytes) -> None:
    with pytest.raises(BadFrame, match="node phone sent data of channel 3, byte"):
        received_of(rendezvous, 5, frame)
    rendezvous.assert_well()


def received_of(rendezvous: Meeting, size_bytes: int | None, *frames: bytes) -> torch.Tensor:
    """What the cloud receives if the phone sends these frames."""
    own, state = rendezvous.keys.credentials("phone"), StreamState("cloud", "server")
    with dialled(rendezvous, rendezvous.keys.credentials("cloud")) as line, dialled(rendezvous, own) as sender:
        receiver = TlsTransport.__new__(TlsTransport)
        receiver._streams = {SPARE.number: NetworkStream(line, "Carry", hello(TOKEN, "cloud", SPARE.number), state)}
        receiver._windows, receiver._hub, receiver._liveness = {}, "server", Liveness(SILENCE_S, ASLEEP_S)
        _sending = opened(sender, "Carry", hello(TOKEN, "phone", SPARE.number), *frames)
        return receiver.receive(SPARE, size_bytes)


@pytest.mark.parametrize("size", [MOST_MESSAGE_BYTES + 1, 2**40, 2**64 - 1])
def test_a_length_that_no_message_has_makes_nobody_allocate_memory(rendezvous: Meeting, size: int) -> None:
    with pytest.raises(BadLength, match=f"node phone announces a message of {size} bytes; expected 0 to"):
        received_of(rendezvous, None, _announcing(size, 0))
    rendezvous.assert_well()


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([_announcing(9, 1)], "data of channel 3, byte 1 of 9; expected data of channel 3, byte 0 of 9"),
        ([_announcing(9, 0), _announcing(9, 5)], "byte 5 of 9; expected data of channel 3, byte 4 of 9"),
        ([_announcing(9, 0), _announcing(8, 4)], "byte 4 of 8; expected data of channel 3, byte 4 of 9"),
    ],
    ids=["not from its beginning", "a gap", "another size"],
)
def test_parts_that_are_no_message_are_refused_where_its_size_is_unknown(
    rendezvous: Meeting, frames: list[bytes], why: str
) -> None:
    with pytest.raises(BadFrame, match=why):
        received_of(rendezvous, None, *frames)
    rendezvous.assert_well()


def test_a_stranger_with_garbage_disturbs_nobody(rendezvous: Meeting) -> None:
    garbage = [b"", b"\x00" * 70_000, os.urandom(5_000), b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    garbage += [b"\x16\x03\x01" + struct.pack(">H", 16_000) + os.urandom(16_000)]  # claims to be a TLS handshake
    held = [socket.create_connection(("127.0.0.1", rendezvous.port)) for _ in range(20)]  # says nothing at all
    for words in garbage:
        with socket.create_connection(("127.0.0.1", rendezvous.port)) as line:
            line.sendall(words)
    with grpc.insecure_channel(rendezvous.hub.info.address) as plain:
        call = plain.stream_stream(f"/{SERVICE}/Attend")(iter([hello(TOKEN, "phone")]), timeout=PATIENCE_S)
        with pytest.raises(grpc.RpcError):
            next(call)
    rendezvous.assert_well()
    for line in held:
        line.close()


def test_garbage_inside_tls_disturbs_nobody(rendezvous: Meeting) -> None:
    own = rendezvous.keys.folder / "nodes"
    context = ssl.create_default_context(cafile=str(rendezvous.keys.folder / "authority.crt"))
    context.load_cert_chain(own / "guest.crt", own / "guest.key")
    context.set_alpn_protocols(["h2"])
    for words in (os.urandom(10_000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(10_000)):
        with (
            socket.create_connection(("127.0.0.1", rendezvous.port)) as line,
            context.wrap_socket(line, server_hostname=dns_name("server")) as inside,
        ):
            inside.sendall(words)
    rendezvous.assert_well()


def _attend(endpoint: HubEndpoint) -> None:
    endpoint.connect("phone")
    signal.pause()


def test_a_worker_that_is_gone_without_a_word_is_named_to_all(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys")
    keys.init()
    for node in NODES:
        keys.issue(node)
    setup = HubSetup("server", keys.folder, TOKEN, NODES, CHANNELS, "127.0.0.1", tmp_path / "hub")
    hub = ServiceProcess(setup, None)
    endpoint = HubEndpoint(hub.info, keys.folder, TOKEN, CHANNELS)
    process = forkserver_context().Process(target=_attend, args=(endpoint,), daemon=True)
    process.start()
    with ThreadPoolExecutor() as pool:
        others = list(pool.map(endpoint.connect, ("server", "cloud")))
        waiting = [pool.submit(others[0].receive, UP, 5), pool.submit(others[1].send, BACK, torch.zeros(5))]
        process.kill()
        for each in waiting:
            with pytest.raises(ConnectionLost, match="lost the connection to node phone"):
                each.result(PATIENCE_S)
    for other in others:
        other.close()
    process.join()
    hub.close()


def test_a_hub_that_is_gone_is_named(rendezvous: Meeting) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(rendezvous.workers[c.receiver].receive, c, 5) for c in (THERE, UP)]
        rendezvous.hub._process.kill()
        for each in waiting:
            with pytest.raises(ConnectionLost, match="lost the connection to the hub on node server"):
                each.result(PATIENCE_S)


def framed(frame: bytes) -> bytes:
    return LENGTH.pack(len(frame)) + frame


def local(rendezvous: Meeting, words: bytes) -> bytes:
    """What the hub answers on its local socket."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(rendezvous.hub.info.local))
        line.sendall(words)
        line.settimeout(PATIENCE_S)
        return line.makefile("rb").read()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (b"A" + framed(hello(TOKEN, "phone")), b"node phone is not valid: it belongs to server"),
        (b"A" + framed(hello(bytes(TOKEN_BYTES), "server")), b"node server belongs to another run"),
        (b"A" + framed(hello(TOKEN, "server")), b"node server is connected already"),
        (b"C" + framed(hello(TOKEN, "server", THERE.number)), b"node server does not use channel 0"),
        (b"C" + framed(b"nonsense"), b"a frame of 8 bytes is shorter than its header of 25"),
        (b"?" + framed(os.urandom(100)), b"a frame begins with"),
        (b"A" + LENGTH.pack(MOST_BYTES + 1), b"no hello was received"),
    ],
    ids=["another node", "another run", "twice", "another's channel", "nonsense", "noise", "too long"],
)
def test_the_local_socket_is_for_the_worker_of_this_node(rendezvous: Meeting, words: bytes, why: bytes) -> None:
    assert rendezvous.hub.info.local is not None
    assert why in local(rendezvous, words)
    rendezvous.assert_well()


def test_a_false_hub_is_not_believed_even_with_a_certificate_of_the_authority(rendezvous: Meeting) -> None:
    """Somebody who stole the server's old key, since replaced, waits where the hub was."""
    false = ServiceProcess(HubSetup("server", rendezvous.keys.folder, TOKEN, NODES, CHANNELS, "127.0.0.1"), None)
    rendezvous.keys.revoke("server")
    rendezvous.keys.issue("server")
    true = rendezvous.keys.credentials("server").certificate
    address = type(rendezvous.hub.info)("server", false.info.address, true)
    with pytest.raises(RunError, match="lost the connection to the hub on node server"):
        HubEndpoint(address, rendezvous.keys.folder, TOKEN, CHANNELS).connect("phone")
    with pytest.raises(RunError, match="the certificate of the hub on node server is not valid: it was revoked"):
        HubEndpoint(false.info, rendezvous.keys.folder, TOKEN, CHANNELS).connect("phone")
    false.close()


def test_leaving_in_good_order_disturbs_nobody(rendezvous: Meeting) -> None:
    rendezvous.workers["server"].close()
    message = torch.ones(10, dtype=torch.uint8)
    assert rendezvous.carried(THERE, message).equal(message)
