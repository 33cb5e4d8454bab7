"""``palmette logs``: the output of a run without a terminal."""

from __future__ import annotations

import codecs
import time
from typing import Annotated

import typer

from palmette.cli.run_places import HolderName, HubAt, HubKeys, RunName, RunPlace, find_run, has_ended, run_place

LOOK_EVERY_S = 0.5


def logs(
    run: RunName,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep printing until the run ends.")] = False,
    at: HubAt = None,
    keys: HubKeys = None,
    name: HolderName = None,
) -> None:
    """Print the output of a run that was started with --detach.

    Example: palmette logs 3f2a -f
    """
    place = run_place(at, keys, name)
    found = find_run(place, run).run
    if not follow:
        _print_from(place, found, 0, codecs.getincrementaldecoder("utf-8")("replace"))
        return
    try:
        _follow(place, found)
    except KeyboardInterrupt:
        return  # the run goes on


def _follow(place: RunPlace, run: str) -> None:
    read, text = 0, codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        ended = has_ended(find_run(place, run))  # first: a run that has ended wrote all its lines before
        read = _print_from(place, run, read, text)
        if ended:
            return
        time.sleep(LOOK_EVERY_S)


def _print_from(place: RunPlace, run: str, read: int, text: codecs.IncrementalDecoder) -> int:
    """Print a log from a byte on; returns the byte behind it. Control characters are written out."""
    from palmette.errors import one_line

    while True:
        data, size = place.read(run, "log.txt", read)
        read += len(data)
        print("\n".join(one_line(line) for line in text.decode(data).split("\n")), end="", flush=True)
        if not data or read >= size:
            return read
