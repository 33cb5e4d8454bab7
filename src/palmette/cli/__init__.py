"""The command line: the only place that prints.

    app         the commands
    planning    palmette plan STRATEGY, one command a strategy, made from its options
    options     options that several commands take
    show        tables for people; printing is JSON for scripts
    distance    how far a plan may be from the best possible, for people
    choosing    a choice of devices for people
    scheduling  a schedule of models and nodes for people
    starting    palmette init
    profiling   palmette profile
    pretraining palmette pretrain
    powering    palmette power
    training    palmette run and palmette prune; running shows what a run does
    programs    palmette program
    fitting     palmette learn
    reproduce   palmette reproduce; papers has a file a paper
    comparing   palmette compare
    reporting   palmette report
    watching    palmette watch
    checking    palmette check
    keys        palmette keys
    learning    palmette curves and palmette predict; predicting does their work
    hosts       palmette cluster

``main`` turns every error into one line a fault on stderr and an exit code; nobody sees a traceback unless
PALMETTE_DEBUG is set.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from palmette.errors import PalmetteError, RunError

INTERRUPTED = 130  # as shells have it


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without × still gets its table
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    try:
        return _command(arguments)
    except PalmetteError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _stop_writing()
        return 1
    except Exception as error:
        if os.environ.get("PALMETTE_DEBUG"):
            raise
        if isinstance(error, OSError):
            _say(f"cannot go on: {error.strerror or error}")
            _stop_writing()
            return 1
        reason = " ".join(str(error).split())
        _say(f"internal error: {type(error).__name__}: {reason}; set PALMETTE_DEBUG=1 to see where")
        return 1


def _command(arguments: Sequence[str]) -> int:
    import typer

    from palmette.cli.app import app

    usage_error: type[Exception] = typer.BadParameter.__mro__[1]  # its base, whichever click typer stands on
    if sys.stdout is None:
        raise RunError("nobody can read the output: stdout is closed")
    try:
        code = typer.main.get_command(app).main(list(arguments), prog_name="palmette", standalone_mode=False)
    except usage_error as error:
        text = error.format_message()  # type: ignore[attr-defined]
        if text.startswith("Usage:"):  # no command given: its help
            print(text, file=sys.stderr)
        else:
            _say(_with_value(error) or text)
        return 2
    except typer.Abort:
        raise KeyboardInterrupt from None
    if code == INTERRUPTED:  # typer has caught Ctrl-C, and is silent about it
        raise KeyboardInterrupt
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _with_value(error: Exception) -> str | None:
    """What is wrong with an option, and its value, which typer leaves out; None where it is about no value."""
    from pydantic import ValidationError

    from palmette.spec.document import faults

    if not isinstance(error.__cause__, ValidationError):
        return None
    return str(faults(error.__cause__, error.param.opts[-1]))  # type: ignore[attr-defined]


def _stop_writing() -> None:
    """Let what is left in stdout's buffer go nowhere, so that the interpreter does not fail on it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str) -> None:
    """Print an error, each of its lines as one line."""
    for line in text.splitlines():
        print(f"palmette: {line}", file=sys.stderr)
