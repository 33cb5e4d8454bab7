"""The folder of a training: a file per step, and in ``steps.json`` what each was made from."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from palmette.errors import InputError
from palmette.spec.files import make_folder, read, write_text

FORMAT = "palmette.up/1"


def digest(made_from: Any) -> str:
    """A short name for plain data: the same data has the same."""
    text = json.dumps(made_from, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class UpFolder:
    """The files of the steps of a training."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._steps = path / "steps.json"

    def file(self, name: str) -> Path:
        """The file or folder of a step."""
        return self.path / name

    def keeps(self, name: str, made_from: Any) -> bool:
        """Whether a step has been done, from the same inputs."""
        return self.file(name).exists() and self._known().get(name) == digest(made_from)

    def differs(self, name: str, made_from: Any) -> bool:
        """Whether a step has been done, from other inputs."""
        return self.file(name).exists() and self._known().get(name) != digest(made_from)

    def note(self, name: str, made_from: Any) -> None:
        """Note what a step is made from."""
        make_folder(self.path)
        steps = {**self._known(), name: digest(made_from)}
        write_text(self._steps, json.dumps({"format": FORMAT, "steps": steps}, indent=1) + "\n")

    def write(self, name: str, text: str, made_from: Any) -> None:
        """Write the file of a step."""
        make_folder(self.path)
        write_text(self.file(name), text)
        self.note(name, made_from)

    def _known(self) -> dict[str, str]:
        """What the steps were made from; nothing where that was never written, or is damaged."""
        try:
            steps = read(self._steps).get("steps")
        except InputError:
            return {}
        return steps if isinstance(steps, dict) else {}
