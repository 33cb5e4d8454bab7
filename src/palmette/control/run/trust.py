"""Code that files name: it is imported only where the user has said so, once for a file and its content.

A plan, a cluster file or a run folder may name code as ``package.module:callable``, and whoever wrote the file has
chosen it. What a user types is the user's own choice. Files that were trusted are remembered with a hash of their
content in ``palmette/trusted.json`` of the user's configuration folder; what a run writes into its own folder is, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from palmette.errors import Argument, Fault, InputError, Message, RunError, listed
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan
from palmette.zoo.data.registry import find_entry


def model_code(model: str) -> set[str]:
    """The code that the name of a network stands for; none for one of the zoo."""
    base = model.partition("?")[0]
    return {base} if ":" in base else set()


def plan_code(plan: Plan) -> set[str]:
    """The code that a plan names as its network."""
    return model_code(plan.model)


def cluster_code(cluster: Cluster) -> set[str]:
    """The code that a cluster names as data of its sources."""
    named = {node.source.data for node in cluster.nodes.values() if node.source and node.source.data}
    return {name for name in named if _is_code(name)}


def options_code(options: Mapping[str, Any]) -> set[str]:
    """The code that the options of a ``run.json`` name: recipe, data, optimizer and schedule."""
    data = options.get("data")
    found = {data} if isinstance(data, str) and _is_code(data) else set()
    return found.union(*(set(_references(options.get(name))) for name in ("recipe", "optimizer", "schedule")))


def refuse_untrusted(named: Mapping[str, Collection[str]], *, trust: bool, typed: Collection[str | None] = ()) -> None:
    """Refuse code that files name, unless it is ``typed``, or the user trusts the files: now, or once before.

    ``named`` holds the code by file; that of an object has the empty name.

    Raises:
        InputError: names file and code, and what to type.
    """
    for file, names in named.items():
        left = sorted(set(names) - set(typed))
        if not left or (file and _content(Path(file)) == _remembered().get(_key(Path(file)))):
            continue
        if not trust:
            expected = Message("would be imported and called; expected ", Argument("trust_code"), ", if you trust it")
            raise InputError(Fault("code", listed(left), expected, file))
        if file:
            remember(Path(file))


def refuse_new_code(plan: Plan, known: Collection[str]) -> None:
    """Refuse that a run goes on with code beside the ``known``, which a changed cluster file names.

    Raises:
        RunError: says how to allow it.
    """
    new = sorted(all_code(plan) - set(known))
    if new:
        raise RunError(f"the cluster file now names code, {listed(new)}; allow it with --trust-code")


def remember(file: Path) -> None:
    """Trust a file from now on, as long as its content stays the same; files that are gone are forgotten."""
    known = {name: content for name, content in _remembered().items() if Path(name).exists()}
    known[_key(file)] = _content(file)
    with suppress(OSError):  # where nothing can be remembered, the user is asked again
        _write(json.dumps(known, indent=1))


def all_code(plan: Plan) -> set[str]:
    """The code that a plan names, and the cluster that it carries."""
    cluster = plan.inputs and plan.inputs.cluster
    return plan_code(plan) | (cluster_code(cluster) if cluster else set())


def _is_code(data: str) -> bool:
    return ":" in data and find_entry(data)[0] is None


def _references(written: Any) -> Iterator[str]:
    """The code in what ``to_reference`` has recorded."""
    if isinstance(written, str) and ":" in written:
        yield written
    if isinstance(written, dict):
        yield from _references(written.get("partial"))


def _key(file: Path) -> str:
    return str(file.resolve())


def _content(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _trust_file() -> Path:
    asked = os.environ.get("XDG_CONFIG_HOME")
    return (Path(asked) if asked else Path.home() / ".config") / "palmette" / "trusted.json"


def _remembered() -> dict[str, str]:
    """The content of each trusted file; none where that was never written, or is damaged."""
    try:
        found = json.loads(_trust_file().read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(text: str) -> None:
    file = _trust_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=file.parent)  # only its owner can read and write it
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    Path(draft).replace(file)
