"""What a run and a pre-training are asked alike is checked alike, and says whether nodes are emulated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from palmette.control.pretrain.request import PretrainRequest
from palmette.control.run.request import CommonRequest, Request
from palmette.errors import InputError
from palmette.testbed.registry import TESTBEDS

KINDS: list[Callable[..., CommonRequest]] = [Request, partial(PretrainRequest, model="lenet5")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("engine", "testbed", "emulated"), [("local", "paced", True), ("ray", "none", False)])
def test_nodes_are_emulated_unless_hosts_are_real(
    kind: Callable[..., CommonRequest], engine: str, testbed: str, emulated: bool
) -> None:
    asked = kind(engine=engine)
    assert (asked.testbed, asked.emulated) == (testbed, emulated)


def test_every_testbed_but_one_emulates() -> None:
    assert [name for name in TESTBEDS if not Request(testbed=name).emulated] == ["none"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"engine": "locl"}, "engine: locl: no such engine; did you mean local?"),
        ({"testbed": "pace"}, "testbed: pace: no such testbed; did you mean paced?"),
        ({"dilation": 0.5}, "dilation: 0.5: expected a number from 1 to 1e+06"),
        ({"dilation": 1e300}, "dilation: 1e+300: expected a number from 1 to 1e+06"),
        ({"input_shape": (3, 0)}, "input_shape: (3, 0): expected whole numbers of 1 or more"),
    ],
)
def test_what_both_ask_is_refused_alike(
    kind: Callable[..., CommonRequest], arguments: dict[str, object], line: str
) -> None:
    with pytest.raises(InputError) as caught:
        kind(**arguments)
    assert str(caught.value) == line
