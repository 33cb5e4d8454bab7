"""The trackers that a user may name: one row each.

tensorboard[:DIR]   mlflow[:URI]   wandb[:PROJECT]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

from palmette.control.track.mlflow import MLflowTracker
from palmette.control.track.tensorboard import TensorBoardTracker
from palmette.control.track.tracker import OpenTracker
from palmette.control.track.wandb import WandbTracker
from palmette.errors import ArgumentFault, InputError, expected_name


@dataclass(frozen=True)
class TrackerEntry:
    """How a tracker is opened, the package that it needs, and what may stand behind its name and a colon."""

    open: OpenTracker
    package: str
    argument: str


TRACKERS = {
    "tensorboard": TrackerEntry(TensorBoardTracker, package="tensorboard", argument="DIR"),
    "mlflow": TrackerEntry(MLflowTracker, package="mlflow", argument="URI"),
    "wandb": TrackerEntry(WandbTracker, package="wandb", argument="PROJECT"),
}


def find_tracker(text: str) -> tuple[str, TrackerEntry, str]:
    """The name, the row and the argument of a tracker that a user names, such as ``tensorboard:logs``.

    Raises:
        InputError: there is no such tracker, it is not installed, or a password stands in its address.
    """
    name, _, argument = text.partition(":")
    entry = TRACKERS.get(name)
    if entry is None:
        usages = [f"{each}[:{row.argument}]" for each, row in TRACKERS.items()]
        raise InputError(ArgumentFault("track", text, expected_name(name, "tracker", usages)))
    if find_spec(entry.package) is None:
        expected = f"{entry.package} is not installed; install it with: pip install {entry.package}"
        raise InputError(ArgumentFault("track", text, expected))
    if "@" in urlsplit(argument).netloc:
        expected = "the address would be written to run.json; expected it without name and password"
        raise InputError(ArgumentFault("track", f"{name}:…", f"{expected}, which belong into the environment"))
    return name, entry, argument


def refuse_trackers(texts: Sequence[str]) -> None:
    """Refuse trackers that cannot be used.

    Raises:
        InputError: holds every fault.
    """
    wrong = []
    for text in texts:
        try:
            find_tracker(text)
        except InputError as error:
            wrong += error.faults
    if wrong:
        raise InputError(wrong)
