"""The command line: the only place that prints. A file is named after its command.

    app          the commands put together
    options      options that several commands take
    parsing      their values as people type them
    passphrase   asked for, or read from a file
    signals      what Ctrl-C does while something trains
    show         results as people see them
    run_places   where runs without a terminal are
    run_session  a prepared run, executed and shown
    detach       palmette run --detach
    mirror       files of a run at a hub, copied as they grow
    init         palmette init
    up           palmette up
    profile      palmette profile
    pretrain     palmette pretrain
    estimate     palmette estimate
    program      palmette program
    run          palmette run
    hub          palmette hub
    worker       palmette worker
    ls           palmette ls
    logs         palmette logs
    stop         palmette stop
    fetch        palmette fetch
    prune        palmette prune
    compare      palmette compare
    what_if      palmette what-if
    report       palmette report
    watch        palmette watch
    strategies   palmette strategies
    hardware     palmette hardware
    pilot        palmette pilot
    learn        palmette learn
    check        palmette check
    doctor       palmette doctor
    plan         palmette plan STRATEGY, created from the strategies' options
    reproduce    palmette reproduce PAPER
    keys         palmette keys
    curves       palmette curves
    predict      palmette predict
    cluster      palmette cluster
    power        palmette power

``main`` turns every error into one line per fault on stderr and an exit code; there is no traceback unless
PALMETTE_DEBUG is set.
"""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Any

from palmette.errors import PalmetteError, RunError

INTERRUPTED = 130  # as shells have it
_FOR_RUNS = ("cloudpickle", "cryptography", "grpc", "psutil", "safetensors", "sklearn", "torch", "torch_pruning")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without × still gets its table
    code = execute(sys.argv[1:] if arguments is None else arguments)
    if code == INTERRUPTED:  # a second signal, as timeout(1) and impatient users send it, must not disturb the end
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def execute(arguments: Sequence[str]) -> int:
    """Execute a command; returns the exit code."""
    try:
        return _command(arguments)
    except PalmetteError as error:
        from palmette.cli.options import reason_of

        _print_error(reason_of(error))
        return error.exit_code
    except KeyboardInterrupt:
        _print_error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _stop_writing()
        return 1
    except Exception as error:
        if os.environ.get("PALMETTE_DEBUG"):
            raise
        if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] in _FOR_RUNS:
            _print_error(f"{error.name} is not installed; profiling and training need: pip install 'palmette[run]'")
            return 1
        if isinstance(error, OSError):
            _print_error(f"cannot continue: {error.strerror or error}")
            _stop_writing()
            return 1
        reason = " ".join(str(error).split())
        _print_error(f"internal error: {type(error).__name__}: {reason}; set PALMETTE_DEBUG=1 to see where")
        return 1


def _command(arguments: Sequence[str]) -> int:
    import typer

    from palmette.cli.app import app

    usage_error: type[Exception] = typer.BadParameter.__mro__[1]  # its base, whichever click typer stands on
    if sys.stdout is None:
        raise RunError("cannot print the output: stdout is closed")
    try:
        code = typer.main.get_command(app).main(
            list(arguments), prog_name="palmette", standalone_mode=False, obj=list(arguments)
        )
    except usage_error as error:
        text = error.format_message()  # type: ignore[attr-defined]
        if text.startswith("Usage:"):  # no command given: its help
            print(text, file=sys.stderr)
        else:
            _print_error(_usage_fault(error))
        return 2
    except typer.Abort:
        raise KeyboardInterrupt from None
    if code == INTERRUPTED:  # typer has caught Ctrl-C, and is silent about it
        raise KeyboardInterrupt
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _usage_fault(error: Any) -> str:
    """What is wrong with the words of a command, in the form of all other faults."""
    from pydantic import ValidationError

    from palmette.errors import nearest
    from palmette.spec.document import faults

    kind, known = type(error).__name__, getattr(error, "possibilities", None) or []
    if isinstance(error.__cause__, ValidationError):  # the value of an option, which typer leaves out
        return str(faults(error.__cause__, error.param.opts[-1]))
    if kind == "NoSuchOption":
        meant = nearest(error.option_name, known)
        return f"{error.option_name}: no such option; " + (f"did you mean {meant}?" if meant else _help_of(error))
    if kind == "MissingParameter":
        name = (
            error.param.opts[-1] if error.param.param_type_name == "option" else error.param.metavar or error.param.name
        )
        return f"{name}: missing; {_help_of(error)}"
    said = str(error.format_message())
    if text := re.fullmatch(r"No such command '(.*?)'\.(?: Did you mean '(.*?)'.*)?", said):
        return f"{text[1]}: no such command; " + (f"did you mean {text[2]}?" if text[2] else _help_of(error))
    if text := re.fullmatch(r"Got unexpected extra argument\S* \((.*)\)", said):
        return f"{text[1]}: not expected here; {_help_of(error)}"
    if text := re.fullmatch(r"Option '(.*)' (?:requires an argument|does not take a value)\.", said):
        return f"{text[1]}: {'missing: expected a value' if 'requires' in said else 'expected no value'}"
    return said


def _help_of(error: Any) -> str:
    """What shows the options of the command that was typed."""
    return f"{error.ctx.command_path if error.ctx else 'palmette'} --help shows what is expected"


def _stop_writing() -> None:
    """Discard what is left in stdout's buffer, so that the interpreter does not fail on it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_error(text: str) -> None:
    """Print an error, each of its lines as one line."""
    for line in text.splitlines():
        print(f"palmette: {line}", file=sys.stderr)
