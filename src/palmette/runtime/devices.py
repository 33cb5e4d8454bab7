"""What a node computes on, in one place: which devices there are, waiting for them, and copies to and from them.

A device other than the CPU computes while Python goes on; whoever reads a clock waits for it first. Copies to a GPU of
NVIDIA go through page-locked ("pinned") memory of the host, from which its copy engine reads without help of the CPU.
Nothing here was ever run on a GPU: tests have the CPU, and ``meta``, which has shapes but no numbers.
"""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from palmette.errors import RunError
from palmette.spec.cluster import DeviceName

DEVICES: tuple[DeviceName, ...] = get_args(DeviceName)
HOST = torch.device("cpu")


def is_usable(name: str) -> bool:
    """Whether torch can compute on a device on this machine."""
    if name == "cuda":
        return torch.cuda.is_available()
    if name == "mps":
        return torch.backends.mps.is_available()
    return name in ("cpu", "meta")


def usable_device(name: str) -> torch.device:
    """The device of that name.

    Raises:
        RunError: this machine, or its torch, has none.
    """
    if not is_usable(name):
        raise RunError(f"device: {name}: this machine has no usable GPU; expected device: cpu")
    return torch.device(name)


def synchronize(device: torch.device) -> None:
    """Wait until a device has done all that it was given; the CPU does it at once."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; itself if it is there."""
    if device.type == "cuda" and tensor.device == HOST:
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def to_host(tensor: Tensor) -> Tensor:
    """A tensor in the host's memory; itself if it is there."""
    if tensor.device.type != "cuda":
        return tensor.cpu()
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    pinned.copy_(tensor, non_blocking=True)
    synchronize(tensor.device)
    return pinned
