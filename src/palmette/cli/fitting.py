"""``palmette learn``: a learning curve through the losses of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def fit_curve(runs: Sequence[Path], output: Path | None, json_: bool) -> None:
    """Fit the curve, write it, and print it with its errors."""
    from palmette.control.learn import points_of
    from palmette.predict.learning_curve import cross_validation_error, fit_learning_curve, rms_error
    from palmette.spec.files import write_text
    from palmette.spec.learning import Learning

    points = [points_of(folder) for folder in runs]
    curve = fit_learning_curve([point for run in points for point in run])
    fit_error, left_out = rms_error(curve, [point for run in points for point in run]), cross_validation_error(points)
    told = Learning.model_validate(
        curve.model_dump() | {"runs": len(runs), "fit_error": fit_error, "left_out_error": left_out}
    )
    if output is not None:
        write_text(output, told.to_json())
    if json_:
        print(told.to_json(), end="")
        return
    print(
        f"loss = {curve.floor:.4g} + {curve.scale:.4g} · φ^{-curve.data_exponent:.3g}"
        f" · g^{curve.replica_exponent:.3g} · k^{-curve.epoch_exponent:.3g}"
    )
    epochs = sum(map(len, points))
    print(f"fitted to {epochs} epochs of {len(runs)} runs; error {fit_error:.4g} (root mean square)")
    print(
        "no run left out: the others are too few to fit a curve to"
        if left_out is None
        else f"error on runs left out {left_out:.4g}"
    )
