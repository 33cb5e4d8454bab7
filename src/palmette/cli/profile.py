"""``palmette profile``: measures a network's layers, with a progress bar."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt
from palmette.cli import parsing
from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.control.run.request import Request
    from palmette.spec.cluster import Cluster


def profile(
    cluster: opt.ClusterFile,
    model: opt.ModelNameIfGiven = None,
    recipe: opt.RecipeName = None,
    on: Annotated[
        list[str] | None, typer.Option("--on", help="Measure this machine as this node; may be repeated.")
    ] = None,
    input_shape: opt.InputShape = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help=f"Also profile the stored samples of this data: digits, {opt.DATA_KINDS}.",
        ),
    ] = None,
    input_as: Annotated[
        str, typer.Option("--input-as", help="How samples travel: stored, or tensor, for which --data adds nothing.")
    ] = "stored",
    engine: opt.EngineName = "local",
    keys: opt.KeysFolder = None,
    listen: opt.Listen = None,
    variants: Annotated[
        str | None,
        typer.Option("--variants", help="Also profile it with these fractions of parameters pruned: 0.25,0.5."),
    ] = None,
    lora: opt.Lora = None,
    rank: opt.Rank = None,
    freeze: opt.Freeze = None,
    precision: opt.PrecisionName = None,
    mixed_precision: opt.MixedPrecision = False,
    write_cluster: Annotated[
        Path | None,
        typer.Option(
            "--write-cluster",
            help="Also measure links, and power where a node has a meter; write the cluster with them to this file.",
        ),
    ] = None,
    insecure: opt.Insecure = False,
    output: opt.Output = None,
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Measure a network's layers on this machine or on the nodes themselves; predict them for other hardware.

    Example: palmette profile lenet5 --cluster cluster.yaml --on phone --data digits -o profile.json
    """
    import palmette as pt

    fractions, shape = _parse_fractions(variants), parsing.parse_shape(input_shape)
    known = pt.load_cluster(cluster)  # before torch is imported: it may be missing, and the file wrong

    from palmette.cli.show.profile import show_profile
    from palmette.cli.show.profile_progress import profile_progress
    from palmette.control.run.request import Request
    from palmette.runtime.options import checked_precision
    from palmette.spec.files import write_text
    from palmette.spec.plan import known_input_as

    named = opt.model_or_recipe(model, recipe, lora, rank)
    if write_cluster is not None:
        where = None if keys is None else str(keys)
        asked = Request(engine=engine, keys=where, listen=listen, insecure=insecure, input_shape=shape)
        known = _measured(known, named, asked, quiet=quiet or json_)
        write_text(write_cluster, known.to_yaml())
    with opt.naming(cluster, "nodes"), profile_progress(quiet or json_) as progress:
        made = pt.profile(
            named,
            cluster=known,
            on=on or (),
            input_shape=shape,
            data=data,
            input_as=known_input_as(input_as),
            engine=engine,
            keys=keys,
            listen=listen,
            variants=fractions,
            freeze=tuple(freeze or ()),
            precision=checked_precision(precision),
            mixed_precision=mixed_precision,
            progress=progress,
        )
    if output is not None:
        write_text(output, made.to_json())
    if json_:
        print(made.to_json(), end="")
    else:
        show_profile(made)


def _measured(cluster: Cluster, model: str, asked: Request, *, quiet: bool) -> Cluster:
    from palmette.control.measured_cluster import ClusterMeasurement

    return ClusterMeasurement(asked, model, lambda line: None if quiet else print(line, file=sys.stderr)).measured(
        cluster
    )


def _parse_fractions(text: str | None) -> tuple[float, ...]:
    """Fractions of the parameters, none where no text is given.

    Raises:
        InputError: it is not fractions separated by commas.
    """
    if text is None:
        return ()
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        expected = "expected fractions from 0 to below 1 separated by commas, such as 0.25,0.5"
        raise InputError(ArgumentFault("variants", text, expected)) from None
