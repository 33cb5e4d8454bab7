"""Fig. 2's trainings, each kept in a file once it is over: the same command resumes where it was stopped.

    gold-5.pt, gold-5.json            the network when it is pruned, and its curve so far
    5-0.9-silver.json                 the curve of a training: K₁, F, and which nodes join

Trainings with the same beginning share it. One that was stopped halfway begins again from where the network was pruned,
and the gold nodes from their first epoch if they had not come to the next K₁.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import TypeVar

from palmette.errors import Fault, InputError
from palmette.measure.curves.trainer import CurveRecipe
from palmette.reproduce.pact.federated import FederatedCurve, FederatedGrid, Federation
from palmette.reproduce.progress import Progress
from palmette.spec.durable import write_file

JOINING = ("silver", "bronze")
Key = tuple[int, float, str]
"""K₁, F, and which nodes join."""
Read = TypeVar("Read")


class KeptTrainings:
    """The trainings of a grid, by a recipe, in a folder of their own."""

    def __init__(self, recipe: CurveRecipe, grid: FederatedGrid, progress: Progress, folder: Path) -> None:
        self._recipe, self._grid, self._progress, self._folder = recipe, grid, progress, folder
        self._gold_nodes: tuple[Federation, FederatedCurve] | None = None

    def all(self) -> dict[Key, FederatedCurve]:
        """Every training; those that are not there yet are trained.

        Raises:
            InputError: the data cannot be used, or a file not read or written.
        """
        found: dict[Key, FederatedCurve] = {}
        for k1 in self._grid.k1:
            keys = [(k1, pruned, kind) for pruned in self._grid.pruned for kind in JOINING]
            kept = {key: curve for key in keys if (curve := self._kept_curve(_file(key))) is not None}
            found |= kept
            if len(kept) < len(keys):
                trunk, begun = self._gold(k1)
                found |= {key: self._trained(trunk, begun, key) for key in keys if key not in kept}
        return found

    def _gold(self, k1: int) -> tuple[Federation, FederatedCurve]:
        """The gold nodes after K₁ epochs."""
        curve, saved = self._kept_curve(f"gold-{k1}.json"), self._folder / f"gold-{k1}.pt"
        if curve is not None and saved.is_file():
            loaded = Federation(self._recipe)
            _read(saved, lambda path: loaded.load(path.read_bytes()))
            return loaded, curve
        trunk, begun = self._gold_nodes = self._gold_nodes or (Federation(self._recipe), FederatedCurve())
        done = len(begun.accuracy)
        for epoch, _ in enumerate(trunk.train(begun, k1 - done), done + 1):
            self._progress(f"Fig. 2: epoch {epoch} of {k1} on gold")
        self._write(saved.name, lambda path: path.write_bytes(trunk.state_bytes()))
        self._write(f"gold-{k1}.json", lambda path: path.write_text(begun.to_json(), encoding="utf-8"))
        return trunk, begun

    def _trained(self, trunk: Federation, begun: FederatedCurve, key: Key) -> FederatedCurve:
        k1, pruned, kind = key
        so_far, epochs = begun.copy(), self._grid.epochs - k1
        for epoch, _ in enumerate(trunk.joined(kind, pruned).train(so_far, epochs), 1):
            self._progress(f"Fig. 2: {pruned:g} pruned after {k1} epochs, {kind} joins: epoch {epoch} of {epochs}")
        self._write(_file(key), lambda path: path.write_text(so_far.to_json(), encoding="utf-8"))
        return so_far

    def _kept_curve(self, name: str) -> FederatedCurve | None:
        path = self._folder / name
        return _read(path, lambda file: FederatedCurve.parsed(file.read_text("utf-8"))) if path.is_file() else None

    def _write(self, name: str, write: Callable[[Path], object]) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_file(self._folder / name, write)
        except OSError as error:
            raise InputError(Fault("", name, f"cannot be written: {error.strerror}", str(self._folder))) from None


def _file(key: Key) -> str:
    k1, pruned, kind = key
    return f"{k1}-{pruned:g}-{kind}.json"


def _read(path: Path, read: Callable[[Path], Read]) -> Read:
    try:
        return read(path)
    except (OSError, EOFError, KeyError, TypeError, ValueError, RuntimeError, UnpicklingError) as error:
        reason = f"cannot be read: {' '.join(str(error).split())}; remove it to train again"
        raise InputError(Fault("", path.name, reason, str(path.parent))) from None
