"""``palmette pilot``: short real runs, and the learning curve through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt
from palmette.cli import parsing
from palmette.cli.signals import restored_signals, stop_on_signals
from palmette.errors import RunError

if TYPE_CHECKING:
    from palmette.control.pilot.pilot import Pilot, PilotProgress
    from palmette.spec.learning import Learning


def pilot(
    cluster: opt.ClusterFile,
    model: opt.ModelNameIfGiven = None,
    recipe: opt.RecipeName = None,
    data: opt.TrainingDataName = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", help="The profile of the network; measured if not given.")
    ] = None,
    on: Annotated[
        list[str] | None, typer.Option("--on", help="Measure this machine as this node; may be repeated.")
    ] = None,
    batch: opt.Batch = 32,
    epochs: Annotated[int, typer.Option("--epochs", help="Epochs of each run.")] = 10,
    fractions: Annotated[
        str, typer.Option("--fractions", help="Fractions of the data, each with each number of replicas.")
    ] = "1,0.5,0.25",
    replicas: Annotated[
        str, typer.Option("--replicas", help="Numbers of replicas: instances of the first layer.")
    ] = "1,2",
    each_source: Annotated[
        bool,
        typer.Option("--each-source", help="Also train on each source alone, to learn what its samples are worth."),
    ] = False,
    windows: Annotated[
        str,
        typer.Option("--windows", help="Steps that the most replicas take before weights are averaged, e.g. 1,8,32."),
    ] = "1",
    outer: Annotated[
        bool, typer.Option("--outer", help="Windows end with DiLoCo's outer optimizer instead of the mean.")
    ] = False,
    exchange_codecs: Annotated[
        str,
        typer.Option(
            "--exchange-codecs",
            help="Codecs of gradients and, with --windows, of differences, e.g. bf16,int8,topk:0.01,lowrank:2.",
        ),
    ] = "none",
    output_codecs: Annotated[
        str, typer.Option("--output-codecs", help="Codecs of layer outputs, where networks are cut, e.g. int8.")
    ] = "none",
    optimizer: opt.OptimizerNameIfGiven = None,
    lr: opt.LearningRate = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule",
            help="Learning rate over a run, as for run. linear and cosine also need runs of a half and a quarter.",
        ),
    ] = None,
    warmup: Annotated[
        int | None, typer.Option("--warmup", min=0, help="Iterations in which the learning rate rises to its value.")
    ] = None,
    lora: opt.Lora = None,
    rank: opt.Rank = None,
    input_shape: opt.InputShape = None,
    engine: opt.EngineName = "local",
    transport: opt.TransportName = "",
    keys: opt.KeysFolder = None,
    hub: opt.HubName = None,
    listen: opt.Listen = None,
    insecure: opt.Insecure = False,
    trust_code: opt.TrustCode = False,
    seed: opt.Seed = 0,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the runs, profile.json and learning.json.")
    ] = Path("pilot"),
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Learn how the loss of a network falls with epochs, data, replicas, windows and codecs, by short real runs.

    Runs use this machine at full speed, or the hosts of a Ray cluster; nothing is emulated, since the loss does not
    depend on it. After Ctrl-C, the same command continues where it stopped.

    Example: palmette pilot lenet5 --cluster cluster.yaml --data digits -o pilot
    """
    import palmette as pt
    from palmette.cli.show.profile_progress import profile_progress
    from palmette.control.pilot.grid import PilotGrid
    from palmette.control.pilot.pilot import Pilot
    from palmette.control.pilot.request import PilotRequest
    from palmette.control.run.recipes import requested_recipe
    from palmette.control.run.request import options_of_pilot
    from palmette.control.run.trust import cluster_code, refuse_untrusted
    from palmette.spec.codec import known_codec
    from palmette.spec.exchange import known_exchange
    from palmette.spec.files import write_text
    from palmette.spec.sync import USUAL_OUTER

    named, shape = opt.model_or_recipe(model, recipe, lora, rank), parsing.parse_shape(input_shape)
    request = PilotRequest(
        model=named,
        data=data,
        batch=batch,
        epochs=epochs,
        grid=PilotGrid(
            fractions=parsing.parse_numbers("fractions", fractions, float),
            replicas=parsing.parse_numbers("replicas", replicas, int),
            each_source=each_source,
            windows=parsing.parse_numbers("windows", windows, int),
            outer=USUAL_OUTER if outer else None,
            exchange_codecs=tuple(map(known_exchange, parsing.parse_words(exchange_codecs))),
            output_codecs=tuple(map(known_codec, parsing.parse_words(output_codecs))),
        ),
        engine=engine,
        transport=transport,
        keys=None if keys is None else str(keys),
        hub=hub,
        listen=listen,
        insecure=insecure,
        input_shape=shape,
        options=options_of_pilot(
            requested_recipe(named, None), optimizer=optimizer, lr=lr, schedule=schedule, warmup=warmup, seed=seed
        ),
    )
    described = pt.load_cluster(cluster)
    refuse_untrusted({str(cluster): cluster_code(described)}, trust=trust_code, typed=[data])
    with opt.naming(cluster, "nodes"):
        if profile is None:
            with profile_progress(quiet or json_) as watch:
                times = pt.profile(
                    named,
                    cluster=described,
                    on=on or (),
                    input_shape=shape,
                    data=data,
                    engine=engine,
                    keys=keys,
                    listen=listen,
                    progress=watch,
                )
        else:
            times = pt.load_profile(profile)
        made = Pilot(request, described, times, output)
    write_text(output / "profile.json", times.to_json())
    found = _run(made, quiet or json_)
    if json_:
        print(found.to_json(), end="")
    else:
        _show(found, output, cluster, batch)


def _run(made: Pilot, quiet: bool) -> Learning:
    """Make the runs, and show what happens.

    Raises:
        RunError: a run failed, or it was stopped; says how to continue.
    """
    try:
        with restored_signals(), _progress(quiet) as watch:
            return made.run(watch, stop_on_signals)
    except KeyboardInterrupt:
        reason = "stopped"
    except RunError as error:
        reason = opt.reason_of(error)
    raise RunError(f"{reason}; {made.folder} has what is done; the same command continues")


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[PilotProgress], None]]:
    """A bar on stderr where that is a terminal."""
    from palmette.control.progress.style import shown_bar

    with shown_bar(quiet) as bar:
        task = bar.add_task("pilot", total=1.0)
        yield lambda now: bar.update(
            task, description=f"run {now.run} of {now.runs}: {now.setting.name}", completed=now.done
        )


def _show(found: Learning, folder: Path, cluster: Path, batch: int) -> None:
    from palmette.cli.show.learning_curve import show_curve

    varied = ("--fractions", "--replicas", "--windows", "--exchange-codecs", "--output-codecs", "--epochs")
    show_curve(found, f"the same command with other {', '.join(varied[:-1])} or {varied[-1]}")
    next_ = f"palmette plan righttrain --cluster {cluster} --profile {folder / 'profile.json'}"
    next_ += f" --learning {folder / 'learning.json'} --batch {batch} --loss LOSS --deadline TIME"
    print(f"{folder / 'learning.json'}: written. Next: {next_}")
