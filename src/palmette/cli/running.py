"""``palmette run`` as people see it: a progress bar while it runs, a table when it is done."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, Literal, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from palmette.cli.show import console, energy, time
from palmette.control.adapt.supervise import Supervisor
from palmette.control.run.run import Change, Running
from palmette.cost.memory import Optimizer
from palmette.errors import Fault, InputError, RunError, shown
from palmette.runtime.options import LEARNING_RATES, Dtype, Options
from palmette.runtime.training.job import Outcome, Outlook, Update
from palmette.runtime.training.loop import Training
from palmette.spec.plan import Plan


def plan_given(path: Path | None) -> Path:
    """The plan's file.

    Raises:
        InputError: there is none, and nothing to resume.
    """
    if path is None:
        raise InputError(Fault("PLAN", "missing", "expected a plan file, or --resume DIR"))
    return path


def known_way(name: str | None) -> Literal["prune", "distill"] | None:
    """A way to make a model smaller, None where none is asked for.

    Raises:
        InputError: there is no such way.
    """
    if name is not None and name not in ("prune", "distill"):
        raise InputError(Fault("--compress", name, "expected prune or distill"))
    return cast("Literal['prune', 'distill'] | None", name)


def going_on(plan: Plan, init: Path | None, iterations: int | None, epochs: int | None) -> dict[str, Any]:
    """Where a run starts and how long it is: as asked for, else as a plan says that goes on after a pre-training."""
    told = plan.decision if isinstance(plan.decision.get("init"), str) else {}
    start = str(init) if init is not None else told.get("init")
    if iterations is None and epochs is None:
        iterations = told.get("steps")
    return {"init": start, "iterations": iterations, "epochs": epochs}


def options(
    optimizer: Optimizer, lr: float | None, seed: int, dtype: str, mixed_precision: bool, freeze: tuple[str, ...]
) -> Options:
    """The options of a training.

    Raises:
        InputError: one of them is out of its range.
    """
    if dtype not in ("float32", "float64"):
        raise InputError(Fault("--dtype", dtype, "expected float32 or float64"))
    rate = LEARNING_RATES[optimizer] if lr is None else lr
    if not 0 < rate < float("inf"):
        raise InputError(Fault("--lr", lr, "expected a number above 0"))
    if seed < 0:
        raise InputError(Fault("--seed", seed, "expected 0 or more"))
    return Options(
        optimizer=optimizer,
        lr=rate,
        seed=seed,
        dtype=cast("Dtype", dtype),
        mixed_precision=mixed_precision,
        freeze=freeze,
    )


def refuse_other_options(running: Running, folder: Path, context: typer.Context) -> None:
    """Refuse options beside ``--resume`` that are not those of the run: it goes on as it began.

    Raises:
        InputError: tells each of them.
    """
    known = asdict(running.request) | asdict(running.request.options) | {"output": str(folder)}
    wrong = []
    for parameter in context.command.params:
        name = str(parameter.name)
        value, source = context.params.get(name), context.get_parameter_source(name)
        value = str(value) if isinstance(value, Path) else value
        if name in known and source is not None and source.name == "COMMANDLINE" and not _same(value, known[name]):
            expected = f"this run began with {shown(known[name])}; expected that, or --resume alone"
            wrong.append(Fault(parameter.opts[-1], value, expected))
    if wrong:
        raise InputError(wrong)


def _same(given: Any, known: Any) -> bool:
    if isinstance(given, str) and isinstance(known, tuple):  # --input-shape
        given = tuple(map(int, filter(str.isdecimal, given.split(","))))
    return bool((tuple(given) if isinstance(given, list) else given) == known)


def carry_out(running: Running, folder: Path, json_: bool, quiet: bool) -> None:
    """Run, and show what happens.

    Raises:
        RunError: it failed or was stopped; the message says how to go on.
    """
    if running.finished:
        if json_:
            _print_record(folder)
        elif not quiet:
            print(f"{folder}: this run has ended, nothing is left to do")
        return
    try:
        with _own_signals(), _watched(quiet) as screen:
            supervisor = Supervisor(running, _tell)
            outcome = supervisor.run(screen.watch, screen.begin)
    except RunError as error:
        raise RunError(f"{error}; go on with: palmette run --resume {folder}") from None
    if json_:
        _print_record(folder)
    elif not quiet:
        show_outcome(outcome, supervisor.running)
    if outcome.ended == "stopped":
        raise RunError(f"stopped after {outcome.iterations} iterations; go on with: palmette run --resume {folder}")


def _print_record(folder: Path) -> None:
    print((folder / "run.json").read_text(), end="")


def _tell(change: Change) -> None:
    """Say on stderr, quiet or not, that the run goes on otherwise than planned."""
    nodes = ", ".join(change.nodes)
    print(f"palmette: {change.reason}; going on after {change.iteration} iterations with {nodes}", file=sys.stderr)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Give back what Ctrl-C did before when the run is over."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_on_signals(training: Training) -> None:
    """Let the first Ctrl-C end the run in good order; the second ends it at once."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        training.stop()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


