"""``palmette prune``: a smaller network, written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt
from palmette.cli import parsing


def prune(
    source: Annotated[
        str, typer.Argument(metavar="MODEL|WEIGHTS", help="A network's name, or a file of weights (safetensors).")
    ],
    ratio: Annotated[
        float, typer.Option("--ratio", help="Fraction of the original parameters to remove.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write (safetensors).")] = Path(
        "pruned.safetensors"
    ),
    compress: Annotated[
        str, typer.Option("--compress", help="prune, or distill: the smaller network also learns from the larger one.")
    ] = "prune",
    data: Annotated[str, typer.Option("--data", help="The data to distill with.")] = "digits",
    model: Annotated[
        str | None, typer.Option("--model", help="The network that the weights are of, if the file does not say.")
    ] = None,
    input_shape: opt.InputShape = None,
    seed: opt.Seed = 0,
    trust_code: opt.TrustCode = False,
    json_: opt.Json = False,
) -> None:
    """Make a network smaller by removing whole channels, those with the smallest weights.

    Example: palmette prune run/model.safetensors --ratio 0.5 -o pruned.safetensors
    """
    from dataclasses import asdict

    from palmette.cli.show.console import print_json
    from palmette.control.prune import PruneRequest, known_compression, prune_to_file

    request = PruneRequest(
        ratio=ratio,
        compress=known_compression(compress),
        data=data,
        model=model,
        input_shape=parsing.parse_shape(input_shape),
        seed=seed,
        trust_code=trust_code,
    )
    made = prune_to_file(source, request, output)
    if json_:
        print_json(asdict(made))
    else:
        before, after = made.original_parameters, made.parameters
        print(f"{made.model}: {before:,} parameters, {after:,} left ({made.removed:.2%} removed): {output}")
