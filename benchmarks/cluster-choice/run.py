"""Accuracy of the choice as JSON: ``python benchmarks/cluster-choice/run.py`` from the project's root."""

from __future__ import annotations

import argparse
import sys
import tempfile

from palmette.cli import execute


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", action="store_true", help="measure layers here, pre-train, train what can be")
    parser.add_argument("--keep", metavar="FOLDER", help="keep what was found here, and go on with it")
    given = parser.parse_args()
    more = ["--measured"] if given.measured else []
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(execute(["reproduce", "cluster", "--json", "-o", given.keep or folder, *more]))


if __name__ == "__main__":
    main()
