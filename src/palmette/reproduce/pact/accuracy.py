"""PACT's Fig. 2 as a record: the trainings of ``federated`` over time, and the paper's three observations."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from statistics import fmean

from palmette.measure.curves.trainer import CurveRecipe
from palmette.reproduce.pact.federated import FULL, QUICK, FederatedCurve, FederatedGrid
from palmette.reproduce.pact.kept_trainings import JOINING, KeptTrainings, Key
from palmette.reproduce.progress import Progress, Record

BATCH, LR, QUICK_LR, MODEL = 64, 0.01, 0.02, "vgg11small"
POINTS = 40
_TOLD = 0.01
"""A smaller difference between accuracies says nothing: about the standard error on a few thousand held-out samples."""
TYPICAL_S, QUICK_S = 1800.0, 60.0


def figure_2(data: str, progress: Progress, folder: Path, *, quick: bool = False) -> tuple[Record, list[Record]]:
    """Fig. 2 and the claims about it; ``quick`` is a few epochs of LeNet-5.

    What was trained is kept in the folder, and not trained again.

    Raises:
        InputError: the data cannot be used, or the folder not written.
    """
    recipe = CurveRecipe(model="lenet5" if quick else MODEL, data=data, batch=BATCH, lr=QUICK_LR if quick else LR)
    if data == "digits":
        recipe = CurveRecipe(model=recipe.model, data=data, batch=8, lr=QUICK_LR)
    grid = QUICK if quick else FULL
    found = KeptTrainings(
        recipe, grid, progress, folder / f"{recipe.model}-{_data(recipe)}-{grid.epochs}-{recipe.lr:g}"
    ).all()
    return _figure(recipe, grid, found), observations(grid, found)


def _data(recipe: CurveRecipe) -> str:
    return recipe.data.split(":")[0]


def _figure(recipe: CurveRecipe, grid: FederatedGrid, found: dict[Key, FederatedCurve]) -> Record:
    last_s = max(each.time_s[-1] for each in found.values())
    x = [last_s * k / POINTS for k in range(1, POINTS + 1)]
    return {
        "title": "accuracy over time",
        "model": recipe.model,
        "data": _data(recipe),
        "epochs": grid.epochs,
        "x": x,
        "x_label": "seconds",
        "y_label": "accuracy",
        "series": {_name(key): [_at(each, time_s) for time_s in x] for key, each in found.items()},
        "trainings": {
            _name(key): {"accuracy": each.accuracy, "time_s": each.time_s, "cpu_s": each.cpu_s}
            for key, each in found.items()
        },
    }


def _name(key: Key) -> str:
    k1, pruned, kind = key
    return f"K₁ {k1}, F {pruned:g}, {kind}"


def _at(training: FederatedCurve, time_s: float) -> float:
    """The accuracy of the last epoch that was over; 0 before the first, the last one's after the end."""
    epochs = bisect_right(training.time_s, time_s)
    return training.accuracy[epochs - 1] if epochs else 0.0


def observations(grid: FederatedGrid, found: dict[Key, FederatedCurve]) -> list[Record]:
    """Observations 1 to 3 of Section II."""
    (early, late), (little, much) = grid.k1, grid.pruned
    spent = {pruned: fmean(each.cpu_s for key, each in found.items() if key[1] == pruned) for pruned in grid.pruned}

    def after(k1: int, kinds: tuple[str, ...] = JOINING) -> float:
        """The mean accuracy after pruning, as many epochs for every K₁."""
        many = grid.epochs - late
        return fmean(
            fmean(each.accuracy[k1 : k1 + many]) for key, each in found.items() if key[0] == k1 and key[2] in kinds
        )

    gains = {kind: after(late, (kind,)) - after(early, (kind,)) for kind in JOINING}
    return [
        _claim(
            f"pruning {much:g} instead of {little:g} takes less CPU time",
            ("significantly less", f"{1 - spent[much] / spent[little]:.0%} less"),
            spent[much] < spent[little],
            "small layers take about as long whatever their width on this machine",
        ),
        _claim(
            f"pruning after {late} epochs instead of {early} is better after pruning",
            ("better", f"accuracy {after(late):.3f} instead of {after(early):.3f}"),
            after(late) > after(early) + _TOLD,
            "the network had hardly learnt, or had learnt all, by both",
        ),
        _claim(
            "with bronze nodes that matters more than with silver ones",
            ("larger difference", f"{gains['bronze']:+.3f} with bronze, {gains['silver']:+.3f} with silver"),
            gains["bronze"] > gains["silver"] + _TOLD,
            "the five gold nodes, which go on training, have so much of the data that who joins matters little",
        ),
    ]


def _claim(claim: str, values: tuple[str, str], agrees: bool, why: str) -> Record:
    row = {"figure": "2", "claim": claim, "paper": values[0], "ours": values[1], "agrees": agrees}
    return row if agrees else row | {"why": why}
