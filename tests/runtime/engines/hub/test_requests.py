"""Mutilated requests of people, with and without a certificate: no crash, no growth, and nothing is done."""

from __future__ import annotations

import gc
import random
import resource
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from palmette.errors import Fault, InputError
from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.client import RunsAtHub
from palmette.runtime.engines.hub.requests import (
    TO_HUB,
    ListRuns,
    ListWorkers,
    ReadRun,
    ReadWeights,
    ResumeRun,
    StopRun,
    SubmitRun,
)
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.tls.frames import TOKEN_BYTES, control_frames, hello
from palmette.spec.run_entry import RunEntry
from tests.control.hub_workers import HubWorkers
from tests.runtime.engines.hub.test_codec import mutated
from tests.runtime.engines.hub.test_strangers import MOST_GROWTH_MB, answered
from tests.runtime.world import Runs
from tests.thorough import mostly_thorough

RUN = "0123abcd"
REQUESTS = [
    ListRuns(),
    ListWorkers(),
    SubmitRun(plan={"model": "lenet5", "phases": [{}]}, options={"seed": 3, "data": "digits"}),
    ResumeRun(run=RUN),
    StopRun(run=RUN),
    ReadRun(run=RUN, file="log.txt", offset=7),
    ReadWeights(run=RUN, file="model.safetensors"),
]
FINE = (grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT)


class Keeper:
    """Keeps no runs, and notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def entries(self) -> list[RunEntry]:
        return []

    def submit(self, plan: dict[str, Any], options: dict[str, Any], by: str) -> str:
        self.asked.append((by, plan, options))
        return RUN

    def resume(self, run: str) -> None:
        raise InputError(Fault("run", run, "no such run"))

    def stop(self, run: str) -> None:
        raise KeyError(run)

    def read(self, run: str, file: str, offset: int) -> tuple[bytes, int]:
        assert file in ("log.txt", "run.json", "metrics.jsonl", "trace.jsonl", "model.safetensors", "best.safetensors")
        assert offset >= 0
        return b"x", 1


@pytest.fixture
def place(runs: Runs) -> Iterator[HubWorkers]:
    with HubWorkers(runs.folder) as made:
        made.keys.issue("alice", role="operator")
        made.keys.issue("screen", role="viewer")
        yield made


@pytest.fixture
def keeper(place: HubWorkers) -> Keeper:
    made = Keeper()
    place.hub.keep_runs(made)
    return made


def frames_for(name: str, request: Any) -> list[bytes]:
    return [hello(bytes(TOKEN_BYTES), name), *control_frames(TO_HUB.written(request, ""))]


@pytest.mark.parametrize("seed", mostly_thorough(range(50), few=1))
@pytest.mark.parametrize("name", ["alice", "screen", "phone"])
def test_mutilated_requests(place: HubWorkers, keeper: Keeper, name: str, seed: int) -> None:
    """Each attempt ends by itself, and only an operator's may be a run."""
    draw, door = random.Random(seed), HubAccess(place.address, place.keys.credentials(name))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(70):
        frames = frames_for(name, draw.choice(REQUESTS))
        which = draw.randrange(len(frames))
        frames[which] = mutated(frames[which], draw)
        assert answered(door, frames, "Operate") in FINE
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MOST_GROWTH_MB
    assert all(by == "alice" for by, _, _ in keeper.asked)
    assert RunsAtHub(HubAccess(place.address, place.keys.credentials("screen"))).entries() == []


@pytest.mark.usefixtures("keeper")
def test_a_viewer_cannot_fill_the_memory_of_a_hub(place: HubWorkers) -> None:
    long = SubmitRun(plan={"model": "x" * 2**21}, options={})
    doors = {name: HubAccess(place.address, place.keys.credentials(name)) for name in ("alice", "screen")}
    ended = {name: answered(door, frames_for(name, long), "Operate") for name, door in doors.items()}
    assert ended == {"alice": grpc.StatusCode.OK, "screen": grpc.StatusCode.PERMISSION_DENIED}


def test_strangers_are_refused_in_the_handshake(place: HubWorkers, keeper: Keeper, runs: Runs) -> None:
    others = Keys(runs.folder / "others")
    others.init()
    others.issue("alice", role="operator")
    real, theirs = place.keys.credentials("alice"), others.credentials("alice")
    door = HubAccess(place.address, type(real)("alice", theirs.key, theirs.certificate, real.authority, b""))
    for request in REQUESTS:
        assert answered(door, frames_for("alice", request), "Operate") is grpc.StatusCode.UNAVAILABLE
    assert not keeper.asked


@pytest.mark.parametrize(
    "request_", [each for each in REQUESTS if not isinstance(each, ListRuns | ListWorkers | ReadRun)]
)
@pytest.mark.usefixtures("keeper")
def test_what_only_operators_may(place: HubWorkers, request_: Any) -> None:
    allowed = {
        name: answered(HubAccess(place.address, place.keys.credentials(name)), frames_for(name, request_), "Operate")
        for name in ("alice", "screen", "phone", "hub")
    }
    denied = grpc.StatusCode.PERMISSION_DENIED
    assert allowed == {"alice": grpc.StatusCode.OK, "screen": denied, "phone": denied, "hub": denied}


@pytest.mark.usefixtures("keeper")
def test_what_a_keeper_did_not_foresee_is_an_answer(place: HubWorkers) -> None:
    client = RunsAtHub(HubAccess(place.address, place.keys.credentials("alice")))
    with pytest.raises(InputError, match="it cannot be met: KeyError"):
        client.stop(RUN)
    with pytest.raises(InputError, match="no such run"):
        client.resume(RUN)
