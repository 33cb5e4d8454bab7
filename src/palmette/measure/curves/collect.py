"""Collects all curves of a grid, in parallel, into a file that grows line by line.

Only the parent writes. A trunk's curves are trained by whichever worker is free; a worker that dies ends the
collection, and the file keeps its curves. To resume is to start again: curves in the file are not trained again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from palmette.errors import Fault, InputError, RunError
from palmette.measure.curves.branches import Trunk, check_recipe, train_branch, train_trunk
from palmette.measure.curves.expected_time import expected_s
from palmette.measure.curves.grid import Branch, CurveGrid
from palmette.measure.curves.trainer import CurveRecipe
from palmette.runtime.worker.tuning import keep_freed_memory
from palmette.spec.curves import Curve, Key, Origin, load_unfinished
from palmette.zoo.data.registry import public_name

OnProgress = Callable[[int, int], None]  # curves in the file, and curves of the whole grid
OnExpected = Callable[[float], None]  # seconds that the trainings will take


def collect(
    path: Path,
    recipe: CurveRecipe,
    grid: CurveGrid,
    *,
    jobs: int,
    on_progress: OnProgress = lambda _done, _all: None,
    on_expected: OnExpected | None = None,
) -> tuple[int, int]:
    """Train the curves that a file lacks; returns how many are new, and how many of the grid the file has.

    ``on_expected`` is told before the first training how long all of them will take.

    Raises:
        InputError: the file has other content or cannot be written, the network or the data cannot be used.
        RunError: a training failed.
    """
    trainer, data = check_recipe(recipe, grid)
    origin = _origin(recipe)
    existing = _open_file(path, origin)
    branches = {branch: frozenset(branch.every_key()) - existing for branch in grid.branches()}
    every = {key for branch in branches for key in branch.every_key()}
    missing = {branch: wanted for branch, wanted in branches.items() if wanted}
    done, new = len(every & existing), 0
    on_progress(done, len(every))
    if on_expected is not None and missing:
        on_expected(expected_s(missing, trainer, data, jobs))
    with path.open("a", encoding="utf-8") as file, _pool(jobs) as pool:
        for curves in _train_missing(pool, jobs, recipe, missing):
            file.writelines(curve.to_json() for curve in curves)
            file.flush()
            new += len(curves)
            on_progress(done + new, len(every))
    return new, done + new


def _origin(recipe: CurveRecipe) -> Origin:
    """The first line; folders of this machine are left out."""
    optimizer = f"sgd with momentum {recipe.momentum:g}"
    return Origin(
        model=recipe.model,
        data=public_name(recipe.data),
        batch=recipe.batch,
        optimizer=optimizer,
        lr=recipe.lr,
        input_shape=recipe.input_shape,
    )


def _open_file(path: Path, origin: Origin) -> set[Key]:
    """The keys of the curves in the file; creates it if missing, and drops a half-written line.

    Raises:
        InputError: the file cannot be written, or has curves of another origin.
    """
    try:
        if not path.exists() or path.stat().st_size == 0:
            path.write_text(origin.to_json(), encoding="utf-8")
            return set()
        found, size = load_unfinished(path)
        for field in ("model", "data", "batch", "optimizer", "lr", "input_shape"):
            theirs, ours = getattr(found, field), getattr(origin, field)
            if theirs != ours:
                raise InputError(Fault(field, theirs, f"the file has other curves; expected {ours}", str(path)))
        os.truncate(path, size)
        return {curve.key() for curve in found.curves}
    except OSError as error:
        raise InputError(Fault("", "the file", f"cannot be written: {error.strerror}", str(path))) from None


def _train_missing(
    pool: ProcessPoolExecutor, jobs: int, recipe: CurveRecipe, missing: dict[Branch, frozenset[Key]]
) -> Iterator[list[Curve]]:
    """The curves of the missing branches as they are finished.

    A seed's trunk is queued behind the branches of another, so that curves arrive from early on.
    """
    seeds: dict[int, list[Branch]] = {}
    for branch in missing:
        seeds.setdefault(branch.seed, []).append(branch)
    trunks = ((recipe, seed, tuple({branch.k1 for branch in ours})) for seed, ours in seeds.items())
    pending: set[Future[Any]] = {pool.submit(train_trunk, *trunk) for trunk in islice(trunks, jobs)}
    while pending:
        finished, pending = wait(pending, return_when=FIRST_COMPLETED)
        for each in finished:
            result = each.result()
            if isinstance(result, Trunk):
                ours = seeds[result.seed]
                pending |= {pool.submit(train_branch, recipe, result, branch, missing[branch]) for branch in ours}
                pending |= {pool.submit(train_trunk, *trunk) for trunk in islice(trunks, 1)}
            else:
                yield result


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Workers that end with the collection, however that ends.

    Raises:
        RunError: one of them died.
    """
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_start)
    try:
        yield pool
        pool.shutdown()
    except BrokenProcessPool:
        raise RunError("a worker died; the same command resumes from the file") from None
    finally:
        for worker in set(multiprocessing.active_children()) - before:
            worker.terminate()
        pool.shutdown(cancel_futures=True)


def _start() -> None:
    """One thread per worker, which keeps its memory; the parent handles Ctrl-C, and its death ends the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    keep_freed_memory()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"
    parent.join()
    os._exit(1)
