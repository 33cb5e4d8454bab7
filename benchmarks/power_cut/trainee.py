"""The training whose power is cut: ``palmette``, and a line for every checkpoint, once it is said to be saved.

With ``PALMETTE_UNFLUSHED`` nothing is flushed: the control.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from palmette.cli import execute
from palmette.runtime.training import checkpoint, loop

EVERY_S = 0.1


def main() -> None:
    """Run the command in the arguments."""
    if "PALMETTE_UNFLUSHED" in os.environ:
        os.fsync = lambda _: None  # type: ignore[assignment]
    loop.CHECKPOINT_EVERY_S = EVERY_S
    save = checkpoint.save

    def told(*given: Any, **more: Any) -> Path:
        made = save(*given, **more)
        print(int(made.name), flush=True)
        return made

    checkpoint.save = told
    if execute(sys.argv[1:]) == 0:
        print("done", flush=True)


if __name__ == "__main__":
    main()
