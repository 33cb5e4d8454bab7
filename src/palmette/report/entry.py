"""What a report shows: plans, and runs with the plan that each executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from palmette.errors import Fault, InputError
from palmette.spec.cluster import Cluster
from palmette.spec.files import read, validated
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from palmette.spec.run import RunRecord
from palmette.zoo.hardware_defaults import fill_hardware_defaults


@dataclass(frozen=True)
class ReportEntry:
    """A plan, the profile and cluster it was made for where known, and the run that executed it, if any."""

    name: str
    file: str
    plan: Plan
    profile: Profile | None
    cluster: Cluster | None
    run: RunRecord | None = None
    folder: Path | None = None


def read_entries(
    paths: Sequence[Path], profile: Profile | None = None, cluster: Cluster | None = None
) -> list[ReportEntry]:
    """The plans and runs at these paths, each under a unique name; ``profile`` and ``cluster`` override theirs.

    Raises:
        InputError: one is neither a plan nor a run; holds every fault of all of them.
    """
    found, wrong = [], []
    for path in paths:
        try:
            found.append(read_entry(path, profile, cluster))
        except InputError as error:
            wrong += error.faults
    if wrong:
        raise InputError(wrong)
    return _with_unique_names(found)


def read_entry(path: Path, profile: Profile | None = None, cluster: Cluster | None = None) -> ReportEntry:
    """The plan or run at a path: a plan's file, a run's folder, or the ``run.json`` in it.

    Raises:
        InputError: it is neither; holds every fault.
    """
    file = path / "run.json" if path.is_dir() else path
    if path.is_dir() and not file.exists():
        raise InputError(Fault("", "run.json", "does not exist; expected the folder of a run", str(path)))
    data = read(file)
    kind = data.get("format")
    if kind == "palmette.run/1":
        run, folder = validated(RunRecord, data, str(file)), file.parent
        entry = ReportEntry(folder.resolve().name or "run", str(file), run.plan, profile, cluster, run, folder)
    elif kind == "palmette.plan/1":
        entry = ReportEntry(file.stem, str(file), validated(Plan, data, str(file)), profile, cluster)
    else:
        expected = "expected palmette.plan/1 or palmette.run/1"
        raise InputError(Fault("format", "missing" if kind is None else kind, expected, str(file)))
    return _with_inputs(entry)


def _with_inputs(entry: ReportEntry) -> ReportEntry:
    """The entry with the profile and cluster of its plan's inputs where none was given."""
    inputs, cluster = entry.plan.inputs, entry.cluster
    if inputs is None:
        return entry
    if cluster is None and inputs.cluster is not None:
        cluster = fill_hardware_defaults(inputs.cluster, f"{entry.file}: inputs.cluster")
    return replace(entry, profile=entry.profile or inputs.profile, cluster=cluster)


def _with_unique_names(entries: list[ReportEntry]) -> list[ReportEntry]:
    """The entries; a repeated name gets a number."""
    seen: dict[str, int] = {}
    named = []
    for entry in entries:
        seen[entry.name] = many = seen.get(entry.name, 0) + 1
        named.append(entry if many == 1 else replace(entry, name=f"{entry.name} ({many})"))
    return named
