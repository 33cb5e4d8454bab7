"""``palmette power``: collect samples of counters and watts, and fit a power model on them."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Model a machine's power by its counters: sample, then fit."
    "\n\nExample: palmette power fit samples.csv -o power.json",
)


@app.command("fit")
def fit_command(
    samples: Annotated[Path, typer.Argument(help="Samples: a CSV with a column power_w and counters.")],
    output: opt.Output = None,
    json_: opt.Json = False,
) -> None:
    """Fit watts on counters by linear regression, and say how far off it is on samples it has not seen.

    Example: palmette power fit samples.csv -o power.json
    """
    from palmette.cli.show import console
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
    out.print(f"left out: {', '.join(model.left_out) or 'nothing'}")
    out.print(
        f"mean error on left-out samples: {model.mean_error:.2%} ({model.samples} samples, metered by {model.meter})"
    )


@app.command("sample")
def sample_command(
    meter: Annotated[str, typer.Option("--meter", help="zeus, replay:FILE or catalogue:NAME.", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The samples (CSV).")] = Path("samples.csv"),
    duration: Annotated[str, typer.Option("--for", help="How long, such as 2min.")] = "1min",
    every: Annotated[str, typer.Option("--every", help="A sample every so often, such as 1s.")] = "1s",
) -> None:
    """Collect counters and watts of this machine while it works.

    Example: palmette power sample --meter zeus --for 5min -o samples.csv
    """
    from palmette.measure.meters.registry import open_meter
    from palmette.measure.power_sampling import sample_power
    from palmette.spec.files import write_text
    from palmette.spec.power import COUNTERS

    long_s, step_s = opt.seconds("--for", duration), opt.seconds("--every", every)
    assert long_s is not None
    assert step_s is not None
    rows = sample_power(open_meter(meter), long_s, step_s, time.sleep)
    text = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(output, text.getvalue())
    print(f"{output}: {len(rows)} samples, {rows[0]['meter']}")
    lacking = [name for name in COUNTERS if name not in names]
    if lacking:
        print(f"left out, as this machine does not have them: {', '.join(lacking)}")
