"""What every worker needs, imported once by the fork server.

SIGTERM to the whole process group (a service that is stopped, ``timeout``) is ignored here: the engine gets it too, and
needs the workers for an orderly shutdown.
"""

from __future__ import annotations

import signal

import torch

from palmette.runtime.data import sources
from palmette.runtime.engines import local
from palmette.runtime.sync import registry
from palmette.runtime.transports import gloo

signal.signal(signal.SIGTERM, signal.SIG_IGN)

# The first optimizer imports torch's compiler: two seconds of CPU time, better spent once than in every worker.
torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)

__all__ = ["gloo", "local", "registry", "sources"]
