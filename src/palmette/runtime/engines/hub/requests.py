"""What people say to a hub that keeps runs, and what it answers: one request and one answer on each stream.

    operator ──▶ hub    SubmitRun, ResumeRun, StopRun, ReadWeights
    either   ──▶ hub    ListRuns, ListWorkers, ReadRun
    hub ──▶ either      RunAccepted, RunList, WorkerList, FilePart, or RequestRefused

A viewer may list and read, an operator may do all; the role is in the certificate.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from palmette.runtime.engines.hub.codec import Codec
from palmette.runtime.engines.hub.limits import WorkerLimits
from palmette.runtime.engines.hub.messages import LONGEST_TEXT, HubMessage
from palmette.spec.run_entry import RunEntry, RunId

LONGEST_PART = 1024**2
"""Bytes of a file in one answer."""

RunFile = Literal["log.txt", "run.json", "metrics.jsonl", "trace.jsonl"]
WeightsFile = Literal["model.safetensors", "best.safetensors"]
_Offset = Annotated[int, Field(ge=0, le=2**62)]


class SubmitRun(HubMessage):
    """A plan that carries its cluster and profile, and the options of the run as in ``run.json``."""

    plan: dict[str, Any]
    options: dict[str, Any]


class ResumeRun(HubMessage):
    """Continue a run that has ended before its end."""

    run: RunId


class StopRun(HubMessage):
    """Stop a run, with a checkpoint, or take it out of the queue."""

    run: RunId


class ListRuns(HubMessage):
    """All runs."""


class ListWorkers(HubMessage):
    """All workers that are connected."""


class ReadRun(HubMessage):
    """A part of a file of a run, from ``offset`` on."""

    run: RunId
    file: RunFile
    offset: _Offset = 0


class ReadWeights(HubMessage):
    """A part of a file of weights, from ``offset`` on."""

    run: RunId
    file: WeightsFile
    offset: _Offset = 0


class RunAccepted(HubMessage):
    """The run that was submitted, resumed or stopped."""

    run: RunId


class RunList(HubMessage):
    """The runs, the latest last."""

    runs: tuple[RunEntry, ...]


class WorkerEntry(HubMessage):
    """A worker that is connected, since when, and its limits."""

    node: str
    since: str = Field(max_length=LONGEST_TEXT)
    palmette_version: str = Field(max_length=LONGEST_TEXT)
    torch_version: str = Field(max_length=LONGEST_TEXT)
    protocol: int
    limits: WorkerLimits


class WorkerList(HubMessage):
    """The workers that are connected, by name."""

    workers: tuple[WorkerEntry, ...]


class FilePart(HubMessage):
    """Bytes of a file, at most ``LONGEST_PART``, and how long it is now; one that is not there is empty."""

    data: bytes = Field(repr=False, max_length=LONGEST_PART)
    size: int = Field(ge=0)


class RequestRefused(HubMessage):
    """Why a request that its sender may make cannot be met."""

    why: str = Field(max_length=4000)


HubRequest = SubmitRun | ResumeRun | StopRun | ListRuns | ListWorkers | ReadRun | ReadWeights
FOR_OPERATORS = (SubmitRun, ResumeRun, StopRun, ReadWeights)
TO_HUB = Codec([SubmitRun, ResumeRun, StopRun, ListRuns, ListWorkers, ReadRun, ReadWeights])
FROM_HUB = Codec([RunAccepted, RunList, WorkerList, FilePart, RequestRefused])
