"""``palmette what-if``: what a plan would cost if something were different."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt
from palmette.errors import ArgumentFault, InputError


def what_if(
    plan: Annotated[Path, typer.Argument(help="The plan (JSON).")],
    link: Annotated[
        list[str] | None,
        typer.Option(
            "--link",
            help="Change the bandwidth of a link, such as phone-server=50Mbit/s, or =2Mbit/s,10Mbit/s: from phone to "
            "server, and back; may be repeated, also for one link.",
        ),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="Leave this node out; may be repeated.")
    ] = None,
    epochs: Annotated[
        list[int] | None, typer.Option("--epochs", help="Change the number of epochs; may be repeated.")
    ] = None,
    profile: opt.AnyProfileFile = None,
    cluster: opt.AnyClusterFile = None,
    json_: opt.Json = False,
) -> None:
    """Estimate what a plan would cost after each change and after all of them, kept as it is and planned again.

    Where several changes are of one link, or of the epochs, each is tried alone.

    Example: palmette what-if plan.json --link phone-server=50Mbit/s --without cloud --epochs 50
    """
    import palmette as pt
    from palmette.cli.show.console import print_json
    from palmette.cli.show.variants import show_variants

    with opt.naming(plan, "phases"):
        known = pt.load_plan(plan)
        found = pt.what_if(
            known,
            links=_bandwidths(link or []),
            without=without or [],
            epochs=epochs or None,
            profile=pt.load_profile(profile) if profile else None,
            cluster=pt.load_cluster(cluster) if cluster else None,
        )
    if json_:
        print_json({"variants": [each.as_json() for each in found]})
    else:
        show_variants(known, found)


def _bandwidths(texts: list[str]) -> dict[str, list[str]]:
    """The bandwidths to try, by the name of the link."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, rate = text.partition("=")
        if not equals:
            raise InputError(ArgumentFault("link", text, "expected a link and its bandwidth: phone-server=50Mbit/s"))
        found.setdefault(name.strip(), []).append(rate)
    return found
