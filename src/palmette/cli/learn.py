"""``palmette learn``: a learning curve fitted to the losses of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt


def learn(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    output: opt.Output = None,
    json_: opt.Json = False,
) -> None:
    """Fit a learning curve, as RightTrain needs one, to the losses of runs; print its error on held-out runs.

    Where runs mix the data of the sources differently, the worth of a sample of each source is fitted, too.

    Example: palmette learn run1 run2 run3 -o l.json
    """
    from palmette.control.learn import source_run
    from palmette.predict.learning_curve import cross_validation_error, fit_learning_curve, rms_error
    from palmette.predict.source_weights import fit_source_weights, weighted_points
    from palmette.spec.files import write_text
    from palmette.spec.learning import Learning

    taken = [source_run(folder) for folder in runs]
    weights = fit_source_weights(taken)
    points = [weighted_points(run, weights) for run in taken]
    curve = fit_learning_curve([point for run in points for point in run])
    fit_error, left_out = rms_error(curve, [point for run in points for point in run]), cross_validation_error(points)
    found = Learning.model_validate(
        curve.model_dump() | {"weights": weights, "runs": len(runs), "fit_error": fit_error, "left_out_error": left_out}
    )
    if output is not None:
        write_text(output, found.to_json())
    if json_:
        print(found.to_json(), end="")
        return
    print(
        f"loss = {curve.floor:.4g} + {curve.scale:.4g} · φ^{-curve.data_exponent:.3g}"
        f" · g^{curve.replica_exponent:.3g} · k^{-curve.epoch_exponent:.3g}"
    )
    if weights:
        print("a sample counts " + ", ".join(f"{each:.3g} at {name}" for name, each in weights.items()) + ", else 1")
    epochs = sum(map(len, points))
    print(f"fitted to {epochs} epochs of {len(runs)} runs; error {fit_error:.4g} (root mean square)")
    print(
        "no error on held-out runs: the other runs are too few to fit a curve to"
        if left_out is None
        else f"error on held-out runs {left_out:.4g}"
    )
