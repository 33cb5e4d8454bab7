"""``palmette pretrain``: every device trains alone for a short while, and is measured."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt
from palmette.cli import parsing
from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.control.pretrain.progress import PretrainProgress
    from palmette.spec.measurements import Measurements


def pretrain(
    cluster: opt.ClusterFile,
    model: opt.ModelNameIfGiven = None,
    recipe: opt.RecipeName = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file of measurements to write.")] = Path("m.json"),
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help=f"digits (default), {opt.DATA_KINDS}; for nodes without data of their own.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Samples per step.")] = 32,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of the whole training.")] = 100_000,
    warmup: Annotated[int, typer.Option("--warmup", min=0, help="Steps before anything is timed.")] = 300,
    timed: Annotated[int, typer.Option("--timed", min=1, help="Steps that are timed.")] = 100,
    counted: Annotated[
        int, typer.Option("--counted", min=0, help="Steps after that during which counters are read.")
    ] = 100,
    until_stable: Annotated[
        bool, typer.Option("--until-stable", help="Warm up until the last windows of steps agree within 2%.")
    ] = False,
    bandwidth: Annotated[
        list[str] | None,
        typer.Option(
            "--bandwidth", help="Bandwidth to fit the communication factors at, such as 100Mbit/s; give two or more."
        ),
    ] = None,
    meter: Annotated[
        str | None,
        typer.Option("--meter", help="Power meter of nodes with host: local: zeus, replay:FILE or catalogue:NAME."),
    ] = None,
    power: Annotated[
        Path | None, typer.Option("--power", help="Power model of nodes with host: local, from palmette power fit.")
    ] = None,
    engine: opt.EngineName = "local",
    testbed: Annotated[
        str,
        typer.Option(
            "--testbed", help="Emulate the devices: paced (default) or namespaces; none for real machines, as on ray."
        ),
    ] = "",
    dilation: opt.Dilation = None,
    keys: opt.KeysFolder = None,
    listen: opt.Listen = None,
    insecure: opt.Insecure = False,
    trust_code: opt.TrustCode = False,
    optimizer: opt.OptimizerNameIfGiven = None,
    lr: opt.LearningRate = None,
    lora: opt.Lora = None,
    rank: opt.Rank = None,
    input_shape: opt.InputShape = None,
    seed: opt.Seed = 0,
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Train on every device of a cluster alone for a short while, and measure its speed and power.

    Weights and the profile are written to a folder beside the output, named like it.

    Example: palmette pretrain cifar10 --cluster cluster.yaml --data digits -o m.json
    """
    import palmette as pt
    from palmette.control.pretrain.pretrainer import Pretrainer
    from palmette.control.pretrain.request import PretrainRequest, pretrain_options
    from palmette.control.pretrain.step_timer import StepCounts
    from palmette.control.run.trust import cluster_code, refuse_untrusted
    from palmette.measure.meters.registry import open_meter
    from palmette.spec.files import load, write_text
    from palmette.spec.power import PowerModel

    known, named = pt.load_cluster(cluster), opt.model_or_recipe(model, recipe, lora, rank)
    refuse_untrusted({str(cluster): cluster_code(known)}, trust=trust_code, typed=[data])
    request = PretrainRequest(
        model=named,
        data=data,
        batch=batch,
        steps=steps,
        step_counts=StepCounts(warmup=warmup, timed=timed, counted=counted, until_stable=until_stable),
        bandwidths_bps=tuple(map(_parse_bandwidth, dict.fromkeys(bandwidth or ()))),
        engine=engine,
        testbed=testbed,
        dilation=dilation,
        keys=None if keys is None else str(keys),
        listen=listen,
        insecure=insecure,
        input_shape=parsing.parse_shape(input_shape),
        meter=None if meter is None else open_meter(meter),
        power=None if power is None else load(PowerModel, power),
        options=pretrain_options(named, optimizer=optimizer, lr=lr, seed=seed),
    )
    with opt.naming(cluster, "nodes"), _shown_progress(quiet or json_) as progress:
        made = Pretrainer(known, request, _folder(output), progress, _warn).run()
    write_text(output, made.to_json())
    if json_:
        print(made.to_json(), end="")
    else:
        _show(made, output)


def _folder(output: Path) -> Path:
    """Where weights and profile are written: beside the output, named like it without its suffix."""
    return output.with_suffix("") if output.suffix else output.with_name(f"{output.name}.d")


def _parse_bandwidth(text: str) -> float:
    from palmette.spec.units import BANDWIDTH

    try:
        bps = BANDWIDTH.parse(text)
    except ValueError as error:
        raise InputError(ArgumentFault("bandwidth", text, str(error))) from None
    if not 0 < bps < float("inf"):
        raise InputError(ArgumentFault("bandwidth", text, "expected more than 0"))
    return bps


@contextmanager
def _shown_progress(quiet: bool) -> Iterator[Callable[[PretrainProgress], None]]:
    """A bar on stderr where that is a terminal."""
    from palmette.control.progress.style import shown_bar

    with shown_bar(quiet) as bar:
        task, training = bar.add_task("starting", total=1.0), False

        def watch(now: PretrainProgress) -> None:
            nonlocal training
            if now.expected_s is not None and not training:
                training = True
                bar.reset(task)  # measuring layers went at another speed
            bar.update(task, description=now.what, completed=now.done, expected_s=now.expected_s)

        yield watch


def _warn(what: str) -> None:
    print(f"palmette: warning: {what}", file=sys.stderr)


def _show(made: Measurements, output: Path) -> None:
    from rich.table import Table

    from palmette.cli.show.console import console, time

    table = Table("device", box=None, pad_edge=False)
    for heading in ("step", "build", "power", "time × α·β", "power × α·β"):
        table.add_column(heading, justify="right")
    for name, device in made.devices.items():
        table.add_row(
            name,
            time(device.step_s),
            time(device.build_s),
            f"{device.power_w:.3g} W",
            f"{device.time_alpha * device.time_beta:.3g}",
            f"{device.power_alpha * device.power_beta:.3g}",
        )
    out = console()
    out.print(table)
    for name, device in made.devices.items():
        origin = (device.model_extra or {})["origin"]
        out.print(f"{name}: " + "; ".join(f"{what} {source}" for what, source in origin.items()))
    absent = dict.fromkeys(
        name for each in made.devices.values() for name in (each.model_extra or {})["absent_counters"]
    )
    if absent:
        out.print(f"counters that this machine does not have: {', '.join(absent)}")
    out.print(f"{output}: written. Next: palmette plan cluster --measurements {output}")
