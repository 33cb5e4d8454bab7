"""A fault is one line with file, field, value and what was expected, whatever is in it."""

from __future__ import annotations

import math
import pickle
import random

import pytest

from palmette.errors import (
    Argument,
    ArgumentFault,
    Fault,
    Infeasible,
    InputError,
    Message,
    PalmetteError,
    RunError,
    expected_name,
    nearest,
    not_below,
    shown,
    too_late,
)


def test_a_fault_says_where_what_and_what_was_expected() -> None:
    assert str(Fault("nodes.a", 5, "expected a mapping", "c.yaml")) == "c.yaml: nodes.a: 5: expected a mapping"
    assert str(Fault("--goal", "tiem", "did you mean time?")) == "--goal: tiem: did you mean time?"


def test_an_input_error_is_a_line_a_fault() -> None:
    faults = [Fault("a", "1\n2", "expected\na word"), Fault("b\r\n", None, "expected another", "f\n.yaml")]
    assert str(InputError(faults)).splitlines() == [
        r"a: 1\n2: expected\na word",
        r"f\n.yaml: b\r\n: None: expected another",
    ]
    assert InputError(faults[0]).faults == faults[:1]


def test_every_error_has_its_exit_code() -> None:
    assert [kind.exit_code for kind in (PalmetteError, InputError, Infeasible, RunError)] == [1, 2, 3, 1]


def test_a_message_names_its_arguments_as_it_is_asked_to() -> None:
    text = Message("expected ", Message(Argument("loss"), " above its loss"), " or ", Argument("deadline_s"))
    assert text == "expected loss above its loss or deadline_s"
    assert text.naming(str.upper) == "expected LOSS above its loss or DEADLINE_S"
    assert Message.joined(", ", ["a", text, "b"]).naming(str.upper) == f"a, {text.naming(str.upper)}, b"
    assert Message.joined(", ", []) == ""


@pytest.mark.parametrize(
    "error",
    [
        too_late("deadline_s", 1.0, 2.5),
        InputError([ArgumentFault("deadline_s", 1, "expected more", "f"), Fault("b", 2, "expected 3")]),
        RunError(Message("try ", Argument("deadline_s"))),
    ],
)
def test_an_error_knows_its_arguments_in_another_process_too(error: PalmetteError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    assert again.message.naming(str.upper) == error.message.naming(str.upper)
    assert "DEADLINE_S" in again.message.naming(str.upper)


def test_a_plain_error_has_a_message_without_arguments() -> None:
    assert RunError("loss: too large").message.naming(str.upper) == "loss: too large"
    assert RunError().message == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", "''"),
        ("a  b\tc", r"a  b\tc"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\ud800", r"\ud800"),
        (None, "None"),
        (2.5, "2.5"),
        ([1, [2, {"a": 3}]], "[1, [2, {'a': 3}]]"),
        ("x" * 99, "x" * 59 + "…"),
    ],
)
def test_a_value_is_shown_in_a_line_of_at_most_sixty(value: object, text: str) -> None:
    assert shown(value) == text


def test_an_integer_too_long_to_be_written_out_is_shown_by_its_size() -> None:
    assert shown(10**5000) == "an integer of 16610 bits"


def test_a_value_of_billions_of_parts_is_shown_at_once() -> None:
    huge: list[object] = ["a"] * 10
    for _ in range(30):
        huge = [huge] * 10
    assert len(shown(huge)) <= 60
    huge.append(huge)
    assert len(shown(huge)) <= 60


def test_the_nearest_name_is_offered_where_there_is_one() -> None:
    assert nearest("phnoe", ["server", "phone"]) == "phone"
    assert nearest("xyz", ["server", "phone"]) is None
    assert expected_name("xyz", "node", ["a", "b"]) == "no such node; expected one of a, b"
    assert expected_name("xyz", "node", [f"n{k}" for k in range(20)]).endswith("n10, n11, …")
    assert expected_name("xyz", "node", []) == "no such node; there is none"


def test_a_least_value_is_told_in_six_digits_and_never_below_itself() -> None:
    draw = random.Random(0)
    for value in [draw.choice([1, -1]) * 10 ** draw.uniform(-9, 9) for _ in range(1000)]:
        told = float(not_below(value))
        assert value <= told <= value + abs(value) * 1e-5
    assert [not_below(value) for value in (25.66521, 2.5, 150.0, 0.0, 1e-7, math.inf)] == [
        *("25.6653", "2.5", "150", "0", "1e-07", "inf")
    ]


def test_a_deadline_that_is_told_can_be_asked_for() -> None:
    assert str(too_late("deadline_s", 1.0, 25.66521)).endswith("can be had is 25.6653 s")
