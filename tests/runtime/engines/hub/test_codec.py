"""Messages between engine and worker: read as written, and never anything but refused when mutilated."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import yaml

from palmette.runtime.data.samples import SourceGroup
from palmette.runtime.engines import probes
from palmette.runtime.engines.hub.codec import BadMessage, Codec, MessageParts
from palmette.runtime.engines.hub.messages import (
    PROTOCOL,
    TO_ENGINE,
    TO_WORKER,
    FetchKept,
    ForgetKept,
    Introduction,
    OrderedData,
    OrderedFormat,
    OrderedImages,
    OrderedObjective,
    OrderedSamples,
    OrderedTensors,
    OrderedTransform,
    WorkOrder,
)
from palmette.runtime.phase_programs import parts_of
from palmette.runtime.program import Channel
from palmette.runtime.record.operations import OperationRecord
from palmette.runtime.transports.tls.frames import BadFrame, control_frames, data_frames, decoded
from palmette.runtime.worker import commands as c
from palmette.runtime.worker.executor import Pace
from palmette.runtime.worker.setup import SetupNames
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.profile import Times
from palmette.zoo.data.item_format import class_format
from tests.control.run.test_processes import trees
from tests.runtime.rig import Rig
from tests.runtime.world import CLUSTER
from tests.thorough import mostly_thorough

COMMANDS = [
    c.Execute(0, 3, 7, 9),
    c.SetPace(1, Pace({4: 0.25})),
    c.GetState((1, 2), after=4),
    c.Calibrate(0),
    c.VerifyKept("phone", bytes(range(40))),
    c.TrustKept("phone", b""),
    c.AgreeOnMasks({"phone": bytes(range(32)), "tablet": b""}),
    c.DeleteKept(),
    c.Stop(),
    FetchKept(kept="0123456789abcdef", iterations=12, patience_s=60.0),
    ForgetKept(kept="0123456789abcdef"),
    probes.TimeLayers(model="lenet5", input_shape=(1, 28, 28), variants=(0.5,), freeze=("conv1.*",), threads=2),
    probes.TimeBuild(model="lenet5", input_shape=None, samples=8),
    probes.TimeTransfer(channels=(Channel(0, "a", "b"), Channel(1, "b", "a")), sizes=(64, 65_536), token=b"abc"),
    probes.Echo(payload=b"some bytes", answer_bytes=9),
    probes.ReadMeter(),
]
TIMES = Times(forward_s=(0.1, 0.2), backward_s=(0.3, 0.4), update_s=(0.0, 0.1), source="measured")
EVENTS = [
    Introduction(protocol=PROTOCOL, palmette_version="1", torch_version="2"),
    c.Ready({"phone": b"abc"}),
    c.KeptVerified("phone", b"1234"),
    c.KeptDeleted(),
    c.WorkerAlive(),
    c.IterationDone(0, 4, 0.5, 12.0, [OperationRecord(1, "send", 0, 2, 1.0, 2.0, 300)]),
    c.StateReply(b"weights" * 20, b"optimizer"),
    c.Calibrated(0, c.Calibration({1: 0.5}, {1: 0.25})),
    c.WorkerFailed("why", lost=True, peer="cloud", link=("phone", "cloud")),
    probes.LayerTimes({0.0: TIMES, 0.5: TIMES}),
    probes.BuildTime(0.5, 0.25, 0.125),
    probes.TransferTime(0.5),
    probes.Echoed(b"some bytes"),
    probes.MeterTotal(2.0, 9.0, "measured: a plug"),
]


def order() -> WorkOrder:
    """An order for a node of a tree, with all kinds of values."""
    rig = Rig([torch.nn.Linear(4, 4) for _ in range(5)], (4,))
    parts = parts_of(trees(5)["hierarchy"], rig.evaluator(validated(Cluster, yaml.safe_load(CLUSTER))))
    programs = tuple(part.programs.get("cloud") for part in parts)
    images = OrderedImages(stored_shape=(1, 2, 2), shape=(1, 2, 2), scale=torch.ones(1, 1, 1), shift=torch.zeros(1))
    tensors = OrderedTensors(shape=(3,), dtype=torch.float32, stored_dtype=torch.uint8)
    labels = class_format(10)
    return WorkOrder(
        node="cloud",
        names=SetupNames(model="lenet5", recipe=None, input_shape=(1, 8, 8), pruning=0.25, side="step"),
        programs=programs,
        layers=(1, 2, 5),
        weights=b"w" * 300,
        optimizer=b"",
        options={"optimizer": "sgd", "freeze": [], "span": {"first": 0, "total": 1, "epoch": 1}},
        objective=OrderedObjective(
            recipe=None,
            per_sample=1.0,
            labels=OrderedFormat(tensors=labels.tensors, structure=labels.structure, classes=labels.classes),
        ),
        source=OrderedSamples(
            input_shape=(1, 8, 8),
            dtype=torch.float64,
            seed=3,
            iterations=5,
            groups=(
                (SourceGroup((0, 1), 1500), OrderedData(name="digits", samples=1500, decoder=images)),
                (SourceGroup((2,), 10, 1), OrderedData(name="x", samples=10, decoder=tensors)),
            ),
            data={
                "y": OrderedData(name="y", samples=1, decoder=OrderedTransform(name="a.b:c", inner=tensors, shape=(3,)))
            },
        ),
        cpu_limit=0.5,
        device="cpu",
        threads=None,
        profiled_precision=None,
        rollback=True,
        samples="0123456789abcdef",
        token=bytes(16),
        channels=tuple(channel for program in programs if program for channel in program.channels),
    )


def assembled(data: bytes) -> bytes:
    parts, whole = MessageParts(), None
    for frame in control_frames(data):
        assert whole is None
        whole = parts.add(decoded(frame))
    assert whole is not None
    return bytes(whole)


@pytest.mark.parametrize(
    ("codec", "message"), [*((TO_WORKER, each) for each in COMMANDS), *((TO_ENGINE, each) for each in EVENTS)]
)
def test_what_is_read_is_what_was_written(codec: Codec, message: Any) -> None:
    found = codec.read(assembled(codec.written(message, "a run")))
    assert (found.run, found.message) == ("a run", message)


def test_an_order_is_read_as_it_was_written() -> None:
    made = order()
    found = TO_WORKER.read(assembled(TO_WORKER.written(made, "a run"))).message
    assert isinstance(found, WorkOrder)
    assert found.programs == made.programs
    assert found.model_copy(update={"source": None}) == made.model_copy(update={"source": None})
    assert found.source is not None
    assert made.source is not None
    (group, data), *_ = found.source.groups
    assert (list(group.sources), group.samples, data.name) == ([0, 1], 1500, "digits")
    assert isinstance(data.decoder, OrderedImages)
    assert data.decoder.scale.equal(torch.ones(1, 1, 1))
    assert found.source.data == made.source.data


def test_a_transfer_has_a_limit() -> None:
    most = probes.MOST_TRANSFERRED_BYTES
    with pytest.raises(BadMessage, match="answer_bytes"):
        TO_WORKER.read(TO_WORKER.written(probes.Echo(payload=b"", answer_bytes=most + 1), ""))


def test_each_side_refuses_what_only_the_other_says() -> None:
    with pytest.raises(BadMessage, match="unknown kind of message: Ready"):
        TO_WORKER.read(TO_ENGINE.written(c.Ready(), ""))
    with pytest.raises(BadMessage, match="unknown kind of message: Stop"):
        TO_ENGINE.read(TO_WORKER.written(c.Stop(), ""))


def test_a_message_that_is_announced_too_long_takes_no_memory() -> None:
    parts = MessageParts(1000)
    with pytest.raises(BadMessage, match="expected at most 1000"):
        parts.add(decoded(next(control_frames(bytes(2000)))))
    with pytest.raises(BadMessage, match="of kind data; expected control"):
        parts.add(decoded(next(data_frames(0, memoryview(b"abc")))))


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Bytes with some changed, cut out, doubled or replaced by numbers that matter."""
    found = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(found) + 1)
        match draw.randrange(5):
            case 0:
                found[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                del found[at : at + draw.randint(1, 30)]
            case 2:
                found[at:at] = found[at : at + draw.randint(1, 30)]
            case 3:
                found[at : at + 4] = draw.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"null", b"-1e9", b'"$by', b"[[[["])
            case _:
                found[at : at + 1] = draw.choice(b'0123456789-.eE[]{}",:').to_bytes(1, "little")
    return bytes(found)


@pytest.mark.parametrize("seed", mostly_thorough(range(50), few=2))
def test_mutilated_messages_are_read_or_refused(seed: int) -> None:
    draw = random.Random(seed)
    known = [(TO_WORKER, TO_WORKER.written(each, "run")) for each in [*COMMANDS, order()]]
    known += [(TO_ENGINE, TO_ENGINE.written(each, "run")) for each in EVENTS]
    refused = 0
    for _ in range(200):
        codec, data = draw.choice(known)
        try:
            codec.read(mutated(data, draw))
        except BadFrame:
            refused += 1
    assert refused > 100


def test_deep_json_is_refused() -> None:
    text = b'{"kind":"Stop","run":"","sent_s":1.0,"blobs":[],"body":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(BadMessage):
        TO_WORKER.read(len(text).to_bytes(4, "little") + text)
