"""Values of options as people type them: durations, goals, shapes, keywords, lists."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.spec.goal import Goal

# A sample of 400 MB; far beyond what is meant, and before memory runs out.
MOST_NUMBERS = 10**8

N = TypeVar("N", int, float)


def parse_duration(argument: str, text: str) -> float:
    """A duration in seconds.

    Raises:
        InputError: it is not a duration above 0 with a unit.
    """
    duration_s = parse_seconds(argument, text)
    if not duration_s:
        raise InputError(ArgumentFault(argument, text, "expected more than 0"))
    return duration_s


def parse_seconds(argument: str, text: str) -> float:
    """A duration in seconds, which may be 0.

    Raises:
        InputError: it is not a duration with a unit.
    """
    from palmette.spec.units import DURATION

    try:
        duration_s = DURATION.parse(text)
    except ValueError as error:
        raise InputError(ArgumentFault(argument, text, str(error))) from None
    if not 0 <= duration_s < float("inf"):
        raise InputError(ArgumentFault(argument, text, "expected a duration of 0 or more"))
    return duration_s


def parse_goal(text: str, deadline: str | None, iteration_deadline: str | None, loss: float | None) -> Goal:
    """The goal that options describe.

    Raises:
        InputError: one of them cannot be read.
    """
    from palmette.spec.goal import Goal, parse_weights

    return Goal(
        weights=parse_weights(text),
        deadline_s=None if deadline is None else parse_duration("deadline", deadline),
        iteration_deadline_s=(
            None if iteration_deadline is None else parse_duration("iteration_deadline", iteration_deadline)
        ),
        loss=loss,
    )


def parse_shape(text: str | None) -> tuple[int, ...] | None:
    """The shape of one sample, None where none is given.

    Raises:
        InputError: it is not whole numbers separated by commas.
    """
    if text is None:
        return None
    try:
        shape = tuple(int(side) for side in text.split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        expected = "expected whole numbers of 1 or more, such as 3,32,32"
        raise InputError(ArgumentFault("input_shape", text, expected))
    if prod(shape) > MOST_NUMBERS:
        expected = f"expected at most {MOST_NUMBERS:,} numbers per sample"
        raise InputError(ArgumentFault("input_shape", text, expected))
    return shape


def parse_keywords(argument: str, text: str) -> dict[str, Any]:
    """Options as in a call of a Python function, such as ``betas=(0.9, 0.95), eps=1e-6``.

    Raises:
        InputError: they cannot be read.
    """
    try:
        call = ast.parse(f"options({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        found = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg is not None}
        if call.args or len(found) < len(call.keywords):
            raise ValueError
    except (SyntaxError, ValueError, AssertionError):
        expected = "expected name=value, with commas between several, such as betas=(0.9, 0.95), eps=1e-6"
        raise InputError(ArgumentFault(argument, text, expected)) from None
    return found


def parse_groups(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Options of the optimizer by pattern of weights, from texts such as ``*.bias: weight_decay=0``.

    Raises:
        InputError: one cannot be read.
    """
    groups = {}
    for text in texts:
        pattern, colon, options = text.partition(":")
        if not colon or not pattern.strip():
            expected = "expected a pattern and options, such as '*.bias: weight_decay=0'"
            raise InputError(ArgumentFault("groups", text, expected))
        groups[pattern.strip()] = parse_keywords("groups", options.strip())
    return groups


def parse_numbers(argument: str, text: str, kind: type[N]) -> tuple[N, ...]:
    """Numbers separated by commas, in the order given.

    Raises:
        InputError: one is no number of that kind.
    """
    try:
        return tuple(kind(part) for part in text.split(",") if part.strip())
    except ValueError:
        numbers = "whole numbers" if kind is int else "numbers"
        raise InputError(ArgumentFault(argument, text, f"expected {numbers} separated by commas")) from None


def parse_words(text: str) -> tuple[str, ...]:
    """Words separated by commas, in the order given."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
