"""The outcome of a run as people see it: a table when it is done."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from palmette.cli.show.console import console, energy, time
from palmette.control.progress.wording import held_out_line
from palmette.control.run.session import TrainingSession
from palmette.runtime.training.job import RunOutcome


def _times(outcome: RunOutcome, session: TrainingSession) -> list[tuple[str, float, float]]:
    """Measured times beside their estimates."""
    found = outcome.measured.get(outcome.phase)
    rows = []
    if found is not None and found.iteration_s is not None:
        rows.append(("an iteration", found.iteration_s, session.estimate_s(outcome)))
    if found is not None and found.epoch_s is not None and found.estimate_epoch_s is not None:
        rows.append(("an epoch", found.epoch_s, found.estimate_epoch_s))
    return rows


def _dilation_increase(outcome: RunOutcome) -> str:
    """Since when, if the time dilation was increased during the run."""
    if not outcome.dilation_increases:
        return ""
    since = outcome.dilation_increases[-1].iteration
    return f" from iteration {since} on, since this machine could not keep up; measured from there"


def _metered(session: TrainingSession) -> Iterator[str]:
    """What the meters of nodes have measured."""
    for node, found in session.meters.record().items():
        yield f"{node}: {energy(found['energy_j'])} in {time(found['seconds'])} ({found['source']})"
        if found["failed"] is not None:
            yield f"{node}: its meter was not read to the end: {found['failed']}"


def show_outcome(outcome: RunOutcome, session: TrainingSession) -> None:
    """Print how long an iteration took beside the estimate, and what each node did with its time."""
    out = console()
    if outcome.stopped_early:
        out.print(f"stopped early after {outcome.iterations} iterations; the best weights are in best.safetensors")
    if outcome.evaluation is not None:
        out.print(held_out_line(outcome.evaluation))
    emulated = session.request.emulated
    for what, measured, estimated in _times(outcome, session):
        line = f"{what}: measured {time(measured)}"
        if emulated and estimated:
            line += f", estimated {time(estimated)} ({measured / estimated - 1:+.1%})"
        out.print(line)
    if emulated:
        out.print(f"time dilation {outcome.dilation:g}{_dilation_increase(outcome)}")
    if outcome.energy_j is not None and outcome.iterations:
        out.print(f"energy: {energy(outcome.energy_j)} (modelled: declared power on the measured trace)")
    for line in _metered(session):
        out.print(line)
    table = Table("node", box=None, pad_edge=False)
    headings = ("computing", "sending", "waiting")
    for heading in headings:
        table.add_column(heading, justify="right")
    for node, seconds in outcome.node_seconds.items():
        table.add_row(node, *(time(seconds[f"{heading}_s"]) for heading in headings))
    out.print(table)
    out.print(f"{session.folder}")
