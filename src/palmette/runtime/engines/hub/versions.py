"""Which workers a hub understands: those of its own version of the protocol and of the one before, and whose torch was
tested with its own.

Weights and optimizer states travel as plain tensors, so that other pairs of torch will mostly do. But a loss that is
computed by another version may differ in its last digits, which nobody would notice.
"""

from __future__ import annotations

import torch

from palmette.runtime.engines.hub.codec import BadMessage
from palmette.runtime.engines.hub.messages import PROTOCOL, Introduction

UNDERSTOOD = (PROTOCOL - 1, PROTOCOL)
TESTED = ({"2.4", "2.13"},)  # tests/control/run/test_another_torch.py
"""Versions of torch that were tested together, without the number behind the second dot."""


def refuse_other_version(said: Introduction, own_torch: str = str(torch.__version__)) -> None:
    """Refuse a worker that this hub does not understand, or whose torch was not tested with the hub's.

    Workers of the first version cannot say that any torch will do, and are let in with all, as they were.

    Raises:
        BadMessage: says what to do.
    """
    if said.protocol not in UNDERSTOOD:
        known = " and ".join(map(str, UNDERSTOOD))
        versions = f"the worker speaks version {said.protocol} of the protocol, the hub {known}"
        raise BadMessage(f"{versions}; expected the same version of palmette")
    if said.protocol > 1 and not (said.any_version or were_tested(said.torch_version, own_torch)):
        versions = f"torch {said.torch_version} was not tested with the hub's {own_torch}"
        raise BadMessage(f"{versions}; expected the same, or palmette worker --any-version")


def were_tested(one: str, other: str) -> bool:
    """Whether two versions of torch were tested together, or are the same."""
    pair = {_short(one), _short(other)}
    return len(pair) == 1 or any(pair <= known for known in TESTED)


def _short(version: str) -> str:
    """``2.13`` of ``2.13.0+cpu``."""
    return ".".join(version.partition("+")[0].split(".")[:2])
