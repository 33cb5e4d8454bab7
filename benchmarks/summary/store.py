"""The last value of every figure, kept in a file beside this one; those of quick cases apart from whole ones."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

STORE = Path(__file__).with_name("values.json")
Size = Literal["whole", "quick"]


@dataclass(frozen=True)
class Found:
    """A value as it came out: None where the command printed none; no load average where nobody wrote it down."""

    value: float | None
    date: str
    command: str
    load_average: float | None = None


Values = dict[str, dict[str, Found]]
"""By size (whole or quick), then by the figure's name."""


def read_values(path: Path = STORE) -> Values:
    """All that is known; nothing where there is no file yet."""
    read = json.loads(path.read_text()) if path.exists() else {}
    sizes: tuple[Size, ...] = ("whole", "quick")
    return {size: {name: Found(**found) for name, found in read.get(size, {}).items()} for size in sizes}


def write_values(values: Values, path: Path = STORE) -> None:
    """Keep them, in one step, so that a summary that is ended leaves what it has."""
    written = path.with_suffix(".new")
    known = {size: {name: asdict(found) for name, found in sorted(own.items())} for size, own in values.items()}
    written.write_text(json.dumps(known, indent=1) + "\n")
    written.replace(path)
