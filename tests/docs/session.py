"""A page as somebody follows it: the files that it shows are written, its commands are typed one after the other.

What a command prints is compared with what the page shows, quantities and other measured things masked; a line with
``…`` alone stands for any number of lines.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, cast

from _pytest.capture import CaptureIO

from palmette.zoo.recipes.loading import load_recipe
from tests.docs.commands import LEFT_OUT, ROOT

_BLOCK = re.compile(r"```(yaml|json|sh|console|python)\n(.*?)```", re.DOTALL)
Type = Callable[..., str]
"""Types a command, and returns what it prints."""
SERVES_S = 0.5
_NAMED = re.compile(r"# (\S+\.yaml)\n")
_JSON_NAME = re.compile(r"`(\w+\.json)`")
_MASKS = (
    (re.compile(r"\s+"), " "),
    (re.compile(r"one thread of [^,]*"), "one thread of a processor"),
    (
        re.compile(r"[+−-]?\d+([.,]\d+)*(e[+-]?\d+)?( ?(%|[µmkMG]?(s|J·s|J|W|B)|min|h|[KMG]iB|[kMG])(?![\w·]))?"),
        "#",
    ),
)


class Typed(NamedTuple):
    """A command, and what the page shows of its output; None where it shows nothing."""

    text: str
    shown: str | None

    @property
    def command(self) -> str:
        """Without a comment behind it."""
        return self.text.partition("  #")[0].rstrip()

    @property
    def arguments(self) -> list[str]:
        """What follows palmette, as a shell reads it."""
        return shlex.split(self.text, comments=True)[1:]


def masked(text: str) -> str:
    """A text without what differs from machine to machine, and from run to run."""
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    return text.strip()


def missing(shown: str, printed: str) -> str | None:
    """The first part of what a page shows that was not printed, or not in this order; None if all of it was."""
    rest = masked(printed)
    for part in map(masked, re.split(r"^…$", shown, flags=re.MULTILINE)):
        if part not in rest:
            return part
        rest = rest[rest.index(part) + len(part) :]
    return None


def steps(page: Path, folder: Path) -> Iterator[Typed | str]:
    """The commands and the Python programs of a page in their order; its files are written on the way."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        kind, body = found.groups()
        if kind == "yaml" and (name := _NAMED.match(body)):
            (folder / name[1]).write_text(body)
        elif kind == "json" and (names := _JSON_NAME.findall(text[: found.start()])):
            (folder / names[-1]).write_text(body)
        elif kind == "python":
            yield body
        elif kind == "sh":
            yield from (Typed(line, None) for line in re.sub(r"\\\n\s*", "", body).splitlines() if line)
        elif kind == "console":
            for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, _, shown = command.partition("\n")
                yield Typed(line, shown)


def typed(page: str, folder: Path) -> Iterator[Typed]:
    """The commands of a page but those that are left out."""
    for step in steps(ROOT / page, folder):
        if isinstance(step, Typed) and step.text.startswith("palmette ") and step.command not in LEFT_OUT.get(page, ()):
            yield step


def interrupted(
    type_: Type, text: str, said: str, instead: Mapping[str, str] = MappingProxyType({}), code: int = 0
) -> str:
    """Type what goes on until Ctrl-C is pressed, and press it after it has ``said`` something."""
    streams = [cast(CaptureIO, each) for each in (sys.stdout, sys.stderr)]
    ended = threading.Event()

    def press() -> None:
        while not ended.wait(0.1) and all(said not in each.getvalue() for each in streams):
            pass
        if not ended.wait(SERVES_S):
            os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press, daemon=True)
    pressing.start()
    try:
        return type_(text, instead, code)
    finally:
        ended.set()
        pressing.join()


@contextmanager
def own_training(folder: Path, text: str) -> Iterator[None]:
    """The ``training.py`` that a page has its readers write, in a folder; that of another page is not taken for it."""
    (folder / "training.py").write_text(text)
    _forget_training()
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        _forget_training()


def _forget_training() -> None:
    sys.modules.pop("training", None)
    load_recipe.cache_clear()
