"""``palmette power``: collect samples of counters and watts, and fit a power model to them."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt

power = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Model a machine's power from its counters: sample, then fit."
    "\n\nExample: palmette power fit samples.csv -o power.json",
)


@power.command("fit")
def fit_command(
    samples: Annotated[Path, typer.Argument(help="Samples: a CSV file with a column power_w and columns of counters.")],
    output: opt.Output = None,
    json_: opt.Json = False,
) -> None:
    """Fit watts to counters by linear regression; print its error on held-out samples.

    Example: palmette power fit samples.csv -o power.json
    """
    from palmette.cli.show.console import console
    from palmette.measure.power_fit import fit_power_model, load_samples
    from palmette.spec.files import write_text
    from palmette.spec.power import COUNTERS

    model = fit_power_model(load_samples(str(samples)), str(samples))
    if output is not None:
        write_text(output, model.to_json())
    if json_:
        print(model.to_json(), end="")
        return
    out = console()
    out.print(f"watts = {model.intercept_w:.4g}")
    for name, weight in model.coefficients.items():
        out.print(f"  {weight:+.4g} × {name} ({COUNTERS[name]})")
    out.print(f"counters left out: {', '.join(model.left_out) or 'none'}")
    out.print(
        f"mean error on held-out samples: {model.mean_error:.2%} ({model.samples} samples, metered by {model.meter})"
    )


@power.command("sample")
def sample_command(
    meter: Annotated[
        str, typer.Option("--meter", help="Power meter: zeus, replay:FILE or catalogue:NAME.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file of samples to write (CSV).")] = Path(
        "samples.csv"
    ),
    duration: Annotated[str, typer.Option("--for", help="How long to sample, such as 2min.")] = "1min",
    every: Annotated[str, typer.Option("--every", help="Time between samples, such as 1s.")] = "1s",
) -> None:
    """Sample counters and watts of this machine while it works.

    Example: palmette power sample --meter zeus --for 5min -o samples.csv
    """
    from palmette.measure.counters import absent_counters
    from palmette.measure.meters.registry import open_meter
    from palmette.measure.power_sampling import sample_power
    from palmette.spec.files import write_text

    duration_s, every_s = opt.parse_duration("for", duration), opt.parse_duration("every", every)
    rows = sample_power(open_meter(meter), duration_s, every_s, time.sleep)
    text = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(output, text.getvalue())
    print(f"{output}: {len(rows)} samples, {rows[0]['meter']}")
    missing = absent_counters(names)
    if missing:
        print(f"counters that this machine does not have: {', '.join(missing)}")
