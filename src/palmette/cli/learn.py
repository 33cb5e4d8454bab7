"""``palmette learn``: a learning curve fitted to the losses of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt


def learn(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    margin: Annotated[
        float | None,
        typer.Option(
            "--margin",
            help="Take losses higher by this part in plans; if not given, as nine of ten held-out losses need.",
            show_default=False,
        ),
    ] = None,
    output: opt.Output = None,
    json_: opt.Json = False,
) -> None:
    """Fit a learning curve, as RightTrain needs one, to the losses of runs; print its error on held-out runs.

    What no run varies (epochs, the fraction of the data, replicas, windows) stays unknown: it is named, and plans that
    would vary it are refused. palmette pilot makes runs that vary them. Where runs mix the data of the sources
    differently, the worth of a sample of each source is fitted, too. Of runs whose learning rate goes down over the
    whole run (linear, cosine), only the end counts. Plans for a loss keep a margin: they count on losses that are
    higher than the curve's own by as much as nine of ten held-out losses are at most.

    Example: palmette learn run1 run2 run3 -o l.json
    """
    from palmette.cli.show.learning_curve import show_curve
    from palmette.control.learn import learn as fit
    from palmette.control.learn import learned_run
    from palmette.spec.files import write_text

    taken = [learned_run(folder) for folder in runs]
    found = fit(taken, margin)
    if output is not None:
        write_text(output, found.to_json())
    if json_:
        print(found.to_json(), end="")
    else:
        show_curve(found, taken[0].command)
