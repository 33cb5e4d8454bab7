"""``palmette run`` and ``palmette prune``: what changes weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt
from palmette.cli.printing import print_json


def run(
    context: typer.Context,
    plan: Annotated[Path | None, typer.Argument(help="The plan (JSON).", show_default=False)] = None,
    profile: opt.AnyProfileFile = None,
    cluster: opt.AnyClusterFile = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="digits (default), cifar10:FOLDER or package.module:callable; "
            "where the sources name data in the cluster file, only what the network is judged by.",
        ),
    ] = None,
    iterations: Annotated[int | None, typer.Option("--iterations", min=1, help="How many batches.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="How many passes over the data.")] = None,
    optimizer: opt.OptimizerName = "sgd",
    lr: Annotated[float | None, typer.Option("--lr", help="The learning rate; each optimizer has its default.")] = None,
    seed: opt.Seed = 0,
    engine: opt.EngineName = "local",
    testbed: Annotated[
        str,
        typer.Option(
            "--testbed",
            help="paced (default) or namespaces emulate the cluster; none, the only one on ray, does not.",
        ),
    ] = "",
    dilation: Annotated[
        float | None, typer.Option("--dilation", min=1, help="Stretch emulated time; chosen if not given.")
    ] = None,
    transport: Annotated[
        str, typer.Option("--transport", help="gloo on a network that you trust, tls on one that you do not.")
    ] = "gloo",
    keys: Annotated[
        Path | None, typer.Option("--keys", help="Keys for tls, by palmette keys; made for the run if not given.")
    ] = None,
    hub: Annotated[
        str | None, typer.Option("--hub", help="The node that all others reach over tls; chosen if not given.")
    ] = None,
    init: Annotated[Path | None, typer.Option("--init", help="Start from these weights (safetensors).")] = None,
    compress: Annotated[
        str | None, typer.Option("--compress", help="How models are made smaller: prune or distill; else by the plan.")
    ] = None,
    freeze: Annotated[
        list[str] | None, typer.Option("--freeze", help="Weights that stay as they are, such as 'conv1.*'.")
    ] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="float32 or float64.")] = "float32",
    mixed_precision: Annotated[bool, typer.Option("--mixed-precision", help="Compute in bfloat16.")] = False,
    input_shape: Annotated[str | None, typer.Option("--input-shape", help="Such as 3,32,32.")] = None,
    replan: Annotated[
        bool, typer.Option("--replan/--no-replan", help="Plan again and go on when a node is lost or joins, or stop.")
    ] = True,
    drift: Annotated[
        float, typer.Option("--drift", min=0.05, help="Plan again when a link's speed is off by this fraction.")
    ] = 0.5,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Go on even without a node whose data is lost with it.")
    ] = False,
    resume: Annotated[Path | None, typer.Option("--resume", help="Go on with the run in this folder.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder that the run leaves behind.")] = Path(
        "run"
    ),
    json_: Annotated[bool, typer.Option("--json", help="Print the run's run.json when it ends, for scripts.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing unless it fails.")] = False,
) -> None:
    """Train for real, as the plan says.

    Example: palmette run plan.json --data digits --iterations 20 --seed 0 -o run
    """
    import palmette as pt
    from palmette.cli.profiling import parsed_shape
    from palmette.cli.running import carry_out, going_on, known_way, options, plan_given, refuse_other_options
    from palmette.control.run.run import Request, start
    from palmette.control.run.run import resume as resumed
    from palmette.cost.memory import known_optimizer
    from palmette.spec.plan import inputs_of

    if resume is not None:
        running = resumed(resume)
        refuse_other_options(running, resume, context)
        carry_out(running, resume, json_, quiet)
        return
    known = pt.load_plan(plan_given(plan))
    for_profile, for_cluster = inputs_of(
        known, pt.load_profile(profile) if profile else None, pt.load_cluster(cluster) if cluster else None
    )
    request = Request(
        **going_on(known, init, iterations, epochs),
        data=data,
        engine=engine,
        testbed=testbed,
        dilation=dilation,
        transport=transport,
        keys=None if keys is None else str(keys),
        hub=hub,
        input_shape=parsed_shape(input_shape),
        cluster_file=None if cluster is None else str(cluster.absolute()),
        replan=replan,
        allow_data_loss=allow_data_loss,
        compress=known_way(compress),
        drift=drift,
        options=options(known_optimizer(optimizer), lr, seed, dtype, mixed_precision, tuple(freeze or ())),
    )
    carry_out(start(known, for_profile, for_cluster, request, output), output, json_, quiet)


def prune(
    source: Annotated[str, typer.Argument(metavar="MODEL|WEIGHTS", help="A network's name, or a file of weights.")],
    ratio: Annotated[
        float, typer.Option("--ratio", help="The fraction of the original parameters to be gone.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write (safetensors).")] = Path(
        "pruned.safetensors"
    ),
    compress: Annotated[
        str, typer.Option("--compress", help="prune, or distill: then the larger network teaches the smaller one.")
    ] = "prune",
    data: Annotated[str, typer.Option("--data", help="What distill teaches with.")] = "digits",
    model: Annotated[str | None, typer.Option("--model", help="Whose weights a file has that does not say.")] = None,
    input_shape: Annotated[str | None, typer.Option("--input-shape", help="Such as 3,32,32.")] = None,
    seed: opt.Seed = 0,
    json_: opt.Json = False,
) -> None:
    """Make a network smaller: whole channels go, those with the smallest weights.

    Example: palmette prune run/model.safetensors --ratio 0.5 -o pruned.safetensors
    """
    from dataclasses import asdict

    from palmette.cli.profiling import parsed_shape
    from palmette.cli.running import known_way
    from palmette.control.prune import Wish, prune_to_file

    wish = Wish(
        ratio=ratio,
        compress=known_way(compress) or "prune",
        data=data,
        model=model,
        input_shape=parsed_shape(input_shape),
        seed=seed,
    )
    made = prune_to_file(source, wish, output)
    if json_:
        print_json(asdict(made))
    else:
        before, after = made.original_parameters, made.parameters
        print(f"{made.model}: {before:,} parameters, {after:,} left ({made.removed:.2%} removed): {output}")
