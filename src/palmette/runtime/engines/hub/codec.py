"""Messages between engine and worker as bytes: JSON that is checked by its type, and raw bytes behind it. Never pickle.

    length of the JSON (4 bytes) │ JSON │ blob │ blob …

The JSON has the message's kind, its run, when it was sent, its fields, and how long the blobs are. Bytes, tensors and
dtypes are no JSON: bytes and a tensor's numbers are blobs, to which the fields refer by their number.

    {"kind": "StateReply", "run": "3f…", "sent_s": 12.5, "body": {"weights": {"$bytes": 0}, …}, "blobs": [4096, 128]}
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import torch
from pydantic import BaseModel, TypeAdapter, ValidationError
from torch import Tensor

from palmette.errors import one_line
from palmette.runtime.transports.tls.frames import BadFrame, Frame, FrameKind

_LENGTH = struct.Struct("<I")
# Records of an iteration and programs are the longest; weights are blobs.
LONGEST_JSON = 32 * 1024**2
MOST_BYTES = 2 * 1024**3
_LONGEST_RUN = 64
_DTYPES = {str(each).removeprefix("torch."): each for each in vars(torch).values() if isinstance(each, torch.dtype)}


class BadMessage(BadFrame):
    """Bytes that are no message, or not one that is allowed here."""


class Envelope(NamedTuple):
    """A message, the run it belongs to, and the sender's clock when it was sent."""

    run: str
    message: Any
    sent_s: float


class Codec:
    """Writes and reads messages of some kinds, by the names of their classes."""

    def __init__(self, kinds: Sequence[type]) -> None:
        self._adapters: dict[str, TypeAdapter[Any]] = {kind.__name__: TypeAdapter(kind) for kind in kinds}

    def written(self, message: Any, run: str, protocol: int | None = None) -> bytes:
        """A message of a run as bytes, for a reader of some version of the protocol, or of this one."""
        blobs: list[bytes] = []
        kind = type(message).__name__
        later = set() if protocol is None else _added_after(message, protocol)
        body = _plain(self._adapters[kind].dump_python(message, exclude=later), blobs)
        head = {"kind": kind, "run": run, "sent_s": time.monotonic(), "body": body, "blobs": list(map(len, blobs))}
        text = json.dumps(head, separators=(",", ":")).encode()
        return b"".join((_LENGTH.pack(len(text)), text, *blobs))

    def read(self, data: bytes | bytearray) -> Envelope:
        """The message in some bytes.

        Raises:
            BadMessage: they are none of these kinds; says why.
        """
        try:
            head, blobs = _parsed(memoryview(data))
            kind, run, sent_s = head["kind"], head["run"], head["sent_s"]
            if not (isinstance(kind, str) and isinstance(run, str) and isinstance(sent_s, float)):
                raise BadMessage("kind, run or time of a message is missing")
            if kind not in self._adapters or len(run) > _LONGEST_RUN:
                raise BadMessage(f"unknown kind of message: {one_line(kind)}")
            return Envelope(run, self._adapters[kind].validate_python(_restored(head["body"], blobs)), sent_s)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise BadMessage(f"a message is not valid: {one_line(where)}: {one_line(first['msg'])}") from None
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError, RuntimeError) as error:
            raise BadMessage(f"a message cannot be read: {type(error).__name__}") from None


def _added_after(message: Any, protocol: int) -> set[str]:
    """The fields of a message that a version of the protocol does not know: those that say ``since`` a later one."""
    known = message.__class__.model_fields if isinstance(message, BaseModel) else {}
    marks = {name: each.json_schema_extra for name, each in known.items()}
    return {name for name, mark in marks.items() if isinstance(mark, dict) and int(str(mark["since"])) > protocol}


class MessageParts:
    """A message of which some parts have arrived; memory grows with what has arrived, not with what was announced."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._content, self._size = most_bytes, bytearray(), 0

    def add(self, frame: Frame) -> bytearray | None:
        """Add a part; returns the message when it is whole.

        Raises:
            BadMessage: it is not the next part, or the message is too long.
        """
        if frame.kind is not FrameKind.CONTROL:
            raise BadMessage(f"a frame of kind {frame.kind.name.lower()}; expected control")
        if frame.offset != len(self._content) or (self._content and frame.size != self._size):
            raise BadMessage(f"byte {frame.offset} of {frame.size} is not the next part of a message")
        if frame.size > self._most_bytes:
            raise BadMessage(f"a message of {frame.size} bytes; expected at most {self._most_bytes}")
        self._size = frame.size
        self._content += frame.payload
        if len(self._content) < self._size:
            return None
        whole, self._content = self._content, bytearray()
        return whole


def _parsed(data: memoryview) -> tuple[dict[str, Any], list[bytes]]:
    """The JSON, and the blobs, which have to fill the rest exactly."""
    (long,) = _LENGTH.unpack_from(data)
    begin = _LENGTH.size + long
    if long > LONGEST_JSON or begin > len(data):
        raise BadMessage(f"a message of {len(data)} bytes with {long} of JSON")
    head = json.loads(bytes(data[_LENGTH.size : begin]))
    sizes = head["blobs"]
    if not all(isinstance(size, int) and size >= 0 for size in sizes) or begin + sum(sizes) != len(data):
        raise BadMessage("the blobs of a message do not fill it")
    blobs = []
    for size in sizes:
        blobs.append(bytes(data[begin : begin + size]))
        begin += size
    return head, blobs


def _plain(value: Any, blobs: list[bytes]) -> Any:
    """A value as JSON has it; bytes become blobs."""
    match value:
        case bytes() | bytearray():
            blobs.append(bytes(value))
            return {"$bytes": len(blobs) - 1}
        case Tensor():
            blobs.append(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
            dtype, shape = str(value.dtype).removeprefix("torch."), list(value.shape)
            return {"$tensor": len(blobs) - 1, "dtype": dtype, "shape": shape}
        case torch.dtype():
            return {"$dtype": str(value).removeprefix("torch.")}
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _plain(each, blobs) for key, each in value.items()}
        case list() | tuple() | range():
            return [_plain(each, blobs) for each in value]
        case None | str() | int() | float():
            return value
        case _:
            raise TypeError(f"a {type(value).__name__} cannot be sent in a message")


def _restored(value: Any, blobs: Sequence[bytes]) -> Any:
    """What ``_plain`` was given, but for tuples and keys, which the message's type restores."""
    if isinstance(value, list):
        return [_restored(each, blobs) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$bytes"}:
        return blobs[_index(value["$bytes"])]
    if value.keys() == {"$dtype"}:
        return _DTYPES[value["$dtype"]]
    if value.keys() == {"$tensor", "dtype", "shape"}:
        numbers = torch.frombuffer(bytearray(blobs[_index(value["$tensor"])]), dtype=_DTYPES[value["dtype"]])
        return numbers.reshape(value["shape"])
    return {key: _restored(each, blobs) for key, each in value.items()}


def _index(number: Any) -> int:
    if not isinstance(number, int) or number < 0:
        raise BadMessage("a blob without a number")
    return number
