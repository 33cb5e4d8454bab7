"""What can go wrong, and the exit code that says so.

    PalmetteError            exit 1: it failed while running
    ├── InputError           exit 2: a file, a name or an option is wrong; carries every fault found
    ├── Infeasible           exit 3: nothing can meet the goal; names the constraint and the closest value
    └── RunError             exit 1: a run stopped before its end
        ├── NodeLost         a node died, froze or was cut off; the others are well
        └── Diverged         the loss is not finite; resumed, it would be again

Only these reach the command line, which prints their ``message`` and exits with ``exit_code``. A message names Python
arguments in ``str()``; the command line says their flags instead.
"""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import Any, Self

_NAMED = 3
_GUESSED = 20
_UP = Context(prec=6, rounding=ROUND_CEILING)


class Argument(str):
    """The name of a Python argument, as a part of a ``Message``."""

    __slots__ = ()


class Message(str):
    """A text that knows which of its ``parts`` are names of Python arguments."""

    __slots__ = ("parts",)
    parts: tuple[str, ...]

    def __new__(cls, *parts: str) -> Self:
        """The text of all parts; a part that is a message itself brings its own."""
        self = super().__new__(cls, "".join(parts))
        self.parts = tuple(p for part in parts for p in (part.parts if isinstance(part, Message) else (part,)))
        return self

    @classmethod
    def joined(cls, separator: str, texts: Iterable[str]) -> Message:
        """The texts with a separator between them."""
        return cls(*[part for text in texts for part in (separator, text)][1:])

    def naming(self, name: Callable[[str], str]) -> str:
        """The text where arguments have other names."""
        return "".join(name(part) if isinstance(part, Argument) else part for part in self.parts)

    def __reduce__(self) -> tuple[type[Message], tuple[str, ...]]:
        return type(self), self.parts  # to another process


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an input: where it stands, what is there, what was expected."""

    field: str
    value: Any
    expected: str
    file: str = ""

    @property
    def message(self) -> Message:
        """All of it in one line."""
        parts = [part for part in (one_line(self.file), self._name()) if part]
        return Message.joined(": ", [*parts, shown(self.value), one_line(self.expected)])

    def _name(self) -> str:
        return one_line(self.field)

    def __str__(self) -> str:
        return self.message


class ArgumentFault(Fault):
    """A wrong argument of a Python function; ``field`` is its name there, the command line says its flag instead."""

    def _name(self) -> str:
        return Argument(super()._name())


class PalmetteError(Exception):
    """Base of every error that a user may see."""

    exit_code = 1

    @property
    def message(self) -> Message:
        """What ``str()`` says, for those who name arguments in another way."""
        first = self.args[0] if self.args else ""
        return first if isinstance(first, Message) else Message(str(self))


class InputError(PalmetteError, ValueError):
    """Input that cannot be used; ``faults`` holds every reason, ``str()`` is a line for each."""

    exit_code = 2

    def __init__(self, faults: Fault | Iterable[Fault]) -> None:
        self.faults = [faults] if isinstance(faults, Fault) else list(faults)
        super().__init__(Message.joined("\n", (fault.message for fault in self.faults)))

    def __reduce__(self) -> tuple[type[InputError], tuple[list[Fault]]]:
        return type(self), (self.faults,)  # the faults come along to another process


class Infeasible(PalmetteError):
    """A goal that cannot be met; the reason names the constraint and the closest value.

    ``least_s`` is that value where it is a time, so that several answers can be combined.
    """

    exit_code = 3

    def __init__(self, reason: Fault | str, least_s: float | None = None) -> None:
        super().__init__(reason.message if isinstance(reason, Fault) else reason)
        self.least_s = least_s

    def __reduce__(self) -> tuple[type[Infeasible], tuple[str, float | None]]:
        return type(self), (self.message, self.least_s)


def too_late(argument: str, limit_s: float, least_s: float) -> Infeasible:
    """That the deadline which ``argument`` gives cannot be met, and the least time that can be had."""
    reason = f"cannot be met; the least that can be had is {not_below(least_s)} s"
    return Infeasible(ArgumentFault(argument, f"{limit_s:g} s", reason), least_s)


def not_below(value: float) -> str:
    """A least value as it stands in a message: six digits, rounded up, so that asking for what is named is enough."""
    return f"{float(_UP.create_decimal_from_float(value)):.6g}" if math.isfinite(value) else f"{value:g}"


class RunError(PalmetteError):
    """A run that stopped before its end; the message says why and what to do next."""


class NodeLost(RunError):
    """A node that is gone; or, where there are ``pairs`` of nodes that are well but lost each other, a link."""

    def __init__(self, message: str, node: str, pairs: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.node, self.pairs = node, pairs

    def __reduce__(self) -> tuple[type[NodeLost], tuple[str, str, tuple[tuple[str, str], ...]]]:
        return type(self), (str(self), self.node, self.pairs)


class Diverged(RunError):
    """A loss that is not finite: a run that is resumed with the same options comes to the same."""


def shown(value: Any, limit: int = 60) -> str:
    """The value as it stands in a message: one line, at most ``limit`` characters."""
    text = value if isinstance(value, str) and value else _BRIEF.repr(value)
    text = one_line(text if len(text) <= limit else text[: 20 * limit])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str) -> str:
    """The text on one line: line breaks and all else that a terminal would obey are written out."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class _Brief(reprlib.Repr):
    """A ``repr`` that ends soon, even where a few aliases in a file stand for billions of values."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxstring = self.maxlong = self.maxother = 200

    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to write out an integer of more than 4300 digits."""
        return super().repr_int(x, level) if x.bit_length() < 10_000 else f"an integer of {x.bit_length()} bits"


_BRIEF = _Brief()


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` most likely stands for, if there is one."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.7)
    return close[0] if close else None


def listed(names: Sequence[str]) -> str:
    """Names for people: all of up to four, else the first three and how many more there are."""
    if len(names) > _NAMED + 1:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def expected_name(word: str, kind: str, known: Sequence[str]) -> str:
    """What to say where ``word`` is not the name of a known ``kind``."""
    guess = nearest(word, known)
    if guess is not None:
        return f"no such {kind}; did you mean {guess}?"
    listed = ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
    return f"no such {kind}; expected one of {listed}" if known else f"no such {kind}; there is none"


class Guesses:
    """What to say of names that are not known: of the first ones, which was meant; of many, not each.

    A guess looks at all known names, so that many guesses among many names would take minutes.
    """

    def __init__(self, kind: str, known: Sequence[str]) -> None:
        self._kind, self._known, self._left = kind, known, _GUESSED

    def __call__(self, word: str) -> str:
        """What was expected in the place of ``word``."""
        self._left -= 1
        return expected_name(word, self._kind, self._known) if self._left >= 0 else f"no such {self._kind}"
