"""What the command ``palmette`` calls first: a module of its own, so that Ctrl-C during all imports is one line."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # as shells have it


def main() -> None:
    """Run the command line and exit."""
    try:
        from palmette.cli import main as run
    except KeyboardInterrupt:
        print("palmette: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
    run()
