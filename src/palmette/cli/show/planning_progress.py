"""A progress bar while a plan is made: what a strategy is doing, and the time left by the speed so far.

Planners fork processes of their own. A thread that draws must not be in the middle of it then: the process would have
the lock on stderr, and nobody to give it back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.measure.contexts import Progress

_EVERY_S = 0.5
_drawing = threading.RLock()
os.register_at_fork(before=_drawing.acquire, after_in_parent=_drawing.release, after_in_child=_drawing.release)


@contextmanager
def planning_progress(quiet: bool, strategy: str) -> Iterator[Progress]:
    """A bar on stderr where that is a terminal; takes what is being done, and how far it is."""
    from palmette.control.progress.style import shown_bar

    with shown_bar(quiet, auto_refresh=False) as bar:
        task = bar.add_task(f"planning with {strategy}", total=1.0)
        over = threading.Event()

        def tick() -> None:
            while not over.wait(_EVERY_S):
                with _drawing:
                    bar.refresh()

        ticking = threading.Thread(target=tick, name="planning-progress", daemon=True)
        if not bar.disable:
            ticking.start()
        try:
            yield lambda what, done: bar.update(task, description=f"{strategy}: {what}", completed=done)
        finally:
            over.set()
            if ticking.ident is not None:
                ticking.join()
