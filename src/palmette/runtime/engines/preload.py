"""What every worker needs, imported once by the process from which all of them are forked.

A signal to the whole group (a service that is stopped, ``timeout``) reaches the engine too, which ends all in good
order and needs the workers for it.
"""

from __future__ import annotations

import signal

import torch

from palmette.runtime.engines import local

signal.signal(signal.SIGTERM, signal.SIG_IGN)

# The first optimizer imports what compiles networks: two seconds of a CPU, better spent once than by every worker.
torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)

__all__ = ["local"]
