"""Weights in fixed point, as whole numbers modulo 2^64, of which sums are exact: for secure aggregation.

They are taken times the samples that they count for, with 24 bits behind the point. So what is rounded off of a mean is
at most a 2^-25th for each instance, divided by the samples of all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from palmette.errors import RunError

_FRACTION_BITS = 24
_SUM_BITS = 62
"""So many bits the magnitude of a sum may have."""


def fixed_point(value: Tensor, samples: int, parts: int) -> Tensor:
    """A tensor times its samples, for a sum of so many ``parts``; one of integers as it is.

    Raises:
        RunError: it has a number that is too large, or none.
    """
    if not value.is_floating_point():
        return value
    numbers = value.detach().cpu().double().reshape(-1).numpy() * samples
    most = 2.0 ** (_SUM_BITS - _FRACTION_BITS) / parts
    largest = np.max(np.abs(numbers), initial=0.0)
    if not largest < most:
        beyond = f"a weight or buffer has the magnitude {largest / samples:g} after {samples} samples"
        expected = f"secure aggregation adds up those below {most / samples:g}"
        raise RunError(f"{beyond}; {expected}; expected constants in buffers with persistent=False")
    return torch.from_numpy(np.rint(np.ldexp(numbers, _FRACTION_BITS)).astype(np.int64)).reshape(value.shape)


def mean_of(parts: Sequence[Tensor], samples: int, like: Tensor) -> Tensor:
    """The mean of what so many samples count for in all, as a tensor like another; of integers the first."""
    if not like.is_floating_point():
        return parts[0].detach().clone()
    total = np.sum([part.reshape(-1).numpy().view(np.uint64) for part in parts], axis=0, dtype=np.uint64)
    mean = torch.from_numpy(total.view(np.int64)).double() * 2.0**-_FRACTION_BITS / samples
    return mean.to(like.dtype).reshape(like.shape)


def fixed_like(tensor: Tensor) -> Tensor:
    """What has the size of a tensor in fixed point."""
    if not tensor.is_floating_point():
        return tensor
    return torch.empty(tensor.shape, dtype=torch.int64, device="meta")
