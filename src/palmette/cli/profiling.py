"""``palmette profile`` and ``palmette hardware``: a progress bar while it measures, tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from palmette.cli.show import console, size, time
from palmette.errors import Fault, InputError

if TYPE_CHECKING:
    from palmette.measure.contexts import Progress
    from palmette.spec.cluster import Cluster
    from palmette.spec.profile import Profile, Times
    from palmette.zoo.hardware import Hardware

# A sample of 400 MB; far beyond what is meant, and before memory runs out.
MOST_NUMBERS = 10**8
REFRESH_S = 0.1


def measured(
    model: str,
    cluster: Cluster,
    on: Sequence[str],
    input_shape: tuple[int, ...] | None,
    engine: str,
    quiet: bool,
    *,
    variants: Sequence[float] = (),
) -> Profile:
    """The profile of a model on a cluster; this machine is measured for the nodes in ``on``, others where they are.

    ``variants`` are the fractions of its parameters without which it is profiled, too.

    Raises:
        InputError: the model or a node cannot be used; says why.
    """
    from palmette.control.run.engines import refuse_unknown
    from palmette.measure.profiling import profile_network
    from palmette.measure.ray_hosts import measure_times_on_hosts
    from palmette.zoo.models import load_network

    refuse_unknown("--engine", engine)
    network = load_network(model, input_shape, seed=0)
    elsewhere = measure_times_on_hosts(model, cluster, on, input_shape, variants) if engine == "ray" else {}
    with progress_bar(quiet) as progress:
        return profile_network(network, cluster, on, progress, elsewhere, variants=variants)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """A bar on stderr where somebody looks; it draws only when told something, never while a layer is timed."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    out = Console(stderr=True)
    columns = (
        TextColumn("measuring"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Bar(*columns, console=out, transient=True, auto_refresh=False, disable=quiet or not out.is_terminal) as bar:
        task, drawn = bar.add_task("", total=1.0), 0.0

        def progress(layer: str, done: float) -> None:
            nonlocal drawn
            if monotonic() - drawn >= REFRESH_S:
                bar.update(task, description=layer, completed=done, refresh=True)
                drawn = monotonic()

        yield progress


def parsed_fractions(text: str | None) -> tuple[float, ...]:
    """Fractions of the parameters, none where no text is given.

    Raises:
        InputError: it is not fractions with commas between them.
    """
    if text is None:
        return ()
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        expected = "expected fractions from 0 to below 1 with commas between them, such as 0.25,0.5"
        raise InputError(Fault("--variants", text, expected)) from None


def parsed_shape(text: str | None) -> tuple[int, ...] | None:
    """The shape of one sample, None where none is given.

    Raises:
        InputError: it is not whole numbers with commas between them.
    """
    if text is None:
        return None
    try:
        shape = tuple(int(side) for side in text.split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise InputError(Fault("--input-shape", text, "expected whole numbers of 1 or more, such as 3,32,32"))
    if prod(shape) > MOST_NUMBERS:
        raise InputError(Fault("--input-shape", text, f"expected at most {MOST_NUMBERS:,} numbers a sample"))
    return shape


def show_profile(profile: Profile) -> None:
    """Print the layers with their sizes and their time a sample on each node."""
    groups = alike(profile)
    table = Table("layer", box=None, pad_edge=False)
    for heading in ("weights", "output", "kept", "FLOP"):
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
    for names, times_ in groups:
        out.print(f"{', '.join(names)}: {origin(times_)}", highlight=False, soft_wrap=True)
    for fraction, table_ in profile.variants.items():
        weights = size(sum(layer.parameter_bytes for layer in table_.layers))
        flops = count(sum(layer.flops for layer in table_.layers))
        out.print(f"with {fraction} of its parameters removed: {weights}, {flops}FLOP", highlight=False)


def _totals(profile: Profile) -> tuple[str, str, str, str]:
    """The sizes of all layers together; outputs are not added up, no plan sends them all."""
    weights = sum(layer.parameter_bytes for layer in profile.layers)
    kept = sum(layer.kept_bytes for layer in profile.layers)
    return size(weights), "", size(kept), count(sum(layer.flops for layer in profile.layers))


def alike(profile: Profile) -> list[tuple[list[str], Times]]:
    """The nodes of a profile, those with the same times together."""
    groups: list[tuple[list[str], Times]] = []
    for name, times in profile.nodes.items():
        same = next((names for names, other in groups if other == times), None)
        if same is None:
            groups.append(([name], times))
        else:
            same.append(name)
    return groups


def origin(times: Times) -> str:
    """Where times come from, and what an iteration of all layers adds to those of its samples."""
    said = times.model_extra or {}
    source: str = times.source
    if "modelled_as" in said:
        source += f" as {said['modelled_as']}"
    if "measured_with" in said:
        source += f" on one thread of {said['measured_with']['machine']}, fit within {said['fit_error']:.0%}"
    calls_s = sum((*(times.forward_call_s or ()), *(times.backward_call_s or ())))
    return f"{source}; fixed parts of all calls {time(calls_s)}, weight updates {time(sum(times.update_s))}"


def count(flops: float) -> str:
    """A number of operations as people read it."""
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if flops >= factor:
            return f"{flops / factor:.3g} {unit}"
    return f"{flops:.0f}"


def show_hardware(entries: Sequence[Hardware]) -> None:
    """Print the catalogue: what each machine sustains in training, holds and draws."""
    table = Table("hardware", box=None, pad_edge=False)
    for heading in ("training", "memory bandwidth", "memory", "idle", "busy", "a call"):
        table.add_column(heading, justify="right")
    for entry in entries:
        table.add_row(
            entry.name,
            f"{count(entry.training_flops_per_s)}FLOP/s",
            f"{count(entry.memory_bandwidth_bytes_per_s)}B/s",
            size(entry.memory_bytes),
            f"{entry.idle_w:g} W",
            f"{entry.busy_w:g} W",
            time(entry.call_s),
        )
    console().print(table)
