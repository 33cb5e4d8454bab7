"""Where runs without a terminal are, for ``ls``, ``logs``, ``stop`` and ``watch``: on this machine, or at a hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from palmette.errors import ArgumentFault, Fault, InputError, RunError, expected_name

if TYPE_CHECKING:
    from palmette.runtime.engines.hub.client import RunsAtHub
    from palmette.runtime.engines.hub.requests import RunFile
    from palmette.spec.cluster import Cluster
    from palmette.spec.run_entry import RunEntry

HubAt = Annotated[
    str | None, typer.Option("--at", help="The hub that keeps the run: host:port; this machine if not given.")
]
HubKeys = Annotated[
    Path | None,
    typer.Option(
        "--keys", help="Your key for the hub: a folder, or a file of palmette keys pack, which may contain its address."
    ),
]
HolderName = Annotated[
    str | None, typer.Option("--as", help="Your name in the folder of keys; not needed if it has only one.")
]
LimitsAt = Annotated[
    str | None,
    typer.Option("--at", help="Keep to the limits of the workers that are connected to this hub: host:port."),
]
RunName = Annotated[str, typer.Argument(help="The run: its name in palmette ls, or the first letters.", metavar="RUN")]
_PEOPLE = ("operator", "viewer")


class RunPlace(Protocol):
    """Where runs are."""

    def entries(self) -> list[RunEntry]:
        """All runs, the latest last."""
        ...

    def read(self, run: str, file: RunFile, offset: int) -> tuple[bytes, int]:
        """A part of a file of a run, and the length of the file; one that is not there is empty."""
        ...

    def stop(self, run: str) -> None:
        """Have a run stopped."""
        ...


class LocalRuns:
    """The runs without a terminal on this machine."""

    def __str__(self) -> str:
        return "this machine"

    def entries(self) -> list[RunEntry]:
        """All runs, the latest last."""
        from palmette.control.detached import detached_runs

        return [each.entry() for each in detached_runs()]

    def read(self, run: str, file: RunFile, offset: int) -> tuple[bytes, int]:
        """The rest of a file of a run, and the length of the file; one that is not there is empty."""
        (folder,) = (Path(each.folder) for each in self.entries() if each.run == run)
        try:
            with (folder / file).open("rb") as opened:
                size = opened.seek(0, 2)
                opened.seek(min(offset, size))
                return opened.read(), size
        except OSError:
            return b"", 0

    def stop(self, run: str) -> None:
        """Ask the process of a run to stop.

        Raises:
            InputError: it has ended.
            RunError: it is another user's.
        """
        from palmette.control.detached import detached_runs

        (found,) = (each for each in detached_runs() if each.run == run)
        if not found.alive:
            raise InputError(Fault("run", run, f"it is {found.entry().state}; expected a running one"))
        try:
            found.stop()
        except PermissionError:
            raise RunError(f"run {run} belongs to another user") from None


def run_place(at: str | None, keys: Path | None, name: str | None) -> RunPlace:
    """Where to look: at a hub, if one is given, or keys that say which; else on this machine.

    Raises:
        InputError: the keys are not there, or do not say where the hub is.
    """
    return LocalRuns() if at is None and keys is None else hub_runs(at, keys, name)


def hub_runs(at: str | None, keys: Path | None, name: str | None, passphrase_file: Path | None = None) -> RunsAtHub:
    """The runs at a hub.

    Raises:
        InputError: the keys are not there, or do not say where the hub is.
    """
    from palmette.cli.worker import access_from_folder, access_from_pack
    from palmette.runtime.engines.hub.client import RunsAtHub

    folder = keys or Path("keys")
    if folder.is_file():
        return RunsAtHub(access_from_pack(at, name, folder, passphrase_file)())
    if at is None:
        raise InputError(ArgumentFault("at", "missing", "expected the address of the hub, or a pack that has it"))
    return RunsAtHub(access_from_folder(at, name or _only_holder(folder), folder)())


def limited_at_hub(cluster: Cluster, at: str | None, keys: Path | None, name: str | None) -> Cluster:
    """The cluster within the limits of the workers that are connected to a hub, if one is given.

    Raises:
        InputError: the keys are not there, or do not say where the hub is.
        RunError: the hub cannot be reached, or refuses.
    """
    if at is None and keys is None:
        return cluster
    from palmette.runtime.engines.hub.limits import limited_cluster

    return limited_cluster(cluster, {each.node: each.limits for each in hub_runs(at, keys, name).workers()})


def _only_holder(folder: Path) -> str:
    """The person whose key is in a folder."""
    from palmette.runtime.transports.keys.folder import Keys

    found = [each.node for each in Keys(folder).entries() if each.role in _PEOPLE]
    here = [name for name in found if Keys(folder).file(name, "key").exists()]
    if len(here) != 1:
        expected = f"{folder} has the keys of {len(here)} operators and viewers; expected the name of one"
        raise InputError(ArgumentFault("as", "missing", expected))
    return here[0]


def find_run(place: RunPlace, text: str) -> RunEntry:
    """The run of a name, of its first letters, or of its folder.

    Raises:
        InputError: there is none, or more than one.
    """
    known = place.entries()
    found = [each for each in known if each.run == text or each.folder == str(Path(text).absolute())]
    found = found or [each for each in known if each.run.startswith(text)]
    if len(found) > 1:
        raise InputError(Fault("RUN", text, f"{len(found)} runs start with it; expected more letters"))
    if not found:
        raise InputError(Fault("RUN", text, f"{expected_name(text, 'run', [each.run for each in known])} at {place}"))
    return found[0]


def has_ended(entry: RunEntry) -> bool:
    """Whether nothing more will happen."""
    return entry.state not in ("waiting", "running")
