"""``palmette pretrain``: every device trains for a short while."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt
from palmette.errors import Fault, InputError

if TYPE_CHECKING:
    from palmette.spec.measurements import Measurements


def pretrain(
    model: Annotated[str, typer.Argument(help="A network of the zoo, or package.module:callable.")],
    cluster: opt.ClusterFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file of measurements.")] = Path("m.json"),
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="digits (default), cifar10:FOLDER or package.module:callable, for nodes that name no data.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Samples of one step.")] = 32,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of the whole training.")] = 100_000,
    warmup: Annotated[int, typer.Option("--warmup", min=0, help="Steps before anything is timed.")] = 300,
    timed: Annotated[int, typer.Option("--timed", min=1, help="Steps that are timed.")] = 100,
    counted: Annotated[int, typer.Option("--counted", min=0, help="Further steps with counters.")] = 100,
    until_stable: Annotated[
        bool, typer.Option("--until-stable", help="Warm up until the last windows of steps agree within 2%.")
    ] = False,
    bandwidth: Annotated[
        list[str] | None,
        typer.Option("--bandwidth", help="Such as 100Mbit/s; two or more are tried out to fit the factors."),
    ] = None,
    meter: Annotated[
        str | None, typer.Option("--meter", help="For nodes with host: local: zeus, replay:FILE or catalogue:NAME.")
    ] = None,
    power: Annotated[
        Path | None, typer.Option("--power", help="For nodes with host: local: a model by palmette power fit.")
    ] = None,
    engine: opt.EngineName = "local",
    testbed: Annotated[
        str, typer.Option("--testbed", help="paced (default), namespaces or none, the only one on ray.")
    ] = "",
    dilation: Annotated[float | None, typer.Option("--dilation", min=1, help="Stretch emulated time.")] = None,
    optimizer: opt.OptimizerName = "sgd",
    lr: Annotated[float | None, typer.Option("--lr", help="The learning rate; each optimizer has its default.")] = None,
    input_shape: Annotated[str | None, typer.Option("--input-shape", help="Such as 3,32,32.")] = None,
    seed: opt.Seed = 0,
    json_: opt.Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not say what is being done.")] = False,
) -> None:
    """Let every device of a cluster train for a short while, and measure what each can do.

    Weights and the profile stay in a folder beside the output, named like it.

    Example: palmette pretrain cifar10 --cluster cluster.yaml --data digits -o m.json
    """
    import palmette as pt
    from palmette.cli.profiling import parsed_shape
    from palmette.cli.running import options
    from palmette.control.pretrain.pretrain import Pretrainer, Pretraining
    from palmette.control.pretrain.stopwatch import Lengths
    from palmette.cost.memory import known_optimizer
    from palmette.measure.meters.registry import open_meter
    from palmette.spec.files import load, write_text
    from palmette.spec.power import PowerModel

    known = pt.load_cluster(cluster)
    wish = Pretraining(
        model=model,
        data=data,
        batch=batch,
        steps=steps,
        lengths=Lengths(warmup=warmup, timed=timed, counted=counted, until_stable=until_stable),
        bandwidths_bps=tuple(map(_bandwidth, dict.fromkeys(bandwidth or ()))),
        engine=engine,
        testbed=testbed or ("none" if engine == "ray" else "paced"),
        dilation=dilation,
        input_shape=parsed_shape(input_shape),
        meter=None if meter is None else open_meter(meter),
        power=None if power is None else load(PowerModel, power),
        options=options(known_optimizer(optimizer), lr, seed, "float32", False, ()),
    )
    with opt.naming(cluster, "nodes"):
        pretrainer = Pretrainer(known, wish, _folder(output), _silent if quiet or json_ else _say, _warn)
        made = pretrainer.run()
    write_text(output, made.to_json())
    if json_:
        print(made.to_json(), end="")
    else:
        _show(made, output)


def _folder(output: Path) -> Path:
    """Where weights and profile stay: beside the output, named like it without its ending."""
    return output.with_suffix("") if output.suffix else output.with_name(f"{output.name}.d")


def _bandwidth(text: str) -> float:
    from palmette.spec.units import BANDWIDTH

    try:
        bps = BANDWIDTH.parse(text)
    except ValueError as error:
        raise InputError(Fault("--bandwidth", text, str(error))) from None
    if not 0 < bps < float("inf"):
        raise InputError(Fault("--bandwidth", text, "expected more than 0"))
    return bps


def _silent(what: str) -> None:
    """Nobody listens."""


def _say(what: str) -> None:
    print(what, file=sys.stderr)


def _warn(what: str) -> None:
    print(f"palmette: warning: {what}", file=sys.stderr)


def _show(made: Measurements, output: Path) -> None:
    from rich.table import Table

    from palmette.cli.show import console, time

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
    out.print(f"{output}: choose with palmette plan cluster --measurements {output}")
