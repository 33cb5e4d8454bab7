"""How far our estimates are from iterations that others measured, on their machines, as JSON.

    python -m benchmarks.others [--data FOLDER] [--plan FILE …] [--reserved "5 GB"]

Only published layer times, sizes and network coefficients go in. The folder is that of Sailor (SOSP 2025).
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.command import parser, print_result
from benchmarks.others.errors import row, summary
from benchmarks.others.plans import measured_plan
from benchmarks.others.published import FOLDER, Published
from palmette.spec.units import SIZE


def main() -> None:
    """Estimate every plan and print what came out."""
    options = parser(__doc__, "the mixed machines alone")
    options.add_argument("--data", type=Path, default=FOLDER, help=f"default: {FOLDER}")
    options.add_argument("--plan", type=Path, action="append", help="a plan of your own; default: all of the folder")
    options.add_argument("--reserved", default="0 B", help="what a framework takes of each GPU's memory; default 0 B")
    given = options.parse_args()
    if not (given.data / "plans").is_dir():
        sys.exit(f"{given.data} has no plans; expected the folder of the published measurements (--data)")
    published, reserved = Published(given.data), SIZE.parse(given.reserved)
    every = sorted(given.data.glob("plans/mit/*.json" if given.quick else "plans/*/*.json"))
    rows = [row(measured_plan(path, published, reserved)) for path in given.plan or every]
    groups = {each["plan"].split("/")[0] for each in rows}
    print_result({"rows": rows, **{name: summary(name, rows) for name in sorted(groups)}})


if __name__ == "__main__":
    main()
