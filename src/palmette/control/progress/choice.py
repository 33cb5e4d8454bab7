"""Where the progress of a run is shown: in a notebook, in a terminal, or nowhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from palmette.control.run.callbacks import RunCallback


@contextmanager
def shown_progress(show: bool | None) -> Iterator[list[RunCallback]]:
    """What shows a run's progress; where ``show`` is None, only if somebody sees it."""
    if show is False or (show is None and not (in_notebook() or sys.stderr.isatty())):
        yield []
    elif in_notebook():
        from palmette.control.progress.notebook import NotebookProgress

        yield [NotebookProgress()]
    else:
        from palmette.control.progress.terminal import terminal_progress

        with terminal_progress(bar=True) as display:
            yield [display]


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return getattr(shell, "kernel", None) is not None
