"""Options that several commands take, and how their values are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from palmette.errors import Fault, InputError

ClusterFile = Annotated[
    Path, typer.Option("--cluster", help="The cluster: nodes and links (YAML).", show_default=False)
]
ProfileFile = Annotated[Path, typer.Option("--profile", help="The profile of the network (JSON).", show_default=False)]
ClusterFileIfGiven = Annotated[
    Path | None, typer.Option("--cluster", help="The cluster: nodes and links (YAML).", show_default=False)
]
ProfileFileIfGiven = Annotated[
    Path | None, typer.Option("--profile", help="The profile of the network (JSON).", show_default=False)
]
AnyClusterFile = Annotated[
    Path | None, typer.Option("--cluster", help="The cluster, instead of the one the plan carries.", show_default=False)
]
AnyProfileFile = Annotated[
    Path | None, typer.Option("--profile", help="The profile, instead of the one the plan carries.", show_default=False)
]
Measurements = Annotated[
    Path | None, typer.Option("--measurements", help="A table for cluster (JSON).", show_default=False)
]
Learning = Annotated[
    Path | None, typer.Option("--learning", help="A learning curve for RightTrain (JSON).", show_default=False)
]
Problem = Annotated[Path | None, typer.Option("--problem", help="A table for PACT (JSON).", show_default=False)]
Lossy = Annotated[bool, typer.Option("--lossy", help="Allow outputs to travel as 8-bit integers.")]
Batch = Annotated[int, typer.Option("--batch", help="Samples of one iteration.")]
GoalText = Annotated[
    str | None,
    typer.Option("--goal", help="time, energy, power, edp or a weighted sum such as 0.3*time+0.7*energy."),
]
Deadline = Annotated[str | None, typer.Option("--deadline", help="Of the whole training, such as 2h.")]
IterationDeadline = Annotated[str | None, typer.Option("--iteration-deadline", help="Of one iteration, such as 5s.")]
Loss = Annotated[float | None, typer.Option("--loss", help="The loss to reach.")]
OptimizerName = Annotated[str, typer.Option("--optimizer", help="sgd, momentum or adam: what memory has to hold.")]
EngineName = Annotated[str, typer.Option("--engine", help="local: this machine; ray: the hosts of a Ray cluster.")]
Seed = Annotated[int, typer.Option("--seed", help="Of everything random.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not say what is being worked on.")]
Figures = Annotated[Path, typer.Option("-o", "--output", help="The folder for figures and numbers.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write the result to this file.")]


@contextmanager
def naming(file: Path | None, fields: str) -> Iterator[None]:
    """Let faults about the ``fields`` of a file, found after it was read, name the file, if there is one."""
    try:
        yield
    except InputError as error:
        raise InputError(
            replace(fault, file=str(file)) if file and fault.field.startswith(fields) and not fault.file else fault
            for fault in error.faults
        ) from None


def seconds(option: str, text: str | None) -> float | None:
    """A duration option in seconds.

    Raises:
        InputError: it is not a duration above 0 with a unit.
    """
    from palmette.spec.units import DURATION

    if text is None:
        return None
    try:
        duration_s = DURATION.parse(text)
    except ValueError as error:
        raise InputError(Fault(option, text, str(error))) from None
    if not 0 < duration_s < float("inf"):
        raise InputError(Fault(option, text, "expected more than 0"))
    return duration_s
