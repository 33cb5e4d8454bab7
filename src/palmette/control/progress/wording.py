"""What progress displays say, as text."""

from __future__ import annotations

from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import RemainingTime

LONG_S = 600.0
"""An emulation that takes longer says what would make it shorter."""
LATE = "this machine could not keep up: time dilation was increased, and iterations are measured again"


def held_out_line(found: Evaluation) -> str:
    """What was measured on held-out data, in one line."""
    parts = [] if found.accuracy is None else [("accuracy", f"{found.accuracy:.1%}")]
    parts += [("loss", f"{found.loss:.4f}"), *((name, f"{value:.4g}") for name, value in found.metrics.items())]
    (first, value), *others = parts
    return ", ".join([f"{first} on held-out data: {value}", *(f"{name} {value}" for name, value in others)])


def held_out_brief(found: Evaluation) -> str:
    """The same beside a bar."""
    return f"held out: {f'loss {found.loss:.4f}' if found.accuracy is None else f'{found.accuracy:.1%}'}"


def prediction_lines(outlook: RemainingTime) -> list[str]:
    """How long the rest takes on this machine, as text."""
    left = "1 iteration takes" if outlook.iterations == 1 else f"{outlook.iterations} iterations take"
    lines = [f"{left} about {_duration(outlook.expected_s)} on this machine (time dilation {outlook.dilation:g})"]
    if outlook.increased:
        lines.insert(0, LATE)
    if outlook.expected_s > LONG_S:
        lines.append(_shorter(outlook))
    return lines


def _shorter(outlook: RemainingTime) -> str:
    """What would make a long emulation shorter."""
    enough = int(outlook.iterations * LONG_S / outlook.expected_s)
    fewer = f"{enough} iterations take {_duration(LONG_S)}" if enough else "an iteration of fewer samples takes less"
    return f"shorter: {fewer}; testbed none trains without emulating slow nodes and links"


def _duration(seconds: float) -> str:
    """Seconds, rounded for people."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
