"""A pilot: makes the runs of a grid one after the other, and fits the learning curve to them.

    pilot.json      what all runs have in common
    runs/SETTING/   a run each, as ``palmette run`` leaves it
    learning.json   the curve

Runs that are done are not made again, and an interrupted one continues from its checkpoint. More settings may be added
later; anything else needs another folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palmette.control.learn import learn, learned_run
from palmette.control.pilot.grid import PilotSetting
from palmette.control.pilot.placement import cluster_here, pilot_plan
from palmette.control.pilot.request import PilotRequest
from palmette.control.run.engines import refuse_strange_hub
from palmette.control.run.folder import owned
from palmette.control.run.request import Request
from palmette.control.run.session import TrainingSession
from palmette.errors import ArgumentFault, InputError, RunError, shown
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.training import checkpoint
from palmette.runtime.training.job import ProgressUpdate
from palmette.runtime.training.loop import Training
from palmette.spec.cluster import Cluster
from palmette.spec.files import load, make_folder, read, write_text
from palmette.spec.learning import Learning
from palmette.spec.limits import MOST_SEED
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from palmette.spec.run import RunRecord

FORMAT = "palmette.pilot/1"


@dataclass(frozen=True)
class PilotProgress:
    """Which of how many runs is made, the fraction of all work that is done, and about how many seconds are left."""

    setting: PilotSetting
    run: int
    runs: int
    done: float
    left_s: float | None


class Pilot:
    """A pilot in a folder.

    Raises:
        InputError: the cluster has no source, a setting has no plan, or the folder has a pilot of something else.
    """

    def __init__(self, request: PilotRequest, cluster: Cluster, profile: Profile, folder: Path) -> None:
        self.request, self.folder, self.profile = request, folder, profile
        real_hosts = ENGINES[request.engine].real_hosts
        self.settings = request.settings(cluster)
        self.cluster = cluster if real_hosts else cluster_here(cluster, profile)
        self._plans = {each: self._plan(each, cluster if real_hosts else None, cluster) for each in self.settings}
        for plan in self._plans.values():
            refuse_strange_hub(request.run(), plan)
        make_folder(folder)
        self._keep_record(cluster)

    def _plan(self, setting: PilotSetting, hosts: Cluster | None, described: Cluster) -> Plan:
        """The plan of a setting, on hosts or here, where one node computes unless something has to travel."""
        if hosts is None:
            computing = max(2, setting.replicas) if setting.needs_several_nodes else 1
            hosts = cluster_here(described, self.profile, computing)
        return pilot_plan(self.request.model, setting, self.profile, hosts, self.request.batch)

    def _keep_record(self, cluster: Cluster) -> None:
        """Write what the runs have in common, or compare it with what is there."""
        sources = {name: node.source for name, node in cluster.nodes.items() if node.source is not None}
        described = {name: {"samples": source.samples, "data": source.data} for name, source in sources.items()}
        record = json.loads(json.dumps({"format": FORMAT, **self.request.to_record(), "sources": described}))
        file = self.folder / "pilot.json"
        if not file.exists():
            write_text(file, json.dumps(record, indent=1) + "\n")
            return
        wrong = list(_differences(record, read(file), str(self.folder)))
        if wrong:
            raise InputError(wrong)

    def run(
        self,
        on_progress: Callable[[PilotProgress], None] = lambda _: None,
        ready: Callable[[Training], None] = lambda _: None,
    ) -> Learning:
        """Make the runs that are missing, and fit the curve; ``ready`` gets each training, to be able to stop it.

        Raises:
            RunError: a run failed or was stopped; what is done remains.
            InputError: network, data or options do not fit, another process uses the folder, or no curve can be fitted.
        """
        left = [setting for setting in self.settings if not self._is_done(setting)]
        progress = _WorkMeter(
            {each: each.work(self.cluster, self.request.epochs) for each in self.settings}, left, on_progress
        )
        with owned(self.folder):
            for setting in left:
                self._make(setting, progress, ready)
        found = learn([learned_run(self.folder_of(setting)) for setting in self.settings])
        write_text(self.folder / "learning.json", found.to_json())
        return found

    def folder_of(self, setting: PilotSetting) -> Path:
        """The folder of a run."""
        return self.folder / "runs" / setting.name

    def _is_done(self, setting: PilotSetting) -> bool:
        file = self.folder_of(setting) / "run.json"
        return file.exists() and load(RunRecord, file).ended == "done"

    def _make(self, setting: PilotSetting, progress: _WorkMeter, ready: Callable[[Training], None]) -> None:
        folder = self.folder_of(setting)
        begun = any((folder / "checkpoints").glob("[0-9]*"))
        resumed = checkpoint.last(folder / "checkpoints").checkpoint if begun else None
        session = TrainingSession(self._plans[setting], self._request_of(setting), folder, resumed)
        progress.begin(setting)
        outcome = session.run(progress.update, ready)
        if outcome.ended != "done":
            raise RunError(outcome.ended)

    def _request_of(self, setting: PilotSetting) -> Request:
        """The request of a run, with a seed of its own for its data, replicas and length.

        Runs that differ in window or codec alone share one, so that they differ in nothing else.
        """
        common, places = self.request.run(), list(dict.fromkeys(each.place for each in self.settings))
        seed = (common.options.seed + places.index(setting.place)) % (MOST_SEED + 1)
        options = replace(common.options, seed=seed)
        return replace(common, epochs=setting.epochs or common.epochs, options=options)


def _differences(now: dict[str, Any], before: Any, folder: str) -> Iterable[ArgumentFault]:
    """What is asked now and was not when the pilot began."""
    known = before if isinstance(before, dict) else {}
    for name, value in now.items():
        if known.get(name) != value:
            expected = f"the pilot in {folder} began with {shown(known.get(name))}; expected that, or another folder"
            yield ArgumentFault(name, value, expected)


class _WorkMeter:
    """Turns the iterations of a run into the progress of the pilot."""

    def __init__(
        self,
        works: dict[PilotSetting, float],
        left: list[PilotSetting],
        on_progress: Callable[[PilotProgress], None],
    ) -> None:
        self._works, self._left, self._on_progress = works, left, on_progress
        self._total = sum(works.values())
        self._finished = self._at_start = self._total - sum(works[each] for each in left)
        self._began_s = time.monotonic()

    def begin(self, setting: PilotSetting) -> None:
        """A run begins."""
        done = len(self._works) - len(self._left) + self._left.index(setting)
        self._finished = self._at_start + sum(self._works[each] for each in self._left[: self._left.index(setting)])
        self._now = PilotProgress(setting, done + 1, len(self._works), self._finished / self._total, None)
        self._tell(0.0)

    def update(self, update: ProgressUpdate) -> None:
        """An iteration of it is done."""
        self._tell(min(1.0, update.iteration / max(1, update.iterations)))

    def _tell(self, part: float) -> None:
        work = self._finished + part * self._works[self._now.setting]
        since, gone_s = work - self._at_start, time.monotonic() - self._began_s
        left_s = gone_s / since * (self._total - work) if since > 0 else None
        self._on_progress(replace(self._now, done=work / self._total, left_s=left_s))
