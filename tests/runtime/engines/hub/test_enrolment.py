"""A node that is invited gets its certificate from the hub: once, for a key of its own, and nobody else does."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from palmette.cli import execute
from palmette.errors import InputError, RunError
from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.enrolment import _REQUESTS, EnrolmentRequest, enrolled
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.invitation import invite, own_request, read_invitation
from palmette.runtime.transports.tls.frames import TOKEN_BYTES, control_frames, hello
from tests.control.hub_workers import HubWorkers
from tests.runtime.engines.hub.test_codec import mutated
from tests.runtime.engines.hub.test_strangers import HELLO, MINE, answered, frames_of
from tests.runtime.world import NODES, Runs
from tests.thorough import mostly_thorough

DENIED = grpc.StatusCode.PERMISSION_DENIED


@pytest.fixture
def place(runs: Runs) -> Iterator[HubWorkers]:
    with HubWorkers(runs.folder) as made:
        yield made


def test_a_node_makes_its_key_and_gets_a_certificate_once(place: HubWorkers, tmp_path: Path) -> None:
    code, there = invite(place.keys, "tablet", place.address), Keys(tmp_path / "there")
    enrolled(read_invitation(code), there)
    own = there.credentials("tablet")
    assert not place.keys.file("tablet", "key").exists(), "the key stays where it was made"
    assert place.keys.credentials("phone").objection(own.certificate, "tablet") is None
    with pytest.raises(RunError, match="it was revoked, as a code is once it was used"):
        enrolled(read_invitation(code), Keys(tmp_path / "another"))
    with pytest.raises(InputError, match="has the certificate of tablet already"):
        enrolled(read_invitation(code), there)
    events = [json.loads(line)["event"] for line in (place.keys.folder / "audit.jsonl").read_text().splitlines()]
    assert events[-4:] == ["invite", "sign", "revoke", "refusal"]


def test_an_invitation_is_for_nothing_else(place: HubWorkers) -> None:
    own = read_invitation(invite(place.keys, "tablet", place.address)).own
    first = hello(bytes(TOKEN_BYTES), "tablet")
    for method in ("Enlist", "Attend", "Carry"):
        assert answered(HubAccess(place.address, own), [first, *frames_of(MINE)], method) is DENIED
    assert answered(HubAccess(place.address, own), [HELLO, *frames_of(MINE)]) is DENIED


def test_certificates_of_nodes_are_no_invitations(place: HubWorkers, tmp_path: Path) -> None:
    request = own_request(Keys(tmp_path / "there"), "phone")
    frames = [HELLO, *control_frames(_REQUESTS.written(EnrolmentRequest(request=request), ""))]
    assert answered(HubAccess(place.address, place.keys.credentials("phone")), frames, "Enroll") is DENIED


def test_the_request_of_another_node_is_refused(place: HubWorkers, tmp_path: Path) -> None:
    found = read_invitation(invite(place.keys, "tablet", place.address))
    request = own_request(Keys(tmp_path / "there"), "server")
    message = _REQUESTS.written(EnrolmentRequest(request=request), "")
    frames = [hello(bytes(TOKEN_BYTES), "tablet"), *control_frames(message)]
    assert answered(HubAccess(place.address, found.own), frames, "Enroll") is DENIED
    assert not place.keys.file("tablet", "crt").exists()


def test_a_hub_without_the_authority_cannot(place: HubWorkers, tmp_path: Path) -> None:
    code = invite(place.keys, "tablet", place.address)
    (place.keys.folder / "authority.key").unlink()
    with pytest.raises(RunError, match="has no key of the authority"):
        enrolled(read_invitation(code), Keys(tmp_path / "there"))


def test_an_invitation_can_be_revoked_before_it_is_used(place: HubWorkers, tmp_path: Path) -> None:
    code = invite(place.keys, "tablet", place.address)
    place.keys.revoke("tablet")
    with pytest.raises(RunError, match="it was revoked"):
        enrolled(read_invitation(code), Keys(tmp_path / "there"))


def test_a_node_with_a_certificate_is_not_invited(place: HubWorkers) -> None:
    with pytest.raises(InputError, match="its certificate is valid until"):
        invite(place.keys, "phone", place.address)


def test_codes_that_are_none(place: HubWorkers, capsys: pytest.CaptureFixture[str]) -> None:
    code, draw = invite(place.keys, "tablet", place.address), random.Random(0)
    wrong = [code[:-1], code[1:], "", "nonsense", "é", "A" * 30_000]
    for _ in range(200):
        k = draw.randrange(len(code) - 6)
        wrong.append(code[:k] + ("B" if code[k] == "A" else "A") + code[k + 1 :])
    for each in wrong:
        with pytest.raises(InputError, match="is not a complete code of palmette keys invite"):
            read_invitation(each)
    assert execute(["worker", "--enroll", "nonsense"]) == 2
    assert capsys.readouterr().err == ("palmette: --enroll: the code: is not a complete code of palmette keys invite\n")


@pytest.mark.parametrize("seed", mostly_thorough(range(50), few=1))
def test_mutilated_requests(place: HubWorkers, tmp_path: Path, seed: int) -> None:
    draw, own = random.Random(seed), read_invitation(invite(place.keys, "tablet", place.address)).own
    request = own_request(Keys(tmp_path / "there"), "tablet")
    for _ in range(60):
        frames = [
            hello(bytes(TOKEN_BYTES), "tablet"),
            *control_frames(_REQUESTS.written(EnrolmentRequest(request=request), "")),
        ]
        which = draw.randrange(len(frames))
        frames[which] = mutated(frames[which], draw)
        assert answered(HubAccess(place.address, own), frames, "Enroll") in (DENIED, grpc.StatusCode.OK)
    nodes = {each.node for each in place.keys.entries()}
    assert nodes <= {"hub", *NODES, "tablet"}, "whoever the frames say it is, it is the one that was invited"
