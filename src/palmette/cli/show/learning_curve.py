"""A learning curve as text: its formula, the runs it was fitted to, its error, and what it does not know."""

from __future__ import annotations

from typing import get_args

from palmette.spec.codec_term import CodedNumbers
from palmette.spec.learning import Learning


def show_curve(curve: Learning, command: str) -> None:
    """Print a fitted curve; ``command`` is the one that would vary what no run did."""
    above = (
        f"{curve.scale:.4g} · φ^{-curve.data_exponent:.3g}"
        f" · g^{curve.replica_exponent:.3g}{_window(curve)}{' · c' if curve.codecs else ''}"
        f" · k^{-curve.epoch_exponent:.3g}"
    )
    if curve.start is None:
        print(f"loss = {curve.floor:.4g} + {above}")
    else:
        part = f"a / {curve.start - curve.floor:.4g}"
        below = f"(1 + {part})" if curve.knee == 1 else f"(1 + ({part})^{curve.knee:g})^(1/{curve.knee:g})"
        print(f"loss = {curve.floor:.4g} + a / {below}, a = {above}")
        print(f"it begins at {curve.start:.4g}, the loss before training")
    if curve.schedule is not None and not curve.schedule.is_usual:
        ends = ", stretched over each: the loss at its end" if curve.schedule.is_over_the_run else ""
        print(f"of runs with the learning rate {curve.schedule.shown}{ends}")
    if curve.weights:
        worth = ", ".join(f"{each:.3g} at {name}" for name, each in curve.weights.items())
        print(f"a sample counts {worth}, else 1")
    for term in curve.codecs:
        print(f"c with {term.coding}: {term.shown}")
    ranges = (f"{name} {_range(low, high)}" for name, (low, high) in curve.fitted_on.items())
    runs = "1 run" if curve.runs == 1 else f"{curve.runs} runs"
    print(f"fitted to {runs} ({', '.join(ranges)}); error {curve.fit_error:.4g} (root mean square)")
    print(
        "no error on held-out runs: the other runs are too few to fit a curve to"
        if curve.left_out_error is None
        else f"error on held-out runs {curve.left_out_error:.4g}{_above(curve)}{_held_out(curve)}"
    )
    if curve.margin:
        print(f"plans take losses {curve.margin:.0%} higher than the curve's own; palmette learn --margin changes that")
    unknown = [f"{name} ({value:g} in all runs)" for name, value in curve.unvaried().items()]
    if curve.window_exponent is None:
        unknown.append("windows (the number of local steps did not vary)")
    known = {term.of for term in curve.codecs}
    unknown += [f"codecs of {of} (none in all runs)" for of in get_args(CodedNumbers) if of not in known]
    if unknown:
        print(f"not known, so that plans which vary it are refused: {', '.join(unknown)}; to know it: {command}")


def _window(curve: Learning) -> str:
    """The term of windows, and the outer optimizer of their runs."""
    if curve.window_exponent is None:
        return ""
    return f" · h^{curve.window_exponent:.3g}" + ("" if curve.outer is None else f" ({curve.outer.shown})")


def _above(curve: Learning) -> str:
    """How far above the curve most losses are at most, where it is known."""
    told = curve.left_out_above
    return "" if told is None else f", nine of ten losses at most {told:.0%} above the curve"


def _held_out(curve: Learning) -> str:
    """Over which of the runs that is, where others cannot predict all of them."""
    told = curve.left_out_runs
    return "" if told is None or told == curve.runs else f" ({told} of {curve.runs}; no others tell of the rest)"


def _range(low: float, high: float) -> str:
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
