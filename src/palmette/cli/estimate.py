"""``palmette estimate``: what a plan costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt
from palmette.cli import parsing


def estimate(
    plan: Annotated[Path, typer.Argument(help="The plan (JSON).")],
    profile: opt.AnyProfileFile = None,
    cluster: opt.AnyClusterFile = None,
    epochs: opt.PlannedEpochs = None,
    input_as: opt.InputFormIfGiven = None,
    moment: Annotated[
        str | None, typer.Option("--moment", help="Begin at this moment of the links' traces, such as 30s.")
    ] = None,
    optimizer: opt.OptimizerName = "sgd",
    accumulate: opt.PlannedAccumulate = None,
    dtype: opt.PlannedDtype = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="Add every operation with its start and end.")] = False,
    json_: opt.Json = False,
) -> None:
    """Estimate what a plan costs: time, energy, traffic and memory.

    Example: palmette estimate plan.json --profile profile.json --cluster cluster.yaml --timeline
    """
    import palmette as pt
    from palmette.cli.show.console import print_json
    from palmette.cli.show.plan import show_estimate
    from palmette.spec.plan import known_input_as

    with opt.naming(plan, "phases"):
        priced = pt.estimate(
            pt.load_plan(plan),
            profile=pt.load_profile(profile) if profile else None,
            cluster=pt.load_cluster(cluster) if cluster else None,
            optimizer=optimizer,
            accumulate=accumulate,
            dtype=dtype,
            timeline=timeline,
            epochs=epochs,
            input_as=None if input_as is None else known_input_as(input_as),
            moment_s=None if moment is None else parsing.parse_seconds("moment", moment),
        )
    if json_:
        print_json(priced.model_dump(mode="json", exclude=None if timeline else {"timeline"}))
    else:
        show_estimate(priced)
