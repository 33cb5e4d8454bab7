"""How a worker reports an error that ends it, and what the engine concludes from such reports.

An error of the network, the data or this project would occur on any node, and ends the run. A node that runs out of
memory may have less than the others: the run can continue without it, as without one that died.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence

from palmette.errors import NodeLost, PalmetteError, RunError
from palmette.runtime.transports.base import ConnectionLost, PeerSilent
from palmette.runtime.worker.commands import WorkerFailed

_OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "Cannot allocate memory", "out of memory")


def failure(error: BaseException) -> WorkerFailed:
    """A worker's report of an error; with PALMETTE_DEBUG set, the traceback goes to stderr."""
    if os.environ.get("PALMETTE_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, ConnectionLost):
        return WorkerFailed(str(error), not isinstance(error, PeerSilent), error.peer, error.link)
    return WorkerFailed(_reason(error), exhausted=_is_memory(error))


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, PalmetteError):
        return text
    if _is_memory(error):
        return f"out of memory: {text}" if text else "out of memory"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_memory(error: BaseException) -> bool:
    """Whether memory ran out; torch has no error class of its own for that on a CPU."""
    refused = isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)
    return isinstance(error, MemoryError) or refused


def blamed(told: Sequence[tuple[str, WorkerFailed]], silent: Callable[[str], bool | None]) -> RunError:
    """The error that the workers' failure reports, in the order of their arrival, mean for the run.

    A worker that failed by itself counts first. If all have only lost a peer, it is the peer of the first report, or
    the link to it if that peer is not ``silent`` towards the engine; ``silent`` is None for a node that has no part in
    the run.
    """
    node, failed = next(((n, f) for n, f in told if f.peer is None), told[0])
    said = f"node {node}: {failed.reason}"
    if failed.exhausted:
        return NodeLost(said, node)
    if failed.peer is None or (gone := silent(failed.peer)) is None:
        return RunError(said)
    pairs = [f.link or (n, f.peer) for n, f in told if f.peer is not None]
    apart = tuple((one, other) for one, other in pairs if one != other)
    return NodeLost(said, failed.peer, () if gone else apart)
