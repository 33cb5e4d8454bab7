"""``palmette watch``: a run while it goes on, in the browser or in the terminal."""

from __future__ import annotations

import itertools
import signal
import tempfile
import time as clock
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palmette.cli.run_places import HolderName, HubAt, HubKeys, LocalRuns, RunPlace, find_run, run_place
from palmette.errors import Fault, InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from palmette.report.live_run import LiveRun

REFRESH_S = 1.0
SPARKS = "▁▂▃▄▅▆▇█"


def watch(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or its name in palmette ls.", metavar="RUN")],
    terminal: Annotated[bool, typer.Option("--terminal", help="Show it in the terminal instead of a page.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0 for any free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the browser.")] = False,
    at: HubAt = None,
    keys: HubKeys = None,
    name: HolderName = None,
) -> None:
    """Watch a run: its loss, and what each node is doing now.

    Prints the address of a page that only this machine can reach.

    Example: palmette watch run
    """
    with _followed(run, run_place(at, keys, name)) as followed:
        if terminal:
            _show_in_terminal(followed)
        else:
            _serve(followed, port, browser)


@contextmanager
def _followed(run: Path, place: RunPlace) -> Iterator[LiveRun]:
    """A run in a folder, on this machine by its name, or at a hub."""
    from palmette.report.live_run import LiveRun

    here = isinstance(place, LocalRuns)
    if here and (run.exists() or not any(each.run.startswith(str(run)) for each in place.entries())):
        yield LiveRun(run)
        return
    found = find_run(place, str(run))
    if found.state == "waiting":
        raise InputError(Fault("RUN", found.run, f"it waits {found.why}; expected one that has started"))
    if here:
        yield LiveRun(Path(found.folder))
        return
    from palmette.cli.mirror import MirroredRun, RunMirror

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the copy does not stay
    with tempfile.TemporaryDirectory(prefix="palmette-watch-") as folder:
        yield MirroredRun(RunMirror(place, found.run, Path(folder)))


def _serve(followed: LiveRun, port: int, open_browser: bool) -> None:
    """Serve the live page until Ctrl-C."""
    from palmette.report.live_server import LiveServer

    with LiveServer(followed, port) as server:
        print(f"{server.address}", flush=True)
        print("Ctrl-C stops serving; the run continues.", flush=True)
        if open_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print()


def _show_in_terminal(follower: LiveRun) -> None:
    """Show the run in the terminal until it ends or Ctrl-C."""
    from rich.live import Live

    from palmette.cli.show.console import console

    out, view = console(), follower.view()
    if not out.is_terminal or _ended(view):
        out.print(_screen(view))
        return
    try:
        with Live(_screen(view), console=out, refresh_per_second=4, transient=False) as live:
            while not _ended(view):
                clock.sleep(REFRESH_S)
                view = follower.view()
                live.update(_screen(view))
    except KeyboardInterrupt:
        return


def _ended(view: dict[str, Any]) -> bool:
    return bool(view["entries"][0]["run"]["ended"] != "running")


def _screen(view: dict[str, Any]) -> RenderableType:
    """How far the run is, its loss so far, and what each node is doing."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from palmette.spec.reading import time

    (entry,), live = view["entries"], view["live"]
    run = entry["run"]
    losses = [row[2] for row in run["loss"] if row[2] is not None]
    state = "running" if run["ended"] == "running" else f"ended: {run['ended']}"
    head = f"{entry['name']}: {entry['strategy']} for {entry['model']}, {state}, {run['iterations']} iterations"
    lines = [Text(head, style="bold")]
    if losses:
        age = f", the last iteration ended {time(live['age_s'])} ago" if state == "running" else ""
        lines.append(Text(f"{sparkline(losses)}  loss {losses[-1]:.4f}{age}"))
    if run["value"]:
        lines.append(Text(f"{run['value']['verdict']}, after the last epoch"))
    table = Table("node", "now (expected)", "last", box=None, pad_edge=False)
    table.add_column("computing", justify="right")
    for name, node in live["nodes"].items():
        share = "–" if node["share"] is None else f"{node['share']:.0%}"
        now = (node["now"] or "waiting") if state == "running" else "done"
        table.add_row(Text(name), Text(now), Text(node["last"] or "–"), share)
    return Group(*lines, table)


def sparkline(values: list[float], width: int = 48) -> str:
    """Numbers as a row of bars, at most ``width``, each the mean of its part."""
    many = min(width, len(values))
    bounds = [k * len(values) // many for k in range(many + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(bounds)]
    least, most = min(means), max(means)
    span = most - least or 1.0
    return "".join(SPARKS[round((each - least) / span * (len(SPARKS) - 1))] for each in means)
