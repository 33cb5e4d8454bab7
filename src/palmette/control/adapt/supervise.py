"""Plan, run, observe, plan again: a run that survives the loss of nodes and links, and uses nodes that join.

run ──▶ a node is lost ──▶ the others roll back to the last common iteration ─▶ checkpoint ─┐
 ▲      the cluster changes ──▶ the current iteration is finished ───────────▶ checkpoint ─┤
 └──────────────── the same strategy plans for what is there now ◀──────────────────────────┘
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from palmette.control.adapt.drift import LinkSpeeds
from palmette.control.adapt.membership import ClusterFile, present_nodes, with_joined_nodes
from palmette.control.adapt.pauses import PauseMeter
from palmette.control.adapt.replanning import can_replan, replan_for, replan_without, subcluster
from palmette.control.adapt.switching import PAUSE_S, REASON, PlanSwitching
from palmette.control.run.callbacks import CallbackList
from palmette.control.run.engines import membership_of
from palmette.control.run.folder import owned
from palmette.control.run.record import PlanChange
from palmette.control.run.session import TrainingSession
from palmette.control.run.trust import all_code, refuse_new_code
from palmette.control.track.events import TrackerCallback
from palmette.errors import NodeLost, RunError
from palmette.plan.core.parallel import BESIDE_TRAINING
from palmette.runtime.training import checkpoint
from palmette.runtime.training.job import RunOutcome
from palmette.runtime.training.loop import Training
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan

_POLL_EVERY_S = 0.5

Detector = Callable[[], Cluster | Plan | None]
"""Returns the cluster as it is now, if it has changed, or a plan to go on with."""


class Supervisor:
    """Runs a session; when the cluster changes, plans again and continues, if it may.

    ``callbacks`` are told what happens, after the trackers of the request.

    Raises:
        InputError: a callback has no method for any event.
    """

    def __init__(self, session: TrainingSession, callbacks: Sequence[object] = ()) -> None:
        self.session = session
        self._callbacks = CallbackList([*map(TrackerCallback, session.request.track), *callbacks, session.meters])
        file = session.request.cluster_file
        self._file = ClusterFile(Path(file)) if file is not None else None
        self._members = membership_of(session.request)
        self._whole = session.evaluator.cluster
        self._code = all_code(session.plan)
        self._switching: PlanSwitching | None = None
        self._pauses = PauseMeter(PAUSE_S)

    def run(self, ready: Callable[[Training], None] = lambda _: None) -> RunOutcome:
        """Run to the end, with other plans if need be; ``ready`` gets each training before it starts.

        Raises:
            InputError: another process is running in its folder.
            RunError: it stopped before its end, and there is no other plan, or a callback failed; the last checkpoint
                remains.
        """
        with owned(self.session.folder), self._callbacks.until_end():
            return self._run(ready)

    def _run(self, ready: Callable[[Training], None]) -> RunOutcome:
        while True:
            with _ChangeMonitor(self._detectors()) as monitor:
                try:
                    outcome = self.session.run(self._callbacks.update, lambda each: self._begin(each, ready, monitor))
                except NodeLost as lost:
                    self._callbacks.tell("on_fault", lost)
                    self._continue_without(lost)
                    continue
            if outcome.ended != "stopped" or monitor.found is None or self._callbacks.stopped:
                return outcome
            reason, change = monitor.found
            if isinstance(change, Plan):  # the same cluster: what its links reach for a while is no part of it
                self._continue_with(change.model_copy(update={"inputs": self.session.plan.inputs}), reason)
            else:
                self._switching = None
                self._continue_with(replan_for(self.session.plan, change, reason), reason)

    def _begin(self, training: Training, ready: Callable[[Training], None], monitor: _ChangeMonitor) -> None:
        ready(training)
        self._callbacks.attach(training, lambda: self.session.start(training))
        monitor.start(training)

    def _joined(self) -> Cluster | None:
        larger = with_joined_nodes(self._whole, self.session.evaluator.cluster, self._members)
        return None if larger is None else self._members.limited(larger)

    def _changed_file(self) -> Cluster | None:
        """The cluster of the changed file, without the nodes that are not there."""
        assert self._file is not None
        found = self._file()
        if found is None:
            return None
        self._whole = found
        self._members.forget_losses()
        present = self._members.limited(subcluster(found, present_nodes(found, self._members)))
        return present if present != self.session.evaluator.cluster else None

    def _detectors(self) -> dict[str, Detector]:
        """What detects changes of the cluster, by the reason to give for a new plan."""
        session, request = self.session, self.session.request
        if not (request.replan and can_replan(session.plan)):
            return {}
        found: dict[str, Detector] = {}
        if self._file is not None:
            found["the cluster file has changed"] = self._changed_file
        found["a node has joined"] = self._joined
        phase = session.plan.phases[0]
        if request.emulated and len(session.plan.phases) == 1 and phase.sync_kind.one_model:
            if self._switching is None:
                self._switching = PlanSwitching(session.plan, session.evaluator, threshold=request.drift)
            found[REASON] = _LinkWatch(LinkSpeeds(phase, session.evaluator), self._switching, self._pauses)
        return found

    def _continue_without(self, lost: NodeLost) -> None:
        session, request = self.session, self.session.request
        if not request.replan:
            raise lost
        if not lost.pairs:
            self._members.mark_lost(lost.node)
        cluster = session.evaluator.cluster
        gone = set(cluster.nodes) - present_nodes(cluster, self._members)
        self._switching = None
        plan = replan_without(session.plan, lost, allow_data_loss=request.allow_data_loss, gone=gone)
        self._continue_with(plan, str(lost))

    def _continue_with(self, plan: Plan, reason: str) -> None:
        old, found = self.session, checkpoint.last(self.session.folder / "checkpoints")
        refuse_new_code(plan, self._code)
        reason = "; ".join([reason, *found.damaged])
        change = PlanChange(found.checkpoint.progress.iteration, reason, tuple(plan.phases[0].nodes()))
        self._callbacks.tell("on_replan", change)
        changes = (*old.changes, change)
        begin = found.checkpoint
        self.session = TrainingSession(
            plan, old.request, old.folder, begin, changes=changes, keepers=old.keepers, meters=old.meters
        )
        self.session.testbed.moment_s = old.testbed.moment_s


class _LinkWatch:
    """What links reach in the iterations of one plan, told to what decides about another."""

    def __init__(self, speeds: LinkSpeeds, switching: PlanSwitching, pauses: PauseMeter) -> None:
        self._speeds, self._switching, self._pauses = speeds, switching, pauses
        self._begin_s = switching.now_s  # every plan's trace begins at 0

    def start(self, training: Training) -> None:
        """Hear of a training that is about to start."""
        self._pauses.stop()
        self._switching.expect(training.iterations - training.outcome.iterations)
        training.on_trace += [lambda lines: self._pauses.hear(lines, training.outcome.dilation), self._speeds.hear]

    def __call__(self) -> Plan | None:
        """The plan to go on with, if a change pays."""
        self._switching.pause_s = self._pauses.pause_s
        for observed in self._speeds():
            self._switching.observe(observed.slower, self._begin_s + observed.end_s)
        return self._switching()


class _ChangeMonitor:
    """A thread that watches for changes of the cluster, and stops the training when there is one."""

    def __init__(self, detectors: Mapping[str, Detector]) -> None:
        self._detectors, self._ended = detectors, threading.Event()
        self._thread: threading.Thread | None = None
        self.found: tuple[str, Cluster | Plan] | None = None

    def start(self, training: Training) -> None:
        """Start watching."""
        for each in self._detectors.values():
            if isinstance(each, _LinkWatch):
                each.start(training)
        self._thread = threading.Thread(target=self._poll, args=(training,), name=BESIDE_TRAINING, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _poll(self, training: Training) -> None:
        while not self._ended.wait(_POLL_EVERY_S):
            for reason, detect in self._detectors.items():
                try:
                    change = detect()
                except RunError:
                    return  # the training will run into it, too
                if change is not None:
                    self.found = reason, change
                    training.stop()
                    return
