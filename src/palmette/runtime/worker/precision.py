"""Automatic mixed precision: operations in 16 bits where torch takes them to be safe, losses in 32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils import _pytree as pytree

from palmette.runtime.options import Precision

_DTYPES: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(precision: Precision | None, device_type: str) -> AbstractContextManager[object]:
    """Compute in a precision; as it comes where there is none."""
    return nullcontext() if precision is None else torch.autocast(device_type, dtype=_DTYPES[precision])


def in_single_precision(outputs: Any) -> Any:
    """What a network returned, in float32 where it has floats."""
    return pytree.tree_map(lambda each: each.float() if each.is_floating_point() else each, outputs)
