"""Learning curves: the losses of real trainings, through prunings and changes of nodes.

A file of curves (``palmette.curves/1``) is JSON lines: the first says how the curves were made, each other line is
one curve. So a collection grows line by line, and an interrupted one can continue. In Python it is one document, whose
faults name a curve by its number: ``curves[0]`` is the second line.
"""

from __future__ import annotations

import json
import os
from typing import Annotated, Any, Literal

from pydantic import Field

from palmette.errors import Fault, InputError
from palmette.spec.document import Count, Name, Number, OpenDocument, Positive
from palmette.spec.files import parsed_json, read_text, validated

Fraction = Annotated[float, Field(strict=True, ge=0, lt=1)]
Seed = Annotated[int, Field(strict=True, ge=0)]


class CurvePhase(OpenDocument):
    """A part of a training: on one set of nodes with its data, with a model of one size.

    ``pruning`` is the requested fraction of the original's parameters to remove, ``removed`` the real one.
    ``start_loss`` is that of a forward pass before any epoch, ``losses`` has the mean over the batches of each.
    """

    nodes: Name
    samples: Count
    classes: Count
    pruning: Fraction
    removed: Fraction | None = None
    start_loss: Number
    losses: Annotated[tuple[Number, ...], Field(min_length=1)]


class Curve(OpenDocument):
    """One training, from the whole model on the first set of nodes to the last."""

    seed: Seed
    phases: Annotated[tuple[CurvePhase, ...], Field(min_length=1)]

    def key(self) -> Key:
        """What distinguishes it from other curves: the seed, and nodes, pruning and epochs of each phase."""
        return (self.seed, *((phase.nodes, phase.pruning, len(phase.losses)) for phase in self.phases))

    def to_json(self) -> str:
        """The curve as a line of a file."""
        return _line(self.model_dump(mode="json"))


Key = tuple[Any, ...]


class Origin(OpenDocument):
    """How curves were made: the network, the data, and how it was trained.

    ``input_shape`` is that of one sample where it was given, as the network does not say.
    """

    format: Literal["palmette.curves/1"] = "palmette.curves/1"
    model: Name
    data: Name
    batch: Count
    optimizer: Name
    lr: Positive
    input_shape: tuple[Count, ...] | None = None

    def to_json(self) -> str:
        """The first line of a file of curves."""
        return _line(self.model_dump(mode="json", exclude={"curves"}, exclude_none=True))


class Curves(Origin):
    """A whole file: how the curves were made, and the curves."""

    curves: tuple[Curve, ...]


def load_curves(path: str | os.PathLike[str]) -> Curves:
    """Read a file of curves.

    Raises:
        InputError: the file cannot be read, or is no file of curves; holds every fault.
    """
    return parsed_curves(read_text(path), str(path))


def load_unfinished(path: str | os.PathLike[str]) -> tuple[Curves, int]:
    """The curves of a file whose last line may be half written, and the number of bytes of its complete lines.

    Raises:
        InputError: the file cannot be read, or has other faults.
    """
    text = read_text(path)
    whole = text[: text.rfind("\n") + 1]
    return parsed_curves(whole, str(path)), len(whole.encode())


def parsed_curves(text: str, file: str) -> Curves:
    """The curves that a file's text holds.

    Raises:
        InputError: it holds none, or has faults; holds all of them.
    """
    rows = [parsed_json(line, f"{file}:{number}") for number, line in enumerate(text.splitlines(), 1)]
    if not rows or not isinstance(rows[0], dict) or "format" not in rows[0]:
        raise InputError(Fault("format", "missing", "expected 'palmette.curves/1' in the first line", file))
    return validated(Curves, rows[0] | {"curves": rows[1:]}, file)


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
