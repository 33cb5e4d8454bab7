"""Operations have the same shape predicted and real, and refuse what is no time."""

from __future__ import annotations

from typing import Any

import pytest

from palmette.errors import InputError
from palmette.spec.files import validated
from palmette.spec.trace import Operation

SEND = {"iteration": 3, "node": "a", "instance": "I", "op": "send", "start_s": 0.5, "end_s": 1, "bytes": 12}


def test_a_line_of_a_trace_reads() -> None:
    assert validated(Operation, SEND) == Operation(
        iteration=3, node="a", instance="I", op="send", start_s=0.5, end_s=1.0, bytes=12.0
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("iteration", -1),
        ("iteration", "3"),
        ("iteration", True),
        ("op", "think"),
        ("start_s", -0.1),
        ("end_s", float("inf")),
        ("bytes", "12"),
        ("node", ""),
    ],
)
def test_what_is_none_is_refused_with_its_field(field: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        validated(Operation, SEND | {field: value})
    assert [fault.field for fault in caught.value.faults] == [field]
