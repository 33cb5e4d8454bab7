"""The runs at a hub, for those who started them or may watch them: one request and one answer at a time."""

from __future__ import annotations

from typing import Any, TypeVar

import grpc

from palmette.errors import Fault, InputError, RunError
from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.codec import MessageParts
from palmette.runtime.engines.hub.messages import HUB
from palmette.runtime.engines.hub.requests import (
    FROM_HUB,
    TO_HUB,
    FilePart,
    HubRequest,
    ListRuns,
    ListWorkers,
    ReadRun,
    ReadWeights,
    RequestRefused,
    ResumeRun,
    RunAccepted,
    RunFile,
    RunList,
    StopRun,
    SubmitRun,
    WeightsFile,
    WorkerEntry,
    WorkerList,
)
from palmette.runtime.transports.base import ConnectionLost
from palmette.runtime.transports.tls.frames import TOKEN_BYTES, control_frames, decoded, hello
from palmette.runtime.transports.tls.hub import SERVICE
from palmette.runtime.transports.tls.streams import StreamState
from palmette.spec.run_entry import RunEntry

_PATIENCE_S = 60.0

A = TypeVar("A")


class RunsAtHub:
    """The runs at a hub that one has access to.

    Every method raises RunError where the hub cannot be reached or refuses, and InputError where it cannot do what it
    is asked for.
    """

    def __init__(self, access: HubAccess) -> None:
        self._access, self._dialled = access, access.dialled()

    def __str__(self) -> str:
        return f"the hub at {self._access.address}"

    def entries(self) -> list[RunEntry]:
        """All runs, the latest last."""
        return list(self._asked(ListRuns(), RunList).runs)

    def workers(self) -> list[WorkerEntry]:
        """The workers that are connected."""
        return list(self._asked(ListWorkers(), WorkerList).workers)

    def read(self, run: str, file: RunFile, offset: int) -> tuple[bytes, int]:
        """A part of a file of a run, and the length of the file."""
        found = self._asked(ReadRun(run=run, file=file, offset=offset), FilePart)
        return found.data, found.size

    def read_weights(self, run: str, file: WeightsFile, offset: int) -> tuple[bytes, int]:
        """A part of a file of weights, and the length of the file."""
        found = self._asked(ReadWeights(run=run, file=file, offset=offset), FilePart)
        return found.data, found.size

    def stop(self, run: str) -> None:
        """Have a run stopped."""
        self._asked(StopRun(run=run), RunAccepted)

    def submit(self, plan: dict[str, Any], options: dict[str, Any]) -> str:
        """Have a plan run; returns the name of the run."""
        return self._asked(SubmitRun(plan=plan, options=options), RunAccepted).run

    def resume(self, run: str) -> None:
        """Have a run continued."""
        self._asked(ResumeRun(run=run), RunAccepted)

    def close(self) -> None:
        """End the connection."""
        self._dialled.close()

    def _asked(self, request: HubRequest, kind: type[A]) -> A:
        answer = self._answer(request)
        if isinstance(answer, RequestRefused):
            raise InputError(Fault("", str(self), answer.why))
        if not isinstance(answer, kind):
            raise RunError(f"{self} answers with {type(answer).__name__}")
        return answer

    def _answer(self, request: HubRequest) -> Any:
        state = StreamState(self._access.own.node, HUB, str(self))
        first = hello(bytes(TOKEN_BYTES), self._access.own.node)
        frames = [first, *control_frames(TO_HUB.written(request, ""))]
        parts = MessageParts()
        try:
            for data in self._dialled.stream_stream(f"/{SERVICE}/Operate")(iter(frames), timeout=_PATIENCE_S):
                if (whole := parts.add(decoded(data))) is not None:
                    return FROM_HUB.read(whole).message
        except grpc.RpcError as ended:
            raise self._reason(ended, state) from None
        raise RunError(f"{self} did not answer")

    def _reason(self, ended: Any, state: StreamState) -> Exception:
        if ended.code() is grpc.StatusCode.UNIMPLEMENTED:
            return RunError(f"{self} keeps no runs; expected one that was started with: palmette hub")
        if ended.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return RunError(f"{self} did not answer within {_PATIENCE_S:.0f} s")
        found = state.error(ended)
        if isinstance(found, ConnectionLost):
            why = str(found).rpartition(": ")[2]  # gRPC says the rest at length
            return RunError(f"no connection to {self}: {why}")
        return found
