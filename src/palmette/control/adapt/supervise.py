"""Plan, run, observe, plan again: a run that outlives the loss of nodes and links, and takes in what is new.

run ──▶ a node is lost ──▶ the living go back to the last common iteration ──▶ checkpoint ─┐
 ▲      the cluster changes ──▶ the iteration that goes on is finished ──────▶ checkpoint ─┤
 └──────────────── the same strategy plans for what is there now ◀──────────────────────────┘
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from palmette.control.adapt.drift import LinkSpeeds
from palmette.control.adapt.membership import ClusterFile, joined
from palmette.control.adapt.replanning import can_ask_again, only, planned_for, replanned
from palmette.control.run.engines import membership_of
from palmette.control.run.run import Change, Running
from palmette.errors import NodeLost, RunError
from palmette.runtime.training import checkpoint
from palmette.runtime.training.job import Outcome, Update
from palmette.runtime.training.loop import Training
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan

_LOOK_EVERY_S = 0.5

News = Callable[[], Cluster | None]


class Supervisor:
    """Runs, and when something happens to the cluster, plans again and goes on, if it may.

    ``changed`` is told of every change of plan.
    """

    def __init__(self, running: Running, changed: Callable[[Change], None]) -> None:
        self.running, self._changed = running, changed
        file = running.request.cluster_file
        self._file = ClusterFile(Path(file)) if file is not None else None
        self._members = membership_of(running.request)
        self._whole = running.evaluator.cluster

    def run(self, watch: Callable[[Update], None], ready: Callable[[Training], None]) -> Outcome:
        """Run to the end, whatever it takes.

        Raises:
            RunError: it stopped before its end, and there is no other plan; the last checkpoint remains.
        """
        while True:
            with _Looking(self._news()) as looking:
                try:
                    outcome = self.running.run(watch, lambda training: _both(ready, looking.start, training))
                except NodeLost as lost:
                    self._outlive(lost)
                    continue
            if outcome.ended != "stopped" or looking.found is None:
                return outcome
            reason, cluster = looking.found
            self._go_on(planned_for(self.running.plan, cluster, reason), reason)

    def _joined(self) -> Cluster | None:
        return joined(self._whole, self.running.evaluator.cluster, self._members)

    def _changed_file(self) -> Cluster | None:
        """What the cluster file says now, of those nodes that are there."""
        assert self._file is not None
        found = self._file()
        if found is None:
            return None
        self._whole = found
        self._members.welcome()
        present = only(found, self._members.there(found.nodes))
        return present if present != self.running.evaluator.cluster else None

    def _news(self) -> dict[str, News]:
        """Whom to ask for news of the cluster, by what they tell of."""
        running, request = self.running, self.running.request
        if not (request.replan and can_ask_again(running.plan)):
            return {}
        found: dict[str, News] = {}
        if self._file is not None:
            found["the cluster file has changed"] = self._changed_file
        found["a node has joined"] = self._joined
        phase = running.plan.phases[0]
        if request.testbed != "none" and len(running.plan.phases) == 1 and phase.agreement.one_model:
            trace = running.folder / "trace.jsonl"
            found["a link is not what it was"] = LinkSpeeds(trace, phase, running.evaluator, request.drift)
        return found

    def _outlive(self, lost: NodeLost) -> None:
        running, request = self.running, self.running.request
        if not request.replan:
            raise lost
        if not lost.pairs:
            self._members.lose(lost.node)
        nodes = set(running.evaluator.cluster.nodes)
        gone = nodes - self._members.there(nodes)
        self._go_on(replanned(running.plan, lost, allow_data_loss=request.allow_data_loss, gone=gone), str(lost))

    def _go_on(self, plan: Plan, reason: str) -> None:
        known, found = self.running, checkpoint.last(self.running.folder / "checkpoints")
        change = Change(found.progress.iteration, reason, tuple(plan.phases[0].nodes()))
        self._changed(change)
        self.running = Running(plan, known.request, known.folder, found, changes=(*known.changes, change))


class _Looking:
    """A thread that asks for news of the cluster, and stops the training when there are any."""

    def __init__(self, news: Mapping[str, News]) -> None:
        self._news, self._ended = news, threading.Event()
        self._thread: threading.Thread | None = None
        self.found: tuple[str, Cluster] | None = None

    def start(self, training: Training) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._look, args=(training,), name="news", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self, training: Training) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            for reason, news in self._news.items():
                try:
                    cluster = news()
                except RunError:
                    return  # nobody knows any more; the training will meet it, too
                if cluster is not None:
                    self.found = reason, cluster
                    training.stop()
                    return


def _both(one: Callable[[Training], None], other: Callable[[Training], None], training: Training) -> None:
    one(training)
    other(training)
