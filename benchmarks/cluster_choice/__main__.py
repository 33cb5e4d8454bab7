"""Accuracy of the choice of a cluster, as JSON; with ``--fleet``, the choice among 10,000 devices.

python -m benchmarks.cluster_choice [--measured [--keep FOLDER] | --fleet]
"""

from __future__ import annotations

import sys
import tempfile

from benchmarks.cluster_choice.fleet import fleets
from benchmarks.command import parser, print_result
from palmette.cli import execute

DEVICES, QUICK_DEVICES = 10_000, 300


def main() -> None:
    """Print all figures."""
    options = parser(__doc__, f"fleets of {QUICK_DEVICES} devices")
    options.add_argument("--measured", action="store_true", help="measure layers here, pre-train, train what can be")
    options.add_argument("--keep", metavar="FOLDER", help="keep what was found here, and go on with it")
    options.add_argument("--fleet", action="store_true", help=f"fleets of {DEVICES:,} devices, each goal")
    given = options.parse_args()
    if given.fleet or given.quick:
        print_result(fleets(QUICK_DEVICES if given.quick else DEVICES))
        return
    more = ["--measured"] if given.measured else []
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(execute(["reproduce", "cluster", "--json", "-o", given.keep or folder, *more]))


if __name__ == "__main__":
    main()
