"""Ways to spoil a valid file: its content at random places, or its bytes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Place = tuple[str | int, ...]

nested: list[Any] = []
for _ in range(150):
    nested = [nested]

texts = st.sampled_from(["", " ", "5", "-5 Mbit/s", "NaN", "1e400 W", "a\nb", "\x1b[2J", "\ud800", "x" * 5000, "→"])
numbers = st.sampled_from([0, -1, 2**70, 10**400, float("nan"), float("inf"), -1.5])
others = st.sampled_from([None, True, False, [], {}, nested, [[]], {"": {}}, {"a": None}, [None, "phone", 1]])
nonsense = texts | numbers | others
# What is likely still valid, and hard to compute with.
extremes = st.sampled_from(
    [0, 1, 2, 0.0, 1e-300, 5e-324, 1e-6, 0.3, 1e18, 10**12, "phone", "cloud", "S", "O3", "A", None, "step", "async"]
)
words = st.sampled_from(["nodes", "links", "tier", "memory", "memory_bytes", "into", "extra", "a\nb", "\ud800"])
scraps = st.sampled_from([b"{", b"]", b": ", b"- ", b"&a ", b"*a", b"!!", b'"', b"\\u", b"\t"])


def places(content: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in nested mappings and lists, the whole left out."""
    if isinstance(content, dict | list):
        for key, item in content.items() if isinstance(content, dict) else enumerate(content):
            yield (*at, key)
            yield from places(item, (*at, key))


def spoil(draw: st.DrawFn, content: Any, values: st.SearchStrategy[Any]) -> None:
    """Delete, replace or insert something at a random place."""
    found = list(places(content))
    if not found:
        return
    *way, last = draw(st.sampled_from(found))
    at = content
    for step in way:
        at = at[step]
    match draw(st.sampled_from(["delete", "replace", "replace", "insert"])):
        case "delete":
            del at[last]
        case "replace":
            at[last] = copy.deepcopy(draw(values))
        case _ if isinstance(at, list):
            at.insert(last, copy.deepcopy(draw(values | st.just(at[last]))))
        case _:
            at[draw(words)] = copy.deepcopy(draw(values | st.just(at[last])))


@st.composite
def spoilt(draw: st.DrawFn, content: Any, values: st.SearchStrategy[Any], most: int = 3) -> Any:
    """The content with one to ``most`` things wrong or odd."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, most))):
        spoil(draw, content, values)
    return content


@st.composite
def spoilt_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with some flipped, cut off, doubled or put in."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["flip", "cut", "double", "insert"])):
            case "flip":
                data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
            case "cut":
                data = data[:at]
            case "double":
                data = data[:at] + data[at : at + 40] + data[at:]
            case _:
                data = data[:at] + draw(scraps) + data[at:]
    return data
