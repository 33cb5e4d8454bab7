"""All curves of a grid, over the cores, into a file that grows line by line.

The parent alone writes. A trunk's curves are trained by whichever worker is free; a worker that dies ends the
collection, and what stands in the file is kept. To go on is to start again: curves that are there are not trained.
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
from palmette.measure.curves.grid import Branch, Grid
from palmette.measure.curves.trainer import Recipe
from palmette.runtime.worker.tuning import keep_freed_memory
from palmette.spec.curves import Curve, Key, Origin, load_unfinished
from palmette.zoo.data.registry import public_name

Watch = Callable[[int, int], None]  # curves that are there, and curves that there will be


def collect(
    path: Path, recipe: Recipe, grid: Grid, *, jobs: int, watch: Watch = lambda _done, _all: None
) -> tuple[int, int]:
    """Train what is missing in a file of curves; returns how many are new, and how many of the grid are there.

    Raises:
        InputError: the file is none of such curves or cannot be written, the network or the data cannot be used.
        RunError: a training failed.
    """
    check_recipe(recipe, grid)
    origin = _origin(recipe)
    there = _begun(path, origin)
    branches = {branch: frozenset(branch.every_key()) - there for branch in grid.branches()}
    every = {key for branch in branches for key in branch.every_key()}
    missing = {branch: wanted for branch, wanted in branches.items() if wanted}
    done, new = len(every & there), 0
    watch(done, len(every))
    with path.open("a", encoding="utf-8") as file, _pool(jobs) as pool:
        for curves in _trained(pool, jobs, recipe, missing):
            file.writelines(curve.to_json() for curve in curves)
            file.flush()
            new += len(curves)
            watch(done + new, len(every))
    return new, done + new


def _origin(recipe: Recipe) -> Origin:
    """The first line; a folder is nobody else's business."""
    optimizer = f"sgd with momentum {recipe.momentum:g}"
    return Origin(
        model=recipe.model, data=public_name(recipe.data), batch=recipe.batch, optimizer=optimizer, lr=recipe.lr
    )


def _begun(path: Path, origin: Origin) -> set[Key]:
    """The keys of what stands in the file already; it is begun where there is none, a half-written line dropped.

    Raises:
        InputError: the file cannot be written, or has curves of another origin.
    """
    try:
        if not path.exists() or path.stat().st_size == 0:
            path.write_text(origin.to_json(), encoding="utf-8")
            return set()
        found, size = load_unfinished(path)
        for field in ("model", "data", "batch", "optimizer", "lr"):
            theirs, ours = getattr(found, field), getattr(origin, field)
            if theirs != ours:
                raise InputError(Fault(field, theirs, f"the curves there are others; expected {ours}", str(path)))
        os.truncate(path, size)
        return {curve.key() for curve in found.curves}
    except OSError as error:
        raise InputError(Fault("", "the file", f"cannot be written: {error.strerror}", str(path))) from None


def _trained(
    pool: ProcessPoolExecutor, jobs: int, recipe: Recipe, missing: dict[Branch, frozenset[Key]]
) -> Iterator[list[Curve]]:
    """The curves of the missing branches as they get done.

    A seed's trunk is trained behind the branches of another's, so that curves come from early on.
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
        raise RunError("a worker died; the same command goes on with what is there") from None
    finally:
        for worker in set(multiprocessing.active_children()) - before:
            worker.terminate()
        pool.shutdown(cancel_futures=True)


def _start() -> None:
    """One thread a worker, which keeps its memory; Ctrl-C is for the parent to act on, whose death ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    keep_freed_memory()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"
    parent.join()
    os._exit(1)
