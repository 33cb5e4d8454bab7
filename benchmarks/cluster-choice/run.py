"""Accuracy of the choice as JSON: ``python benchmarks/cluster-choice/run.py`` from the project's root."""

from __future__ import annotations

import argparse
import sys
import tempfile

from palmette.cli import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", action="store_true", help="train a few cases for real")
    more = ["--measured"] if parser.parse_args().measured else []
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(run(["reproduce", "cluster", "--json", "-o", folder, *more]))


if __name__ == "__main__":
    main()
