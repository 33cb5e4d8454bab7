"""``palmette check``: what kind of file it is, and whether it is valid."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palmette.errors import Fault, InputError, expected_name

if TYPE_CHECKING:
    from palmette.spec.document import Document
    from palmette.spec.plan import Plan


def check(files: Annotated[list[Path], typer.Argument(help="Files of any kind: clusters, profiles, plans, …")]) -> None:
    """Validate files of any kind.

    Example: palmette check cluster.yaml profile.json plan.json
    """
    faults, lines = [], []
    for file in files:
        try:
            lines.append(f"{file}: {summarize(file)}")
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    print("\n".join(lines))


def summarize(path: Path) -> str:
    """What a valid file holds, in a few words.

    Raises:
        InputError: it cannot be read, is of no known kind, or has faults; holds all of them.
    """
    from palmette.control.up.inputs import read_inputs
    from palmette.spec.cluster import Cluster
    from palmette.spec.curves import load_curves
    from palmette.spec.files import read, validated
    from palmette.zoo.hardware_defaults import fill_hardware_defaults

    if path.suffix == ".jsonl":
        curves = load_curves(path)
        return f"{_count(curves.curves, 'learning curve')} of {curves.model} on {curves.data}"
    data = read(path)
    if "format" not in data and "cluster" in data:
        training = read_inputs(path).training
        return f"a training of {training.network} for {training.goal}"
    if "format" not in data:
        cluster = fill_hardware_defaults(validated(Cluster, data, str(path), path.parent), str(path))
        return f"a cluster of {_count(cluster.nodes, 'node')} and {_count(cluster.links, 'link')}"
    return _describe(validated(_kind_of(data, str(path)), data, str(path)), str(path))


def _kind_of(data: dict[str, Any], file: str) -> type[Document]:
    known, kind = _formats(), data["format"]
    if not isinstance(kind, str) or kind not in known:
        raise InputError(Fault("format", kind, expected_name(str(kind), "format", list(known)), file))
    return known[kind]


def _formats() -> dict[str, type[Document]]:
    """The documents by the format that their files name."""
    from palmette.spec.learning import Learning
    from palmette.spec.measurements import Measurements
    from palmette.spec.plan import Plan
    from palmette.spec.power import PowerModel
    from palmette.spec.problem import Problem
    from palmette.spec.profile import Profile
    from palmette.spec.run import RunRecord

    return {
        "palmette.learning/1": Learning,
        "palmette.measurements/1": Measurements,
        "palmette.pact/1": Problem,
        "palmette.plan/1": Plan,
        "palmette.power/1": PowerModel,
        "palmette.profile/1": Profile,
        "palmette.run/1": RunRecord,
    }


def _describe(document: Document, file: str) -> str:
    from palmette.spec.learning import Learning
    from palmette.spec.measurements import Measurements
    from palmette.spec.plan import Plan
    from palmette.spec.power import PowerModel
    from palmette.spec.problem import Problem
    from palmette.spec.profile import Profile
    from palmette.spec.run import RunRecord

    if isinstance(document, Profile):
        nodes = ", ".join(document.nodes) or "no node"
        return f"a profile of {document.model}: {_count(document.layers, 'layer')} on {nodes}"
    if isinstance(document, Measurements):
        of = f" of {document.model}" if document.model else ""
        return f"measurements{of}: {_count(document.devices, 'device')}"
    if isinstance(document, Learning):
        return f"a learning curve down to {document.floor:g}"
    if isinstance(document, Problem):
        pairs = _count(document.run, "pair")
        return f"a PACT problem: {pairs} of model and nodes, {_count(document.change, 'change')} between them"
    if isinstance(document, RunRecord):
        run = f"a run of {_count(range(document.iterations), 'iteration')}: {document.ended}"
        return f"{run}; {_describe(document.plan, file)}"
    if isinstance(document, PowerModel):
        return f"a power model on {', '.join(document.coefficients) or 'no counter'}"
    assert isinstance(document, Plan)
    _refuse_invalid(document, file)
    return f"a plan of {document.strategy} for {document.model}: {_count(document.phases, 'phase')}"


def _refuse_invalid(plan: Plan, file: str) -> None:
    """Refuse a plan that cannot be executed on the cluster that it carries."""
    from palmette.cost.check import check as check_plan
    from palmette.cost.estimate import evaluator

    inputs = plan.inputs
    if inputs is not None and inputs.cluster is not None and inputs.profile is not None:
        wrong = check_plan(plan, evaluator(inputs.profile, inputs.cluster))
        if wrong:
            raise InputError(replace(fault, file=file) for fault in wrong)


def _count(things: Sized, word: str) -> str:
    return f"{len(things)} {word}" if len(things) == 1 else f"{len(things)} {word}s"
