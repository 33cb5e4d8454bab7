"""Where people ask a hub for something: who may ask for what, and the answer. One request on each stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

from palmette.errors import PalmetteError, one_line
from palmette.runtime.engines.hub.codec import LONGEST_JSON, MessageParts
from palmette.runtime.engines.hub.requests import (
    FOR_OPERATORS,
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
    RunList,
    StopRun,
    SubmitRun,
    WorkerEntry,
    WorkerList,
)
from palmette.runtime.transports.tls.frames import BadFrame, control_frames, decoded
from palmette.runtime.transports.tls.hub import PeerAuthentication, refuse
from palmette.spec.run_entry import RunEntry

_PATIENCE_S = 30.0
_AT_A_TIME = 16
# Only a plan is long.
_LONGEST_OF_VIEWERS = 1024**2


class RunStore(Protocol):
    """Keeps the runs of a hub. All of it may be called from any thread, and raises PalmetteError with a reason."""

    def entries(self) -> Sequence[RunEntry]:
        """All runs, the latest last."""
        ...

    def submit(self, plan: dict[str, Any], options: dict[str, Any], by: str) -> str:
        """Accept a run; returns its name."""
        ...

    def resume(self, run: str) -> None:
        """Continue a run."""
        ...

    def stop(self, run: str) -> None:
        """Stop a run."""
        ...

    def read(self, run: str, file: str, offset: int) -> tuple[bytes, int]:
        """A part of a file of a run, and the length of the file."""
        ...


class RunRequests:
    """Answers requests about the runs of a store; ``workers`` lists who is connected."""

    def __init__(self, auth: PeerAuthentication, store: RunStore, workers: Callable[[], Sequence[WorkerEntry]]) -> None:
        self._auth, self._store, self._workers = auth, store, workers
        self._free = asyncio.Semaphore(_AT_A_TIME)

    async def operate(self, stream: AsyncIterator[bytes], context: Any) -> None:
        """Answer one request; whoever has no role for it is refused."""
        came = await self._auth.introduced(stream, context, roles=("viewer", "operator"))
        wrong = self._auth.objection(came.certificate, came.node, roles=("operator",))
        try:
            most_bytes = LONGEST_JSON if wrong is None else _LONGEST_OF_VIEWERS
            asked = await asyncio.wait_for(_request(stream, most_bytes), _PATIENCE_S)
        except (BadFrame, StopAsyncIteration, TimeoutError) as error:
            await refuse(context, one_line(str(error)) or "there was no request")
        if wrong is not None and isinstance(asked, FOR_OPERATORS):
            self._auth.note("refusal", node=came.node, why=f"{type(asked).__name__}: {wrong}")
            await refuse(context, f"the certificate of {came.node} does not allow this: {wrong}")
        async with self._free:
            answer = await asyncio.to_thread(self._answered, asked, came.node)
        for frame in control_frames(FROM_HUB.written(answer, "")):
            await context.write(frame)

    def _answered(self, asked: HubRequest, by: str) -> Any:
        try:
            return self._answer(asked, by)
        except PalmetteError as error:
            return RequestRefused(why=one_line("; ".join(str(error).splitlines()))[:4000])
        except Exception as error:  # noqa: BLE001  (a request that nobody foresaw must not end the hub)
            return RequestRefused(why=f"it cannot be met: {type(error).__name__}")

    def _answer(self, asked: HubRequest, by: str) -> Any:
        match asked:
            case ListRuns():
                return RunList(runs=tuple(self._store.entries()))
            case ListWorkers():
                return WorkerList(workers=tuple(self._workers()))
            case ReadRun() | ReadWeights():
                data, size = self._store.read(asked.run, asked.file, asked.offset)
                return FilePart(data=data, size=size)
            case SubmitRun():
                run = self._store.submit(asked.plan, asked.options, by)
                self._auth.note("run", node=by, run=run)
                return RunAccepted(run=run)
            case ResumeRun():
                self._store.resume(asked.run)
                self._auth.note("resume", node=by, run=asked.run)
                return RunAccepted(run=asked.run)
            case StopRun():
                self._store.stop(asked.run)
                self._auth.note("stop", node=by, run=asked.run)
                return RunAccepted(run=asked.run)


async def _request(stream: AsyncIterator[bytes], most_bytes: int) -> HubRequest:
    parts, whole = MessageParts(most_bytes), None
    while whole is None:
        whole = parts.add(decoded(await anext(stream)))
    asked: HubRequest = TO_HUB.read(whole).message
    return asked
