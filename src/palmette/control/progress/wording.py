"""What progress displays say, as text."""

from __future__ import annotations

from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import RemainingTime


def held_out_line(found: Evaluation) -> str:
    """What was measured on held-out data, in one line."""
    parts = [] if found.accuracy is None else [("accuracy", f"{found.accuracy:.1%}")]
    parts += [("loss", f"{found.loss:.4f}"), *((name, f"{value:.4g}") for name, value in found.metrics.items())]
    (first, value), *others = parts
    return ", ".join([f"{first} on held-out data: {value}", *(f"{name} {value}" for name, value in others)])


def prediction_lines(outlook: RemainingTime) -> list[str]:
    """How long the rest takes on this machine, as text."""
    left = "1 iteration takes" if outlook.iterations == 1 else f"{outlook.iterations} iterations take"
    line = f"{left} about {_duration(outlook.expected_s)} on this machine (time dilation {outlook.dilation:g})"
    if outlook.increased:
        return ["this machine could not keep up: time dilation was increased, and iterations are measured again", line]
    return [line]


def _duration(seconds: float) -> str:
    """Seconds, rounded for people."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
