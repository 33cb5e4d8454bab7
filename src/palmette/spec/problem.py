"""PACT's problem: models that may train on sets of nodes, and the cost and the loss of each epoch and change.

Times are seconds, energies joules. A loss that is listed is a change of the loss: ``run[…].loss_…[k - 1]`` that of
epoch k of the whole training, the last one repeating. What is not listed is impossible.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from palmette.errors import expected_name
from palmette.spec.document import LocatedFault, Name, Number, OpenDocument, Positive, entries, part, refuse
from palmette.spec.measurements import Divisor

Pair = tuple[Name, Name]
"""A model and the set of nodes that trains it."""
Difference = Annotated[float, Field(strict=True, ge=-1e12, le=1e12)]
Differences = Annotated[tuple[Difference, ...], Field(min_length=1)]


class Start(OpenDocument):
    """Where the training stands before its first epoch."""

    model: Name
    nodes: Name
    loss: Number


class Run(OpenDocument):
    """One epoch of a model on a set of nodes; ``loss_true`` is what is expected unless it is given."""

    model: Name
    nodes: Name
    time_s: Number
    energy_j: Number
    loss_expected: Differences
    loss_robust: Differences
    loss_true: Differences | None = None

    @property
    def pair(self) -> Pair:
        """The model and the nodes."""
        return self.model, self.nodes


class Change(OpenDocument):
    """From one model and set of nodes to another; ``loss_true`` is what is expected unless it is given.

    ``compress`` is how the model is made smaller; a change may be listed once for each way.
    """

    from_: Annotated[Pair, Field(alias="from")]
    to: Pair
    compress: Literal["prune", "distill"] = "prune"
    time_s: Number
    energy_j: Number
    loss_expected: Difference
    loss_robust: Difference
    loss_true: Difference | None = None


class Problem(OpenDocument):
    """Reach a loss by a deadline with the least energy, by changing models and nodes between epochs.

    ``loss_floor`` is the least loss that is possible, if that is known: no loss falls below it.
    """

    format: Literal["palmette.pact/1"] = "palmette.pact/1"
    models: Annotated[tuple[Name, ...], Field(min_length=1)]
    node_sets: Annotated[tuple[Name, ...], Field(min_length=1)]
    start: Start
    target_loss: Number
    deadline_s: Positive
    loss_step: Divisor
    time_step_s: Divisor
    loss_floor: Number | None = None
    run: Annotated[tuple[Run, ...], Field(min_length=1)]
    change: tuple[Change, ...] = ()

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        wrong = self.wrong_names(self.model_dump())
        if wrong:
            refuse("Problem", wrong)
        return self

    @classmethod
    def wrong_names(cls, data: Mapping[Any, Any]) -> list[LocatedFault]:
        """Names and pairs that are not there, or there twice."""
        return [*_wrong_lists(data), *_wrong_models_and_nodes(data), *_wrong_pairs(data)]

    def to_json(self) -> str:
        """The problem as the text of a file."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


def _wrong_lists(data: Mapping[Any, Any]) -> Iterator[LocatedFault]:
    for field in ("models", "node_sets"):
        yield from _twice(((field, index), name) for index, name in entries(data, field) if isinstance(name, str))


def _wrong_models_and_nodes(data: Mapping[Any, Any]) -> Iterator[LocatedFault]:
    known = {field: [n for _, n in entries(data, field) if isinstance(n, str)] for field in ("models", "node_sets")}
    for at, word, field in _mentioned(data):
        if known[field] and word not in known[field]:
            kind = "model" if field == "models" else "set of nodes"
            yield LocatedFault(at, word, expected_name(word, kind, known[field]))


def _mentioned(data: Mapping[Any, Any]) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Every name of a model or a set of nodes: where it stands, the name, the list that should have it."""
    places: list[tuple[tuple[str | int, ...], Any]] = [(("start",), part(data, "start"))]
    places += [(("run", index), run) for index, run in entries(data, "run")]
    for at, holder in places:
        for key, field in (("model", "models"), ("nodes", "node_sets")):
            if isinstance(word := part(holder, key), str):
                yield (*at, key), word, field
    for index, change in entries(data, "change"):
        for key in ("from", "to"):
            for side, word in entries(change, key)[:2]:
                if isinstance(word, str):
                    yield ("change", index, key, side), word, ("models", "node_sets")[side]


def _wrong_pairs(data: Mapping[Any, Any]) -> Iterator[LocatedFault]:
    runs = [
        (("run", k), pair)
        for k, run in entries(data, "run")
        if (pair := _pair([part(run, "model"), part(run, "nodes")]))
    ]
    yield from _twice((at, ", ".join(pair)) for at, pair in runs)
    listed = {pair for _, pair in runs}
    changes = []
    for index, change in entries(data, "change"):
        pairs = [_pair([name for _, name in entries(change, key)]) for key in ("from", "to")]
        if None in pairs:
            continue
        here, there = pairs
        if here == there:
            yield LocatedFault(("change", index), _shown(there), "it changes nothing; expected two different pairs")
        elif there not in listed:
            yield LocatedFault(("change", index, "to"), _shown(there), "it leads to a pair that run does not list")
        way = " by distillation" if part(change, "compress") == "distill" else ""
        changes.append((("change", index), f"{_shown(here)} to {_shown(there)}{way}"))
    yield from _twice(changes)


def _pair(names: list[Any]) -> tuple[str, str] | None:
    if len(names) != 2 or not all(isinstance(name, str) for name in names):
        return None
    return names[0], names[1]


def _shown(pair: tuple[str, str] | None) -> str:
    return ", ".join(pair or ())


def _twice(found: Any) -> Iterator[LocatedFault]:
    seen: dict[str, tuple[str | int, ...]] = {}
    for at, word in found:
        earlier = seen.setdefault(word, at)
        if earlier != at:
            yield LocatedFault(at, word, f"{earlier[0]}[{earlier[1]}] is the same; expected it once")
