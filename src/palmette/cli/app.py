"""The commands. Each imports what it needs when it is called, so that ``--help`` is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import learning
from palmette.cli import options as opt
from palmette.cli.hosts import cluster as _cluster
from palmette.cli.keys import keys as _keys
from palmette.cli.planning import Strategies, parsed_goal
from palmette.cli.powering import app as power_app
from palmette.cli.pretraining import pretrain
from palmette.cli.printing import print_json
from palmette.cli.reproduce.commands import reproduce
from palmette.cli.training import prune, run
from palmette.errors import InputError

app = typer.Typer(
    name="palmette",
    help="Train deep networks across phones, edge servers and the cloud, in the least time or the least energy.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(
    typer.Typer(
        cls=Strategies,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Decide who computes what: a command for each strategy.\n\n"
        "Example: palmette plan all-edge --profile profile.json --cluster cluster.yaml -o plan.json",
    ),
    name="plan",
)

app.add_typer(reproduce, name="reproduce")
app.add_typer(_keys, name="keys")
app.add_typer(learning.curves, name="curves")
app.add_typer(learning.predict, name="predict")
app.add_typer(_cluster, name="cluster")
app.add_typer(power_app, name="power")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(version("palmette"))
        raise typer.Exit


@app.callback()
def _palmette(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="The cluster file to write.")] = Path("cluster.yaml"),
    devices: Annotated[int | None, typer.Option("--devices", help="How many devices.")] = None,
    edges: Annotated[int | None, typer.Option("--edges", help="How many edge servers.")] = None,
    clouds: Annotated[int | None, typer.Option("--clouds", help="How many cloud servers.")] = None,
    device_hardware: Annotated[str | None, typer.Option("--device-hardware", help="Of the catalogue.")] = None,
    edge_hardware: Annotated[str | None, typer.Option("--edge-hardware", help="Of the catalogue.")] = None,
    cloud_hardware: Annotated[str | None, typer.Option("--cloud-hardware", help="Of the catalogue.")] = None,
    bandwidth: Annotated[str | None, typer.Option("--bandwidth", help="Near the devices, such as '20 Mbit/s'.")] = None,
    cloud_bandwidth: Annotated[str | None, typer.Option("--cloud-bandwidth", help="To the cloud.")] = None,
    samples: Annotated[int | None, typer.Option("--samples", help="That each device owns.")] = None,
    private: Annotated[bool | None, typer.Option("--private/--public", help="Whether raw data may travel.")] = None,
    local: Annotated[str | None, typer.Option("--local", help="The node that this machine stands for.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take the usual.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Ask a few questions and write a cluster file, with comments.

    Example: palmette init cluster.yaml --devices 2 --bandwidth '40 Mbit/s' --yes
    """
    from palmette.cli.starting import start

    given = {
        "devices": devices,
        "edges": edges,
        "clouds": clouds,
        "device_hardware": device_hardware,
        "edge_hardware": edge_hardware,
        "cloud_hardware": cloud_hardware,
        "bandwidth": bandwidth,
        "cloud_bandwidth": cloud_bandwidth,
        "samples": samples,
        "private": private,
    }
    start(file, given, local, ask=not yes, force=force)


