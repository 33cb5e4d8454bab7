"""``palmette hub``: a hub that workers stay connected to, and that keeps runs."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt


def hub(
    listen: Annotated[
        str, typer.Option("--listen", help="Where workers, operators and viewers connect: host:port.")
    ] = "0.0.0.0:8443",
    keys: Annotated[
        Path, typer.Option("--keys", help="Folder with the hub's key and the certificate of the authority.")
    ] = Path("keys"),
    runs: Annotated[Path, typer.Option("--runs", help="Folder with a folder for each run.")] = Path("runs"),
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", help="Code that runs may use here: package.module:name; may be repeated."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Data that runs may use here, such as folder:/srv/photos; may be repeated."),
    ] = None,
    quiet: opt.Quiet = False,
) -> None:
    """Start a hub: workers stay connected to it, and it executes the runs that are submitted to it.

    Ctrl-C stops the current run with a checkpoint; it continues when the hub is started again.

    Example: palmette hub --listen 0.0.0.0:8443 --keys keys --runs runs
    """
    from palmette.control.hub.queue import HubPlace, RunQueue
    from palmette.control.run.folder import owned
    from palmette.runtime.engines.hub.allowed import allowed_names
    from palmette.runtime.engines.hub.open_hubs import close_hubs, open_hub
    from palmette.runtime.engines.hub.renewal import renew_hub
    from palmette.runtime.transports.keys.folder import Keys

    allowed = replace(allowed_names(allow or (), data or ()), command="hub")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with owned(runs):
        renew_hub(Keys(keys))
        server = open_hub(listen, keys, keeps_runs=True)
        _say(f"a hub at {server.address}; runs are in {runs}", quiet)
        queue = RunQueue(HubPlace(server, listen, keys, runs), allowed, lambda line: _say(line, quiet))
        server.keep_runs(queue)
        try:
            ended.wait()
        except KeyboardInterrupt:
            _say("ending; the current run, if there is one, continues when the hub is started again", quiet)
        finally:
            queue.close()
            close_hubs()


def _say(line: str, quiet: bool) -> None:
    if not quiet:
        print(f"palmette: {line}", file=sys.stderr, flush=True)
