"""Reading and writing files: whatever is wrong with one becomes faults that name it, never a traceback."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from palmette.errors import Fault, InputError, RunError, listed
from palmette.spec.document import Document, faults
from palmette.spec.durable import make_folders, write_file

D = TypeVar("D", bound=Document)

# libyaml's, unless PyYAML was built without it.
_CParser: Any = getattr(getattr(yaml, "cyaml", None), "CParser", object)

# A file may use aliases freely; only one that they make many times longer is refused.
_MOST_TIMES, _MOST_VALUES = 10, 100_000

# What is read within seconds: clusters of some 100,000 nodes. Larger files are not written by hand.
_MOST_YAML = 4 * 2**20

_NO_FAULT_OF_THE_NAME = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def load(kind: type[D], path: str | os.PathLike[str]) -> D:
    """Read a document of the given kind from a JSON or YAML file.

    Raises:
        InputError: the file cannot be read, or is not such a document; holds every fault.
    """
    data = read(path)
    _refuse_another_kind(kind, data, str(path))
    return validated(kind, data, str(path), Path(path).parent)


def _refuse_another_kind(kind: type[Document], data: dict[str, Any], file: str) -> None:
    """Refuse a file of another kind with one fault, instead of one for each of its fields."""
    found = data.get("format", "missing")
    if "format" in kind.model_fields:
        expected = kind.model_fields["format"].default
        if found != expected:
            raise InputError(Fault("format", found, f"expected {expected!r}", file))
    elif isinstance(found, str) and found.startswith("palmette."):
        raise InputError(Fault("format", found, f"expected {kind.file_with}, and no format", file))
    elif kind.file_with and data and not any(map(kind.has_field, data)):
        raise InputError(Fault("", f"a file with {listed(list(map(str, data)))}", f"expected {kind.file_with}", file))


def validated(kind: type[D], data: Any, file: str = "", folder: Path | None = None) -> D:
    """Make a document of plain data; files that it names are relative to ``folder``, and none are read without one.

    Raises:
        InputError: the data does not describe one; holds every fault.
    """
    try:
        return kind.model_validate(data if folder is None else kind.with_files(data, folder))
    except ValidationError as error:
        raise faults(error, file) from None
    except RecursionError:
        raise InputError(Fault("", "a document", "it is nested too deeply", file)) from None


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The mapping that a file holds; YAML where its name ends in .yaml or .yml, JSON otherwise.

    Raises:
        InputError: there is no such file, it cannot be read or parsed, or it holds something else.
    """
    text = read_text(path)
    yaml_file = Path(path).suffix.lower() in (".yaml", ".yml")
    if yaml_file and len(text) > _MOST_YAML:
        expected = f"expected at most {_MOST_YAML >> 20} MiB of YAML"
        raise InputError(Fault("", f"{len(text) >> 20} MiB", expected, str(path)))
    data = _parse(from_yaml if yaml_file else _from_json, text, str(path))
    if not isinstance(data, dict):
        found = "nothing" if data is None else data
        raise InputError(Fault("", found, f"expected a {'YAML' if yaml_file else 'JSON'} mapping", str(path)))
    return data


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file.

    Raises:
        InputError: there is no such file, or it cannot be read as UTF-8.
    """
    try:
        if Path(path).is_block_device() or (Path(path).is_char_device() and os.path.realpath(path) != os.devnull):
            raise OSError(errno.EINVAL, "it is a device, which may have no end")
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(Fault("", "the file", f"cannot be read: {reason}", str(path))) from None


def parsed_json(text: str, file: str) -> Any:
    """What a JSON text says; ``file`` is where it stands.

    Raises:
        InputError: it cannot be parsed.
    """
    return _parse(_from_json, text, file)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file whole or not at all: no reader ever sees half of it, nor does a power cut leave one.

    What a symbolic link points to is written; a pipe or a device is written into, never replaced by a file.

    Raises:
        InputError: there can be no such file.
        RunError: there is no room left for it, or the disk fails.
    """
    try:
        if Path(path).exists() and not Path(path).is_file():
            Path(path).write_text(text, encoding="utf-8")
        else:
            write_file(Path(path).resolve(), lambda draft: draft.write_text(text, encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        fault = Fault("", "the file", f"cannot be written: {reason}", str(path))
        if isinstance(error, OSError) and error.errno in _NO_FAULT_OF_THE_NAME:
            raise RunError(str(fault)) from None
        raise InputError(fault) from None


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it, if they are not there.

    Raises:
        InputError: there can be no such folder.
    """
    try:
        make_folders(Path(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(Fault("", "the folder", f"cannot be made: {reason}", str(path))) from None


def yaml_text(data: Any) -> str:
    """Plain data as YAML, as a person would write it."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _parse(parser: Callable[[str], Any], text: str, file: str) -> Any:
    try:
        return parser(text)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise InputError(Fault("", "the file", f"cannot be parsed: {_reason(error)}", file)) from None
    except RecursionError:
        raise InputError(Fault("", "the file", "cannot be parsed: it is nested too deeply", file)) from None


def _reason(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{error.problem}: line {mark.line + 1}, column {mark.column + 1}"
    return " ".join(str(error).split())


def _from_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_without_repeats)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the field {twice!r} stands there twice")
    return data


class _CheckedComposer(yaml.composer.Composer):
    """YAML without repeated keys, of which one would silently win, and without aliases that never seem to end."""

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            sizes: dict[int, float] = {}
            if _written_out(node, sizes) > _MOST_TIMES * len(sizes) + _MOST_VALUES:
                raise yaml.composer.ComposerError(None, None, "its aliases stand for too many values", node.start_mark)
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen and key.value != "<<":
                raise yaml.composer.ComposerError(
                    None, None, f"the field {key.value!r} stands there twice", key.start_mark
                )
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return node


class _Loader(_CheckedComposer, yaml.SafeLoader):
    """In Python throughout."""


class _QuickLoader(_CheckedComposer, _CParser, SafeConstructor, Resolver):  # type: ignore[misc]
    """Parsed by libyaml, in a third of the time; put together in Python, which survives any depth."""

    def __init__(self, stream: str) -> None:
        _CParser.__init__(self, stream)
        for part in (yaml.composer.Composer, SafeConstructor, Resolver):
            part.__init__(self)


class _Dumper(yaml.SafeDumper):
    """YAML that ``_Loader`` reads back as the same."""


# YAML 1.1 takes 1e6 for a text; people and JSON mean a number.
for _side in (_Loader, _QuickLoader, _Dumper):
    _side.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


def _written_out(node: yaml.Node, sizes: dict[int, float]) -> float:
    """The number of values under a node with its aliases written out; infinite where it contains itself."""
    if id(node) not in sizes:
        sizes[id(node)] = math.inf
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        nodes = itertools.chain(*inner) if isinstance(node, yaml.MappingNode) else inner
        sizes[id(node)] = 1 + sum(_written_out(each, sizes) for each in nodes)
    return sizes[id(node)]


def from_yaml(text: str) -> Any:
    """What a YAML text holds."""
    if _CParser is not object:
        with suppress(yaml.YAMLError):  # said below, in the same words on every machine
            return yaml.load(text, Loader=_QuickLoader)  # noqa: S506  (a safe constructor)
    return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
