"""Which samples are held out for evaluation, and which of many are looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from palmette.zoo.data.base import data_error

# A single data set is shuffled once, by this seed, and one sample in so many held out.
SPLIT_SEED = 0
HOLD_OUT_ONE_IN = 10


def hold_out(name: str, samples: int) -> tuple[list[int], list[int]]:
    """The numbers of the samples to train on, and of those to evaluate on.

    Raises:
        InputError: there are too few.
    """
    if samples < HOLD_OUT_ONE_IN:
        raise data_error(name, f"has {samples} samples; expected {HOLD_OUT_ONE_IN}, to hold one out")
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(SPLIT_SEED)).tolist()
    held_out = samples // HOLD_OUT_ONE_IN
    return sorted(order[held_out:]), sorted(order[:held_out])


def spread(samples: int, most: int) -> Sequence[int]:
    """The numbers of all samples, or of ``most`` from the first to the last where there are more."""
    chosen: list[int] = np.linspace(0, samples - 1, min(samples, most)).round().astype(int).tolist()
    return chosen
