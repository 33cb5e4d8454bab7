"""Tensors in a safetensors file that has the same bytes for the same content.

The library writes the metadata in an order that differs from process to process; here it is sorted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save as to_bytes
from torch import Tensor

_LENGTH_BYTES = 8


def write_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file.

    Raises:
        OSError, SafetensorError: it cannot be written.
    """
    header, content = _parts(to_bytes({name: tensor.contiguous() for name, tensor in tensors.items()}))
    if metadata:
        header = {"__metadata__": dict(sorted(metadata.items())), **header}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    with path.open("wb") as file:
        file.writelines((len(text).to_bytes(_LENGTH_BYTES, "little"), text, content))


def _parts(written: bytes) -> tuple[dict[str, object], memoryview]:
    """The header of a file, which describes its tensors, and the bytes of the tensors."""
    end = _LENGTH_BYTES + int.from_bytes(written[:_LENGTH_BYTES], "little")
    return json.loads(written[_LENGTH_BYTES:end]), memoryview(written)[end:]
