"""``palmette power``: samples of counters and watts and a model fitted to them; watts of nodes learned from runs."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt
from palmette.cli import parsing

power = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Model a machine's power from its counters: sample, then fit. Or learn it from the meters of runs."
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


@power.command("learn")
def learn_command(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs with --meter.", metavar="RUN...")],
    cluster: opt.ClusterFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The cluster file to write.")] = Path("learned.yaml"),
) -> None:
    """Learn the watts of nodes from the meters of runs; write the cluster with them, for plan and estimate.

    Example: palmette power learn run1 run2 --cluster cluster.yaml -o learned.yaml
    """
    import palmette as pt
    from palmette.control.learn_power import learn_power, with_power
    from palmette.spec.files import write_text

    known = pt.load_cluster(cluster)
    learned = learn_power(runs, known)
    lines = []
    for node, each in learned.items():
        idle = "both fitted" if each.idle_fitted else "idle as declared"
        watts = f"{each.power.idle_w:.4g} W idle, {each.power.busy_w:.4g} W busy ({idle})"
        lines.append(f"{node}: {watts}, {each.runs} run{'s' * (each.runs > 1)}, {'; '.join(each.sources)}")
    comments = "".join(f"# power of {line}\n" for line in lines)
    write_text(output, comments + with_power(known, learned).to_yaml())
    print("\n".join([*lines, f"{output}: estimates and plans with it use these watts"]))


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

    duration_s, every_s = parsing.parse_duration("for", duration), parsing.parse_duration("every", every)
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
