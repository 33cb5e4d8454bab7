"""A node gets its certificate from the hub that it is invited to: both sides of one request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import grpc
from pydantic import Field

from palmette.errors import InputError, RunError, one_line
from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.codec import Codec, MessageParts
from palmette.runtime.engines.hub.messages import HUB, LONGEST_CERTIFICATE, HubMessage
from palmette.runtime.engines.hub.renewal import with_certificate
from palmette.runtime.transports.keys.credentials import Credentials
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.invitation import Invitation, own_request, redeem, refuse_other_authority
from palmette.runtime.transports.keys.pem import write, writing
from palmette.runtime.transports.tls.frames import TOKEN_BYTES, BadFrame, control_frames, decoded, hello
from palmette.runtime.transports.tls.hub import SERVICE, PeerAuthentication, refuse
from palmette.runtime.transports.tls.streams import StreamState

_PATIENCE_S = 30.0
_LONGEST_REQUEST = 2 * LONGEST_CERTIFICATE
_REDEEMING = threading.Lock()


class EnrolmentRequest(HubMessage):
    """A node's request for a certificate, in the PEM format."""

    request: bytes = Field(max_length=LONGEST_CERTIFICATE)


class EnrolmentAnswer(HubMessage):
    """The certificate, and the list of the revoked."""

    certificate: bytes = Field(max_length=LONGEST_CERTIFICATE)
    revoked: bytes


_REQUESTS, _ANSWERS = Codec([EnrolmentRequest]), Codec([EnrolmentAnswer])


async def answer_enrolment(auth: PeerAuthentication, keys: Keys, stream: AsyncIterator[bytes], context: Any) -> None:
    """At the hub: sign the request of a node that was invited."""
    came = await auth.introduced(stream, context, roles=("invited",))
    try:
        asked = await asyncio.wait_for(_asked(stream), _PATIENCE_S)
        made = await asyncio.to_thread(_redeemed, auth, keys, came.node, came.certificate, asked)
    except (BadFrame, StopAsyncIteration, TimeoutError, InputError) as error:
        why = one_line("; ".join(str(error).splitlines())) or "there was no request"
        auth.note("refusal", node=came.node, why=why)
        await refuse(context, why)
    for frame in control_frames(_ANSWERS.written(made, "")):
        await context.write(frame)


async def _asked(stream: AsyncIterator[bytes]) -> EnrolmentRequest:
    parts, whole = MessageParts(_LONGEST_REQUEST), None
    while whole is None:
        whole = parts.add(decoded(await anext(stream)))
    asked: EnrolmentRequest = _REQUESTS.read(whole).message
    return asked


def _redeemed(
    auth: PeerAuthentication, keys: Keys, node: str, shown: bytes, asked: EnrolmentRequest
) -> EnrolmentAnswer:
    with _REDEEMING:  # of two that come at once, the second finds the invitation revoked
        wrong = auth.objection(shown, node, roles=("invited",))
        if wrong is not None:
            raise BadFrame(f"the invitation of node {node} is not valid: {wrong}")
        made = redeem(keys, node, shown, asked.request)
        return EnrolmentAnswer(certificate=made, revoked=(keys.folder / "revoked.crl").read_bytes())


def enrolled(invitation: Invitation, keys: Keys) -> None:
    """On the node: make a key, have the hub sign a certificate for it, and keep both in a folder of keys.

    Raises:
        InputError: the folder is another authority's, or cannot be written.
        RunError: the hub cannot be reached, or refuses.
    """
    own = invitation.own
    refuse_other_authority(keys.folder, own)
    request = own_request(keys, own.node)
    answer = _answered(HubAccess(invitation.address, own), request)
    _keep(keys, own, answer)


def _answered(access: HubAccess, request: bytes) -> EnrolmentAnswer:
    state, parts = StreamState(access.own.node, HUB, f"the hub at {access.address}"), MessageParts()
    message = _REQUESTS.written(EnrolmentRequest(request=request), "")
    frames = [hello(bytes(TOKEN_BYTES), access.own.node), *control_frames(message)]
    with access.dialled() as dialled:
        try:
            for data in dialled.stream_stream(f"/{SERVICE}/Enroll")(iter(frames), timeout=_PATIENCE_S):
                if (whole := parts.add(decoded(data))) is not None:
                    answer: EnrolmentAnswer = _ANSWERS.read(whole).message
                    return answer
        except grpc.RpcError as ended:
            raise state.error(ended) from None
    raise RunError(f"the hub at {access.address} did not answer")


def _keep(keys: Keys, invited: Credentials, answer: EnrolmentAnswer) -> None:
    own = Credentials(
        invited.node, keys.file(invited.node, "key").read_bytes(), answer.certificate, invited.authority, answer.revoked
    )
    with_certificate(own, answer.certificate)
    with writing(keys.folder):
        keys.folder.chmod(0o700)
        write(keys.folder / "authority.crt", own.authority, 0o644)
        write(keys.folder / "revoked.crl", own.revoked, 0o644)
        write(keys.file(own.node, "crt"), own.certificate, 0o644)
    keys.credentials(own.node)
