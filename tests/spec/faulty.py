"""Faulty files: write one, load it, and look at what is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from palmette.errors import Fault, InputError, one_line
from palmette.spec.document import Document
from palmette.spec.files import load

DATA = Path(__file__).parents[1] / "data"


def plain(name: str) -> Any:
    """The content of one of the files under tests/data."""
    text = (DATA / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else yaml.safe_load(text)


def told(kind: type[Document], content: Any, folder: Path, suffix: str = ".yaml") -> list[Fault]:
    """The faults of a file with this text, these bytes, or this content as JSON; each has to be one line."""
    file = folder / f"faulty{suffix}"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load(kind, file)
    faults = caught.value.faults
    assert str(caught.value).splitlines() == [str(fault) for fault in faults]
    for fault in faults:
        assert fault.file == str(file)
        assert str(fault).startswith(f"{file}: {one_line(fault.field)}")
        assert str(fault).isprintable()
    return faults


def lines(kind: type[Document], content: Any, folder: Path, suffix: str = ".yaml") -> list[str]:
    """The same as lines without the file's name."""
    faults = told(kind, content, folder, suffix)
    return [str(fault).removeprefix(f"{fault.file}: ") for fault in faults]
