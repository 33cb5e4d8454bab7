"""What was trained already, in a file: a benchmark that was interrupted goes on from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


class KeptRows:
    """Rows of one setting, by the method's name; without a file nothing is kept."""

    def __init__(self, path: Path | None, setting: tuple[Any, ...]) -> None:
        self._path, self._setting = path, json.dumps(setting)

    def row(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The row of a method, made and kept if it is not known."""
        known = self._read()
        if name not in known.get(self._setting, {}):
            made = make()
            known = self._read()  # others may have written meanwhile
            known.setdefault(self._setting, {})[name] = made
            if self._path is None:
                return made
            self._path.write_text(json.dumps(known))
        return dict(known[self._setting][name])

    def _read(self) -> dict[str, dict[str, dict[str, Any]]]:
        if self._path is None or not self._path.exists():
            return {}
        found: dict[str, dict[str, dict[str, Any]]] = json.loads(self._path.read_text())
        return found