class _Screen:
    """What people see while it runs: how long it will take, and a bar where there is a terminal."""

    def __init__(self, screen: Console, progress: Progress | None, quiet: bool) -> None:
        self._screen, self._progress, self._quiet = screen, progress, quiet
        self._samples = 0
        if progress is not None:
            self._task = progress.add_task("run", total=None, epoch=0, loss=0.0, speed=0.0, judged="starting")

    def begin(self, training: Training) -> None:
        """A training is about to begin."""
        _stop_on_signals(training)
        training.foretold.append(self._foretold)
        if self._progress is not None:
            self._progress.update(self._task, total=training.iterations, completed=training.outcome.iterations)

    def _foretold(self, outlook: Outlook) -> None:
        """Say how long it will take here."""
        if self._quiet:
            return
        if self._progress is not None:
            self._progress.update(self._task, judged="")
        for line in foretelling(outlook):
            self._screen.print(f"palmette: {line}", highlight=False, soft_wrap=True)

    def watch(self, update: Update) -> None:
        """Move the bar."""
        if self._progress is None:
            return
        if update.judgement is not None:
            self._progress.update(self._task, judged=f"accuracy {update.judgement.accuracy:.1%}")
            return
        self._samples += update.samples
        self._progress.update(
            self._task,
            total=update.iterations,
            completed=update.iteration,
            epoch=update.epoch,
            loss=update.loss,
            speed=self._samples / update.wall_s if update.wall_s else 0.0,
        )


def foretelling(outlook: Outlook) -> list[str]:
    """How long what is left takes on this machine, in words."""
    left = "1 iteration takes" if outlook.iterations == 1 else f"{outlook.iterations} iterations take"
    line = f"{left} about {duration(outlook.expected_s)} here (time dilation {outlook.dilation:g})"
    if outlook.widened:
        return ["this machine did not keep up: time is stretched further and iterations are measured anew", line]
    return [line]


def duration(seconds: float) -> str:
    """Seconds for people who wait."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def _watched(quiet: bool) -> Iterator[_Screen]:
    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield _Screen(screen, None, quiet)
        return
    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}  {task.fields[speed]:.0f} samples/s  {task.fields[judged]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen) as progress:
        yield _Screen(screen, progress, quiet)


def _times(outcome: Outcome, running: Running) -> list[tuple[str, float, float]]:
    """What was measured, and its estimate."""
    found = outcome.measured.get(outcome.phase)
    rows = []
    if found is not None and found.iteration_s is not None:
        rows.append(("an iteration", found.iteration_s, running.estimate_s(outcome)))
    if found is not None and found.epoch_s is not None and found.estimate_epoch_s is not None:
        rows.append(("an epoch", found.epoch_s, found.estimate_epoch_s))
    return rows


def _widened(outcome: Outcome) -> str:
    """Since when, where it was not that from the beginning."""
    if not outcome.widened:
        return ""
    return (
        f" from iteration {outcome.widened[-1].iteration} on, since this machine did not keep up; measured from there"
    )


def show_outcome(outcome: Outcome, running: Running) -> None:
    """Print how long an iteration took beside the estimate, and what each node did with its time."""
    out = console()
    if outcome.judgement is not None:
        out.print(f"accuracy on held-out data: {outcome.judgement.accuracy:.1%}, loss {outcome.judgement.loss:.4f}")
    emulated = running.request.testbed != "none"
    for what, measured, estimated in _times(outcome, running):
        line = f"{what}: measured {time(measured)}"
        if emulated and estimated:
            line += f", estimated {time(estimated)} ({measured / estimated - 1:+.1%})"
        out.print(line)
    if emulated:
        out.print(f"time dilation {outcome.dilation:g}{_widened(outcome)}")
    if outcome.energy_j is not None and outcome.iterations:
        out.print(f"energy: {energy(outcome.energy_j)} (modelled: declared power on the measured trace)")
    table = Table("node", box=None, pad_edge=False)
    headings = ("computing", "sending", "waiting")
    for heading in headings:
        table.add_column(heading, justify="right")
    for node, seconds in outcome.node_seconds.items():
        table.add_row(node, *(time(seconds[f"{heading}_s"]) for heading in headings))
    out.print(table)
    out.print(f"{running.folder}")
