"""What all benchmarks share: ``python -m benchmarks.NAME [--quick] [--help]``, progress on standard error, JSON on
standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from palmette.errors import InputError
from palmette.testbed import iproute


def parser(description: str | None, quick: str) -> argparse.ArgumentParser:
    """A parser with ``--quick``; ``quick`` says what is run then."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help=f"half a minute at most: {quick}")
    return made


def progress(text: str) -> None:
    """Say how far it is."""
    print(text, file=sys.stderr, flush=True)


def print_result(result: Any) -> None:
    """Print what was found, as JSON."""
    print(json.dumps(result, indent=1))


def need_namespaces() -> None:
    """End the program with one line and exit code 2 where network namespaces cannot be made."""
    try:
        iproute.require_namespaces()
    except InputError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        sys.exit(2)
