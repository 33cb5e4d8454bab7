"""A profile as people see it: the layers with their sizes, and their times on each node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from palmette.cli.show.console import console, count, size, time
from palmette.spec.profile import Profile, Times


def show_profile(profile: Profile) -> None:
    """Print the layers with their sizes and their time per sample on each node."""
    groups = group_nodes(profile)
    table = Table("layer", box=None, pad_edge=False)
    for heading in ("weights", "output", "activations", "FLOP"):
        table.add_column(heading, justify="right")
    for names, _ in groups:
        table.add_column(Text("\n".join(names)), justify="right")
    for place, layer in enumerate(profile.layers):
        sizes = [size(layer.parameter_bytes), size(layer.output_bytes), size(layer.kept_bytes), count(layer.flops)]
        table.add_row(layer.name, *sizes, *(time(t.forward_s[place] + t.backward_s[place]) for _, t in groups))
    table.add_row("all", *_totals(profile), *(time(sum((*t.forward_s, *t.backward_s))) for _, t in groups))
    out = console()
    out.print(Text.assemble((profile.model, "bold"), ": one sample, forward and backward"))
    out.print(table)
    if profile.sample_bytes is not None:
        out.print(_stored(profile.sample_bytes, groups), highlight=False, soft_wrap=True)
    for note in profile.notes:
        out.print(Text(note), soft_wrap=True)
    for names, times_ in groups:
        out.print(f"{', '.join(names)}: {origin_of(times_)}", highlight=False, soft_wrap=True)
    for fraction, table_ in profile.variants.items():
        weights = size(sum(layer.parameter_bytes for layer in table_.layers))
        flops = count(sum(layer.flops for layer in table_.layers))
        out.print(f"with {fraction} of its parameters removed: {weights}, {flops}FLOP", highlight=False)


def _stored(sample_bytes: float, groups: list[tuple[list[str], Times]]) -> str:
    """The size of a stored sample, and how long decoding it takes."""
    decoding = [
        f"{time(times.decode_s)} on {', '.join(names)}" for names, times in groups if times.decode_s is not None
    ]
    said = f"a stored sample: {size(sample_bytes)}"
    return f"{said}; decoding it, as part of the first layer: {'; '.join(decoding)}" if decoding else said


def _totals(profile: Profile) -> tuple[str, str, str, str]:
    """The sizes of all layers together; outputs are not added up, no plan sends them all."""
    weights = sum(layer.parameter_bytes for layer in profile.layers)
    weights -= sum((len(tie.layers) - 1) * tie.parameter_bytes for tie in profile.ties)
    kept = sum(layer.kept_bytes for layer in profile.layers)
    return size(weights), "", size(kept), count(sum(layer.flops for layer in profile.layers))


def group_nodes(profile: Profile) -> list[tuple[list[str], Times]]:
    """The nodes of a profile, grouped by equal times."""
    groups: list[tuple[list[str], Times]] = []
    for name, times in profile.nodes.items():
        same = next((names for names, other in groups if other == times), None)
        if same is None:
            groups.append(([name], times))
        else:
            same.append(name)
    return groups


def _measured_on(known: Mapping[str, Any]) -> str:
    """The machine that was measured, and how many of its threads."""
    threads = known.get("threads", 1)
    on = "one thread of " if threads == 1 else f"{threads} threads of "
    return f"on {on if known.get('device', 'cpu') == 'cpu' else ''}{known['machine']}"


def origin_of(times: Times) -> str:
    """Where times come from, and what an iteration adds to the times of its samples."""
    extra = times.model_extra or {}
    source: str = times.source
    if "modelled_as" in extra:
        source += f" as {extra['modelled_as']}"
    if "measured_with" in extra:
        source += f" {_measured_on(extra['measured_with'])}, fit within {extra['fit_error']:.0%}"
    calls_s = sum((*(times.forward_call_s or ()), *(times.backward_call_s or ())))
    return f"{source}; fixed overhead of all calls {time(calls_s)}, weight updates {time(sum(times.update_s))}"
