"""What was submitted to a hub: a plan and the options of its run, checked by what the owner of the hub allows.

A submission is beside the files of its run, in ``submission.json``, so that a hub that is started again continues.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palmette.control.run.request import Request, from_record, to_record
from palmette.control.run.trust import cluster_code, options_code, plan_code
from palmette.control.run.validation import refuse_unrunnable
from palmette.cost.estimate import evaluator
from palmette.errors import Fault, InputError
from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.spec.files import read, validated, write_text
from palmette.spec.plan import Plan, inputs_of
from palmette.spec.run_entry import RunState

FORMAT = "palmette.submission/1"
ENGINE = "hub"
_FILE = "submission.json"
# They name files and services of the machine where they were typed, or are the hub's own business.
_STAYS = {
    "init": None,
    "keep_samples": None,
    "track": (),
    "meter": (),
    "hub": None,
    "testbed": "none",
    "dilation": None,
}
_OWN = ("engine", "transport", "keys", "listen", "cluster_file")


def submitted_options(request: Request) -> dict[str, Any]:
    """The options of a run that travel to a hub.

    Raises:
        InputError: one names what is on this machine only.
    """
    given = to_record(request)
    wrong = [
        Fault(f"--{name.replace('_', '-')}", given[name], "cannot be sent to a hub; expected none")
        for name, usual in _STAYS.items()
        if given[name] not in (usual, list(usual) if isinstance(usual, tuple) else usual)
    ]
    if wrong:
        raise InputError(wrong)
    return {name: value for name, value in given.items() if name not in _STAYS and name not in _OWN}


@dataclass(frozen=True)
class Submission:
    """A plan that carries its cluster and profile, the options of its run, by whom and when, and what became of it."""

    run: str
    plan: Plan
    options: Mapping[str, Any]
    by: str
    since: str
    state: RunState = "waiting"
    why: str = ""

    @property
    def nodes(self) -> list[str]:
        """The nodes of its plan."""
        return list(dict.fromkeys(node for phase in self.plan.phases for node in phase.nodes()))

    def request(self, listen: str, keys: Path) -> Request:
        """The run's options, at a hub that listens there.

        Raises:
            InputError: they cannot be read.
        """
        own = {"engine": ENGINE, "listen": listen, "keys": str(keys)}
        return from_record({**self.options, **own}, "options")

    def refuse(self, allowed: AllowedNames) -> None:
        """Refuse what cannot be run, or names code or data that the owner of the hub does not allow.

        Raises:
            InputError: the plan does not fit its profile and cluster, or options are not those of a run.
            RunError: says how its owner allows it.
        """
        strange = [name for name in self.options if name in _STAYS or name in _OWN]
        if strange:
            raise InputError(Fault("options", strange[0], "is not for a hub"))
        profile, cluster = inputs_of(self.plan, None, None)
        named = plan_code(self.plan) | options_code(self.options) | cluster_code(cluster)
        sources = {node.source.data for node in cluster.nodes.values() if node.source and node.source.data}
        data = {self.options.get("data"), *sources} - {None}
        for name in sorted(named - data):
            allowed.refuse_code(name)
        for each in data:
            allowed.data_here(str(each))
        refuse_unrunnable(self.plan, evaluator(profile, cluster))

    def write(self, folder: Path) -> None:
        """Write it into the folder of its run.

        Raises:
            InputError: it cannot be written.
            RunError: there is no room left.
        """
        data = {
            "format": FORMAT,
            "run": self.run,
            "by": self.by,
            "since": self.since,
            "state": self.state,
            "why": self.why,
            "options": self.options,
            "plan": self.plan.model_dump(mode="json"),
        }
        write_text(folder / _FILE, json.dumps(data, indent=1) + "\n")


def read_submission(folder: Path) -> Submission:
    """The submission in the folder of a run.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    file = folder / _FILE
    found = read(file)
    try:
        if found.pop("format") != FORMAT:
            raise InputError(Fault("format", "another one", f"expected {FORMAT}", str(file)))
        plan = validated(Plan, found.pop("plan"), str(file))
        return Submission(plan=plan, **found)
    except (TypeError, KeyError) as error:
        raise InputError(Fault("", "the file", f"is no submission: {error}", str(file))) from None
