"""A larger collection of learning curves on CIFAR-10, and how well the loss is predicted on curves that are new.

Collects two files, a curve a line, and goes on where it was stopped: the small VGG-11 with the 10, 13 and 15 classes of
PACT's sets of nodes (``data.py``), and LeNet-5 on CIFAR-10 as it is, another network. Prints JSON: MAE, MIL and ICP of
the predictor that ships and of one that is also taught by the new curves, on seeds held out of the old and of the new
ones, and on the other network.

    python -m benchmarks.pact_curves FOLDER -o curves [--seeds 2]
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.command import parser, print_result, progress
from benchmarks.pact_curves.data import FOLDER
from palmette.measure.curves.collect import collect
from palmette.measure.curves.grid import CurveGrid
from palmette.measure.curves.trainer import CurveRecipe
from palmette.predict.examples import change_examples, run_examples, split_by_seed
from palmette.predict.forecast import Predictor
from palmette.predict.learned import LearnedPredictor, load_shipped_predictor, teach
from palmette.predict.metrics import evaluate_changes, evaluate_runs
from palmette.predict.power_law import PowerLawPredictor
from palmette.predict.shipped_curves import load_shipped_curves
from palmette.spec.curves import Curve, Curves, load_curves

Record = dict[str, Any]
GRID = {"k1": (5, 25), "k2": (10,), "f1": (0.5, 0.75), "f2": (0.5,), "last": 20}
QUICK: Record = {"k1": (1,), "k2": (1,), "f1": (0.5,), "f2": (0.5,), "last": 1}
BATCH, LR = 64, 0.001


def main() -> None:
    """Collect and evaluate; prints JSON."""
    options = parser(__doc__, "LeNet-5 on the digits, an epoch at a time, and the predictor that ships")
    options.add_argument("folder", nargs="?", help="of CIFAR-10, the official archive unpacked")
    options.add_argument("-o", "--output", default="curves", help="folder of the files of curves")
    options.add_argument("--seeds", type=int, default=2, help="of each network")
    options.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    given = options.parse_args()
    if given.quick:
        with tempfile.TemporaryDirectory() as place:
            print_result(in_short(Path(place)))
    elif given.folder is None:
        options.error("expected the folder of CIFAR-10")
    else:
        print_result(collected(given.folder, Path(given.output), given.seeds, given.jobs))


def in_short(place: Path) -> Record:
    """The predictor that ships on a curve of another network."""
    grid = CurveGrid(seeds=1, **QUICK)
    curves = _curves(place / "lenet5.jsonl", CurveRecipe(model="lenet5", data="digits", batch=BATCH, lr=LR), grid, 1)
    return {"curves": len(curves.curves), "shipped": _qualities({"lenet5": curves.curves}, load_shipped_predictor())}


def collected(folder: str, place: Path, seeds: int, jobs: int) -> Record:
    """Both collections, and the predictors on what they were not taught."""
    os.environ[FOLDER] = folder
    place.mkdir(parents=True, exist_ok=True)
    grid = CurveGrid(seeds=seeds, **GRID)
    fifteen = CurveRecipe(model="vgg11small?classes=15", data="benchmarks.pact_curves.data:fifteen", batch=BATCH, lr=LR)
    other = CurveRecipe(model="lenet5", data=f"cifar10:{folder}", batch=BATCH, lr=LR)
    return evaluated(
        _curves(place / "fifteen.jsonl", fifteen, grid, jobs), _curves(place / "lenet5.jsonl", other, grid, jobs)
    )


def _curves(path: Path, recipe: CurveRecipe, grid: CurveGrid, jobs: int) -> Curves:
    new, total = collect(path, recipe, grid, jobs=jobs)
    progress(f"{path}: {total} curves, {new} of them new")
    return load_curves(path)


def evaluated(fifteen: Curves, other: Curves) -> Record:
    """The predictor that ships, and one that is taught by its curves and the new ones."""
    old = load_shipped_curves()
    held_out = {
        "vgg11small, 10 classes": split_by_seed(old.curves)[1],
        "vgg11small, 15 classes": split_by_seed(fifteen.curves)[1],
        "lenet5": other.curves,
    }
    progress("teaching")
    return {
        "curves": {name: len(curves) for name, curves in held_out.items()},
        "shipped": _qualities(held_out, load_shipped_predictor()),
        "with_new": _qualities(held_out, _taught_by_both(old, fifteen)),
        "power_law": _qualities(held_out, PowerLawPredictor()),
    }


def _taught_by_both(old: Curves, new: Curves) -> LearnedPredictor:
    """A predictor that was taught by all but the held-out seeds of either."""
    train = [*split_by_seed(old.curves)[0], *split_by_seed(new.curves)[0]]
    return teach(train, {"model": old.model, "data": f"{old.data}, {new.data}"})


def _qualities(curves: Mapping[str, Sequence[Curve]], predictor: Predictor) -> Record:
    return {
        name: {
            "run": asdict(evaluate_runs(predictor, run_examples(some))),
            "change": asdict(evaluate_changes(predictor, change_examples(some))),
        }
        for name, some in curves.items()
    }


if __name__ == "__main__":
    main()
