"""How the processes of a run come to be: forked from one that has imported what they need, and nothing else."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext


def forking() -> ForkServerContext:
    """The context for all processes of a run; whoever starts the first one, the rest will find it warm."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["palmette.runtime.warm"])
    return context