@app.command()
def profile(
    model: Annotated[str, typer.Argument(help="A network of the zoo, or package.module:callable.")],
    cluster: opt.ClusterFile,
    on: Annotated[list[str] | None, typer.Option("--on", help="A node that this machine stands for.")] = None,
    input_shape: Annotated[str | None, typer.Option("--input-shape", help="Such as 3,32,32.")] = None,
    engine: opt.EngineName = "local",
    variants: Annotated[
        str | None, typer.Option("--variants", help="Also without these fractions of its parameters: 0.25,0.5,0.75.")
    ] = None,
    output: opt.Output = None,
    json_: opt.Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Measure a network's layers here, or on every host of a Ray cluster, and predict them for hardware of other nodes.

    Example: palmette profile lenet5 --cluster cluster.yaml --on phone -o profile.json
    """
    import palmette as pt
    from palmette.cli.profiling import measured, parsed_fractions, parsed_shape, show_profile
    from palmette.spec.files import write_text

    fractions, shape = parsed_fractions(variants), parsed_shape(input_shape)
    made = measured(model, pt.load_cluster(cluster), on or [], shape, engine, quiet or json_, variants=fractions)
    if output is not None:
        write_text(output, made.to_json())
    if json_:
        print(made.to_json(), end="")
    else:
        show_profile(made)


app.command()(pretrain)


@app.command()
def estimate(
    plan: Annotated[Path, typer.Argument(help="The plan (JSON).")],
    profile: opt.AnyProfileFile = None,
    cluster: opt.AnyClusterFile = None,
    optimizer: opt.OptimizerName = "sgd",
    timeline: Annotated[bool, typer.Option("--timeline", help="Add every operation with start and end.")] = False,
    json_: opt.Json = False,
) -> None:
    """Price a plan: time, energy, traffic and memory.

    Example: palmette estimate plan.json --profile profile.json --cluster cluster.yaml --timeline
    """
    import palmette as pt
    from palmette.cli.show import show_estimate
    from palmette.cost.memory import known_optimizer

    with opt.naming(plan, "phases"):
        priced = pt.estimate(
            pt.load_plan(plan),
            profile=pt.load_profile(profile) if profile else None,
            cluster=pt.load_cluster(cluster) if cluster else None,
            optimizer=known_optimizer(optimizer),
            timeline=timeline,
        )
    if json_:
        print_json(priced.model_dump(mode="json", exclude=None if timeline else {"timeline"}))
    else:
        show_estimate(priced)


@app.command()
def program(
    plan: Annotated[Path, typer.Argument(help="The plan (JSON).")],
    node: Annotated[str, typer.Option("--node", help="Whose program to print.", show_default=False)],
    profile: opt.AnyProfileFile = None,
    cluster: opt.AnyClusterFile = None,
) -> None:
    """Print what a node's worker does in an iteration.

    Example: palmette program plan.json --node phone
    """
    import palmette as pt
    from palmette.cli.programs import programs_of

    print(
        programs_of(
            pt.load_plan(plan),
            node,
            pt.load_profile(profile) if profile else None,
            pt.load_cluster(cluster) if cluster else None,
        )
    )


app.command()(run)
app.command()(prune)


@app.command()
def compare(
    profile: opt.ProfileFile,
    cluster: opt.ClusterFile,
    batch: opt.Batch = 32,
    goal: opt.GoalText = "time",
    deadline: opt.Deadline = None,
    iteration_deadline: opt.IterationDeadline = None,
    loss: opt.Loss = None,
    optimizer: opt.OptimizerName = "sgd",
    seed: opt.Seed = 0,
    measurements: opt.Measurements = None,
    learning: opt.Learning = None,
    problem: opt.Problem = None,
    lossy: opt.Lossy = False,
    json_: opt.Json = False,
) -> None:
    """Price the plans of every strategy that applies, best first.

    Example: palmette compare --profile profile.json --cluster cluster.yaml --goal energy
    """
    import palmette as pt
    from palmette.cli.comparing import comparison_json, show_comparison
    from palmette.cli.planning import tables
    from palmette.cost.memory import known_optimizer

    found = pt.compare(
        profile=pt.load_profile(profile),
        cluster=pt.load_cluster(cluster),
        batch=batch,
        goal=parsed_goal("time" if goal is None else goal, deadline, iteration_deadline, loss),
        optimizer=known_optimizer(optimizer),
        seed=seed,
        lossy=lossy,
        **tables(measurements=measurements, learning=learning, problem=problem),
    )
    if not found.plans:
        with opt.naming(cluster, "nodes"):
            found.refuse()
    if json_:
        print_json(comparison_json(found))
    else:
        show_comparison(found)


@app.command()
def report(
    paths: Annotated[list[Path], typer.Argument(help="Plan files and folders of runs.", metavar="RUN_OR_PLAN...")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page (HTML).")] = Path("report.html"),
    profile: opt.AnyProfileFile = None,
    cluster: opt.AnyClusterFile = None,
    rivals: Annotated[
        bool, typer.Option("--rivals/--no-rivals", help="Plan with every strategy, for time and for energy.")
    ] = True,
) -> None:
    """One page, whole and offline: the tree, an iteration, loss, energy, and all strategies.

    Example: palmette report run plan.json -o report.html
    """
    from palmette.cli.reporting import make_report

    make_report(paths, output, profile, cluster, rivals)


@app.command()
def watch(
    run: Annotated[Path, typer.Argument(help="The folder of a run.", metavar="RUN")],
    terminal: Annotated[bool, typer.Option("--terminal", help="Show it here instead of serving a page.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of the page; 0 takes any that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page.")] = False,
) -> None:
    """Watch a run while it goes on: its loss, and what each node is doing now.

    Prints the address of a page that this machine alone can reach.

    Example: palmette watch run
    """
    from palmette.cli.watching import serve, show_in_terminal

    if terminal:
        show_in_terminal(run)
    else:
        serve(run, port, browser)


@app.command()
def strategies(json_: opt.Json = False) -> None:
    """List the strategies, one line each.

    Example: palmette strategies
    """
    from palmette.plan.core.registry import strategies as known

    if json_:
        print_json({"strategies": [{"name": kind.name, "summary": kind.summary} for kind in known().values()]})
        return
    wide = max(map(len, known()))
    for kind in known().values():
        print(f"{kind.name:{wide}}  {kind.summary}")


@app.command()
def hardware(json_: opt.Json = False) -> None:
    """List the hardware that a cluster file may name.

    Example: palmette hardware
    """
    from dataclasses import asdict

    from palmette.cli.profiling import show_hardware
    from palmette.zoo.hardware import hardware as entry
    from palmette.zoo.hardware import names

    if json_:
        print_json({"hardware": [asdict(entry(name)) for name in names()]})
    else:
        show_hardware([entry(name) for name in names()])


@app.command()
def learn(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    output: opt.Output = None,
    json_: opt.Json = False,
) -> None:
    """Fit a learning curve to the losses of runs, for RightTrain, and say how well it foretells runs left out.

    Example: palmette learn run1 run2 run3 -o l.json
    """
    from palmette.cli.fitting import fit_curve

    fit_curve(runs, output, json_)


@app.command()
def check(files: Annotated[list[Path], typer.Argument(help="Clusters, profiles, plans, curves.")]) -> None:
    """Validate files of any kind.

    Example: palmette check cluster.yaml profile.json plan.json
    """
    from palmette.cli.checking import checked

    wrong, right = [], []
    for file in files:
        try:
            right.append(f"{file}: {checked(file)}")
        except InputError as error:
            wrong += error.faults
    if wrong:
        raise InputError(wrong)
    print("\n".join(right))
