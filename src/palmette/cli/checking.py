"""What kind of file it is, and whether it is right."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import Any

from palmette.api import load_cluster
from palmette.cost.check import check
from palmette.cost.estimate import evaluator
from palmette.errors import Fault, InputError, expected_name
from palmette.spec.curves import load_curves
from palmette.spec.document import Document
from palmette.spec.files import read, validated
from palmette.spec.learning import Learning
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Plan
from palmette.spec.power import PowerModel
from palmette.spec.problem import Problem
from palmette.spec.profile import Profile
from palmette.spec.run import RunRecord

FORMATS: dict[str, type[Document]] = {
    "palmette.learning/1": Learning,
    "palmette.measurements/1": Measurements,
    "palmette.pact/1": Problem,
    "palmette.plan/1": Plan,
    "palmette.power/1": PowerModel,
    "palmette.profile/1": Profile,
    "palmette.run/1": RunRecord,
}


def checked(path: Path) -> str:
    """What a file holds, in a few words, if all is well with it.

    Raises:
        InputError: it cannot be read, is of no known kind, or has faults; holds all of them.
    """
    if path.suffix == ".jsonl":
        curves = load_curves(path)
        return f"{_many(curves.curves, 'learning curve')} of {curves.model} on {curves.data}"
    data = read(path)
    if "format" not in data:
        cluster = load_cluster(path)
        return f"a cluster of {_many(cluster.nodes, 'node')} and {_many(cluster.links, 'link')}"
    return _described(validated(_kind(data, str(path)), data, str(path)), str(path))


def _kind(data: dict[str, Any], file: str) -> type[Document]:
    kind = data["format"]
    if not isinstance(kind, str) or kind not in FORMATS:
        raise InputError(Fault("format", kind, expected_name(str(kind), "format", list(FORMATS)), file))
    return FORMATS[kind]


def _described(document: Document, file: str) -> str:
    if isinstance(document, Profile):
        nodes = ", ".join(document.nodes) or "no node"
        return f"a profile of {document.model}: {_many(document.layers, 'layer')} on {nodes}"
    if isinstance(document, Measurements):
        of = f" of {document.model}" if document.model else ""
        return f"measurements{of}: {_many(document.devices, 'device')}"
    if isinstance(document, Learning):
        return f"a learning curve that falls to {document.floor:g}"
    if isinstance(document, Problem):
        pairs = _many(document.run, "pair")
        return f"a PACT problem: {pairs} of model and nodes, {_many(document.change, 'change')} between them"
    if isinstance(document, RunRecord):
        went = f"a run of {_many(range(document.iterations), 'iteration')}: {document.ended}"
        return f"{went}; {_described(document.plan, file)}"
    if isinstance(document, PowerModel):
        return f"a power model on {', '.join(document.coefficients) or 'no counter'}"
    assert isinstance(document, Plan)
    given = document.inputs
    if given is not None and given.cluster is not None and given.profile is not None:
        wrong = check(document, evaluator(given.profile, given.cluster))
        if wrong:
            raise InputError(Fault(fault.field, fault.value, fault.expected, file) for fault in wrong)
    return f"a plan of {document.strategy} for {document.model}: {_many(document.phases, 'phase')}"


def _many(things: Sized, word: str) -> str:
    return f"{len(things)} {word}" if len(things) == 1 else f"{len(things)} {word}s"
