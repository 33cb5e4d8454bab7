"""PACT's Table I and Fig. 4: how well the loss is predicted, on held-out curves.

The paper trains VGG-11 on 45,000, 5,000 and 1,500 images of CIFAR-10 and CIFAR-100; here it is the small VGG-11 on some
8,000, 2,400 and 800 images of CIFAR-10 (the curves that ship), as fast and in batches as large as the paper's, with the
predictor that ships. Curves of the seeds held out in its training are predicted; means and standard deviations are over
these seeds. Beside it, the same for a power law.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from palmette.predict.examples import HORIZON, change_examples, run_examples, setting_of
from palmette.predict.forecast import History, Predictor
from palmette.predict.learned import LearnedPredictor
from palmette.predict.metrics import PredictionQuality, evaluate_changes, evaluate_runs
from palmette.predict.power_law import PowerLawPredictor
from palmette.reproduce.progress import Record
from palmette.spec.curves import Curve, Curves

MEASURES = ("mae", "mil", "icp")
PAPER = {
    "change": {"mae": (0.13, 0.01), "mil": (0.52, 0.05), "icp": (0.87, 0.05)},
    "run": {"mae": (0.0173, 0.0004), "mil": (0.078, 0.003), "icp": (0.90, 0.01)},
}
NOMINAL, NEAR = 0.9, 0.05  # the interval between the quantiles should cover so much, and this close is as good


def predictions(predictor: LearnedPredictor, curves: Curves) -> Record:
    """Table I for the learned predictor and for a power law, and Fig. 4."""
    seeds = predictor.origin["left_out_seeds"]
    left_out = {seed: [curve for curve in curves.curves if curve.seed == seed] for seed in seeds}
    rivals: dict[str, Predictor] = {"learned": predictor, "power-law": PowerLawPredictor()}
    return {
        "model": curves.model,
        "data": curves.data,
        "taught_by": predictor.origin["curves"],
        "left_out_curves": sum(map(len, left_out.values())),
        "table_1": {
            "paper": {
                which: {name: {"mean": m, "std": s} for name, (m, s) in row.items()} for which, row in PAPER.items()
            },
            **{name: _row(rival, left_out) for name, rival in rivals.items()},
        },
        "jitter": _jitter([curve for some in left_out.values() for curve in some]),
        "figure_4": figure_4(predictor, _example([curve for some in left_out.values() for curve in some])),
    }


def _jitter(curves: list[Curve]) -> float:
    """How far, on average, an epoch's loss is from the mean of its two neighbours."""
    return statistics.fmean(
        abs(losses[at] - (losses[at - 1] + losses[at + 1]) / 2)
        for losses in (phase.losses for curve in curves for phase in curve.phases)
        for at in range(1, len(losses) - 1)
    )


def _row(predictor: Predictor, left_out: dict[int, list[Curve]]) -> Record:
    evaluations: dict[str, Callable[[list[Curve]], PredictionQuality]] = {
        "run": lambda some: evaluate_runs(predictor, run_examples(some)),
        "change": lambda some: evaluate_changes(predictor, change_examples(some)),
    }
    return {which: _summary([evaluate(some) for some in left_out.values()]) for which, evaluate in evaluations.items()}


def _summary(found: list[PredictionQuality]) -> Record:
    """Mean and standard deviation over the seeds."""
    values = {name: [getattr(each, name) for each in found] for name in (*MEASURES, "exceeded")}
    return {
        name: {"mean": statistics.fmean(each), "std": statistics.stdev(each) if len(each) > 1 else 0.0}
        for name, each in values.items()
    }


def _example(curves: list[Curve]) -> Curve:
    """The curve of Fig. 4, as near as there is one: two prunings, the longest."""
    return max(curves, key=lambda curve: (len(curve.phases), sum(len(phase.losses) for phase in curve.phases)))


def figure_4(predictor: Predictor, curve: Curve) -> Record:
    """The true loss, and the predicted one: five epochs at a time, and each change of model and nodes."""
    points = list(_predicted(predictor, curve))
    names = ("true", "expected", "robust")
    return {
        "title": "the predicted loss, five epochs at a time",
        "phases": [
            {"nodes": phase.nodes, "pruning": phase.pruning, "samples": phase.samples, "epochs": len(phase.losses)}
            for phase in curve.phases
        ],
        "x": list(range(len(points))),
        "x_label": "epochs and changes",
        "y_label": "loss",
        "series": {name: [point[place] for point in points] for place, name in enumerate(names)},
    }


def _predicted(predictor: Predictor, curve: Curve) -> Iterator[tuple[float, float, float]]:
    """True, expected and robust loss at each epoch, and at the start of each phase."""
    history: History | None = None
    for phase in curve.phases:
        setting, start = setting_of(phase), phase.start_loss
        if history is None:
            history = History(setting=setting, losses=(start,))
            yield start, start, start
        else:
            forecast = predictor.predict_change(history, setting)
            yield start, history.loss + forecast.expected[0], history.loss + forecast.robust[0]
            history = history.changed(setting, start)
        for at in range(0, len(phase.losses), HORIZON):
            truth = phase.losses[at : at + HORIZON]
            forecast, now = predictor.predict_epochs(history, len(truth)), history.loss
            for ahead, true in enumerate(truth, 1):
                yield true, now + sum(forecast.expected[:ahead]), now + forecast.total_robust[ahead - 1]
            history = history.extended(*truth)


def claims(made: Record) -> list[Record]:
    """Each figure of Table I beside ours, whether ours is at least as good, and if not why."""
    return [_claim(made, which, name) for which in PAPER for name in MEASURES]


def _claim(made: Record, which: str, name: str) -> Record:
    paper, ours = PAPER[which][name][0], made["table_1"]["learned"][which][name]
    law = made["table_1"]["power-law"][which][name]["mean"]
    agrees = abs(ours["mean"] - NOMINAL) <= NEAR if name == "icp" else ours["mean"] <= paper
    row = {
        "figure": "Table I",
        "claim": f"λ_{which}: {name.upper()}",
        "paper": paper,
        "ours": f"{ours['mean']:.3g} ± {ours['std']:.2g} (a power law: {law:.3g})",
        "agrees": agrees,
        "better": agrees and name != "icp",
    }
    return row if agrees else row | {"why": _why(made, which, name)}


def _why(made: Record, which: str, name: str) -> str:
    if name == "icp":
        return f"the quantiles of λ_{which} were learned from {made['taught_by']} curves of a few seeds"
    return (
        f"an epoch's loss is {made['jitter']:.2g} on average from the mean of its neighbours, which nothing can predict"
    )
