"""A run from beginning to end: starts workers, executes iterations, and records what happens.

Between two iterations nothing is half done, so the run can stop, save a checkpoint, or evaluate the network.
Between two segments model and nodes change; at the end of an epoch the remaining segments may be replaced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from palmette.errors import NodeLost, RunError
from palmette.runtime.early_stopping import BY_ACCURACY, BY_LOSS
from palmette.runtime.engines.crew import Crew, Stopped
from palmette.runtime.options import TrainedIterations
from palmette.runtime.phase_programs import PhasePart, channels_of, parts_of
from palmette.runtime.record.journal import REMOVED, Journal
from palmette.runtime.sync.base import EngineSide, PhaseContext
from palmette.runtime.sync.difference_coding import settled
from palmette.runtime.sync.registry import sync_method
from palmette.runtime.training import checkpoint as checkpoints
from palmette.runtime.training.base_weights import base_weights, checksum
from palmette.runtime.training.checkpoint import Checkpoint, Progress
from palmette.runtime.training.engine_loss import forget_kept, note_agreed
from palmette.runtime.training.evaluation import Evaluation, evaluate
from palmette.runtime.training.handover import Handover
from palmette.runtime.training.job import EpochStatus, Job, ProgressUpdate, RemainingTime, RunOutcome
from palmette.runtime.training.launch import SegmentState, launched, training_task
from palmette.runtime.training.log import TrainingLog
from palmette.runtime.training.owners import evaluated_at_owners, owners_of
from palmette.runtime.training.remaining_time import remaining_s
from palmette.runtime.training.segments import Segments
from palmette.runtime.worker.commands import DeleteKept, KeptDeleted
from palmette.runtime.worker.optimizers import accumulated_iterations
from palmette.runtime.worker.setup import unshared
from palmette.spec.plan import Phase
from palmette.zoo.capture import load_state, state
from palmette.zoo.casting import cast_floats
from palmette.zoo.models import Network

CHECKPOINT_EVERY_S = 60.0
# How long nodes have to delete the samples that they kept.
_DELETE_S = 10.0


class Training:
    """Executes a job, segment by segment.

    ``on_time_estimate``: callbacks for the remaining time on this machine; ``on_epoch``: for the end of an epoch;
    ``on_other_phases``: for the phases that the job's epoch callback goes on with, after so many iterations;
    ``on_trace``: for the operations of every iteration, whether they are written or not.
    """

    def __init__(self, job: Job, watch: Callable[[ProgressUpdate], None]) -> None:
        self.job, self.watch = job, watch
        self._stopping = False
        self.on_time_estimate: list[Callable[[RemainingTime], None]] = []
        self.on_epoch: list[Callable[[EpochStatus], None]] = []
        self.on_other_phases: list[Callable[[int, Sequence[Phase]], None]] = []
        self.on_trace: list[Callable[[Sequence[Mapping[str, Any]]], None]] = []
        for layer in job.network.layers:
            cast_floats(layer.module, getattr(torch, job.options.dtype))
        # Where the network becomes smaller, so do its frozen weights.
        self._base = base_weights(job.network.layers) if job.origin is None else {}
        progress = job.resumed.progress if job.resumed else Progress(0, pruning=job.pruning)
        self._progress = replace(progress, base=checksum(self._base))
        self._saved = self._progress
        self.outcome = RunOutcome(
            iterations=self._progress.iteration, energy_j=self._progress.energy_j, time_s=self._progress.time_s
        )
        self._segment_state = SegmentState(job.network, dict(job.resumed.optimizer) if job.resumed else {})
        self.segments = Segments(job, self._progress.lengths)

    @property
    def network(self) -> Network:
        """The network as it is now."""
        return self._segment_state.network

    @property
    def pruning(self) -> float:
        """The fraction of its parameters that has been removed."""
        return self._progress.pruning

    @property
    def iterations(self) -> int:
        """Iterations of the whole training, as far as that is known."""
        return sum(segment.iterations for segment in self.segments.all)

    def stop(self) -> None:
        """Stop soon, with a checkpoint.

        An iteration that does not end soon is aborted where the workers can roll back to the previous one, and an epoch
        of federated averaging in any case.
        """
        self._stopping = True

    def run(self) -> RunOutcome:
        """Run all segments.

        Raises:
            RunError: a worker is lost, or something cannot be written; the last checkpoint remains.
        """
        folder = self.job.folder / "checkpoints"
        if self.job.resumed is None:
            checkpoints.clear(folder)
        self._journal = Journal(self.job.folder, before=self._progress.iteration, full_trace=self.job.full_trace)
        self._journal.on_trace += self.on_trace
        try:
            if self.job.resumed is None or not checkpoints.is_saved(folder, self._progress.iteration):
                self._save()
            forget_kept(folder)
            while not self._whole() and not self._stopping:
                if self._progress.phase_iteration == 0:
                    self._change(self._progress.phase)
                self._run_segment(self._progress.phase)
            self.outcome.ended = "done" if self._whole() else "stopped"
            forget_kept(folder)
        finally:
            self._journal.close()
        return self.outcome

    def _whole(self) -> bool:
        return self._progress.phase >= len(self.segments)

    def _change(self, number: int) -> None:
        """Hand the model over from the previous segment to this one; the first has none."""
        if number == 0:
            return
        before, after = self.segments[number - 1].phase, self.segments[number].phase
        logs: list[TrainingLog] = []

        def opened(phase: Phase, parts: Sequence[PhasePart]) -> TrainingLog:
            for log in logs[-1:]:
                self._note_time(log)
            logs.append(self._opened(number, phase, parts))
            return logs[-1]

        self._segment_state = Handover(self.job, before, after, opened).made(self._segment_state)
        for log in logs[-1:]:
            self._note_time(log)
        if after.pruning != before.pruning:
            self._progress = replace(self._progress, pruning=after.pruning)
            found = evaluate(self.network, self.job.data.held_out, self.job.objective, self.job.options)
            logs[-1].evaluated(1, found, phase=number, pruning=after.pruning)

    def _opened(self, number: int, phase: Phase, parts: Sequence[PhasePart]) -> TrainingLog:
        where = self.segments.position(number, self._progress.wall_s, self._progress.clock_s)
        channels = channels_of(parts)
        return TrainingLog(self.job, phase, where, self._journal, self.outcome, channels=channels, watch=self.watch)

    def _note_time(self, log: TrainingLog) -> None:
        self._progress = replace(
            self._progress,
            wall_s=log.wall_s(),
            clock_s=log.clock_s(),
            energy_j=self.outcome.energy_j,
            time_s=self.outcome.time_s,
        )

    def _run_segment(self, number: int) -> None:
        phase = self.segments[number].phase
        parts = parts_of(phase, self.job.evaluator)
        self._settle(phase)
        try:
            sides = training_task(self.job, phase, parts)
            begin = replace(self._segment_state, span=self._span(number))
            with launched(self.job, begin, phase, parts, sides, stopping=lambda: self._stopping) as crew:
                self.outcome.dilation = self.job.testbed.dilation
                self._log, self._began = self._opened(number, phase, parts), self._progress
                self._execute_phase(number, parts, crew)
        except Stopped:
            return  # before anything was started

    def _settle(self, phase: Phase) -> None:
        """Apply what earlier windows left out of their exchanges, where nobody in a phase goes on with it."""
        weights, left = settled(self.network.layers, self._segment_state.optimizer, phase)
        load_state(self.network.layers, state(self.network.layers) | weights)
        self._segment_state = SegmentState(self.network, left)

    def _span(self, number: int) -> TrainedIterations:
        """The iterations that a segment's workers begin with, for the schedule of the learning rate."""
        return TrainedIterations(self._progress.iteration, self.iterations, self.segments[number].epoch_iterations)

    def _execute_phase(self, number: int, parts: Sequence[PhasePart], crew: Crew) -> None:
        phase = self.segments[number].phase
        self._estimate_remaining(number)
        side = sync_method(phase).engine_side(self._context(number, parts, crew))
        try:
            self._go_through(side, number, crew)
        except NodeLost as lost:
            self._rescue(side, lost)
            raise
        finally:
            self.outcome.measured[number] = side.measured()
        if self._progress.phase > number and not self.job.keep_samples:
            self._delete_kept(number, crew)

    def _delete_kept(self, number: int, crew: Crew) -> None:
        """Let the nodes of a segment that is done delete the samples that they kept, unless a later one uses them."""
        later = {node for segment in self.segments.all[number + 1 :] for node in segment.phase.nodes()}
        leaving = [node for node in self.segments[number].phase.nodes() if node not in later]
        crew.ask(dict.fromkeys(leaving, DeleteKept()), KeptDeleted, _DELETE_S)

    def _context(self, number: int, parts: Sequence[PhasePart], crew: Crew) -> PhaseContext:
        job = self.job
        return PhaseContext(
            self.segments[number].phase,
            parts,
            crew,
            job.testbed,
            job.evaluator,
            job.epoch_data,
            self._log,
            can_roll_back=job.can_roll_back,
            tree_steps=self._progress.tree_steps,
            iterations=self.segments[number].iterations,
            accumulated=accumulated_iterations(self._segment_state.optimizer),
            seed=job.options.seed,
        )

    def _go_through(self, side: EngineSide, number: int, crew: Crew) -> None:
        where, saved_s, at = self._log.position, time.monotonic(), self._progress.phase_iteration
        while at < self.segments[number].iterations and not self._stopping:
            many = self.segments[number].iterations
            end = min(many, (at // where.epoch_iterations + 1) * where.epoch_iterations)
            before, dilation_increases = at, len(self.outcome.dilation_increases)
            at = side.advance(at, end, lambda: self._stopping)
            if at > before:
                self._come_to(number, at, side)
                if at < end:  # else a checkpoint follows
                    self._note_agreed()
            if side.aborted:
                self._go_back(side)
                break
            if len(self.outcome.dilation_increases) > dilation_increases:
                self._estimate_remaining(number, increased=True)
            if at == end or self._stopping or time.monotonic() - saved_s > CHECKPOINT_EVERY_S:
                self._gather(side)
                better = self._evaluate(number, at, crew) if at == end else False
                self._save(best=better)
                saved_s = time.monotonic()

    def _estimate_remaining(self, number: int, *, increased: bool = False) -> None:
        """Report how long the rest will take on this machine, where that is known."""
        if not self.job.testbed.emulates:
            return
        at, dilation = self._progress.phase_iteration, self.job.testbed.dilation
        expected_s = dilation * remaining_s(self.segments, self.job, number, at)
        if self.outcome.expected_wall_s is None or increased:
            self.outcome.expected_wall_s = self._log.wall_s() + expected_s
        for told in self.on_time_estimate:
            told(RemainingTime(self.iterations - self._progress.iteration, expected_s, dilation, increased))

    def _go_back(self, side: EngineSide) -> None:
        """Roll back to the last iteration that all have done, if workers have a copy, else to the last checkpoint."""
        saved = self._progress.iteration == self._saved.iteration
        found = None if saved else side.recovered(self._progress.iteration - 1, None)
        if found is None:
            self._progress = self._saved
        else:
            load_state(self.network.layers, found[0])
            self._segment_state = SegmentState(self.network, found[1])
            self._save()
        self.outcome.iterations = self._progress.iteration

    def _come_to(self, number: int, at: int, side: EngineSide) -> None:
        """Note that a segment has reached iteration ``at``."""
        over = at >= self.segments[number].iterations
        self._note_time(self._log)
        self._progress = replace(
            self._progress,
            iteration=self._log.position.iteration + at,
            phase=number + over,
            phase_iteration=0 if over else at,
            tree_steps=side.tree_steps,
        )
        self.outcome.iterations = self._progress.iteration

    def _note_agreed(self) -> None:
        """Note how far all have come, for the case that this process dies."""
        if not self.job.keeps_state:
            return
        try:
            note_agreed(self.job.folder / "checkpoints", self._progress)
        except FileNotFoundError:
            raise RunError(f"{self.job.folder}: cannot be written: {REMOVED}") from None
        except OSError as error:
            raise RunError(f"{self.job.folder}: cannot be written: {error.strerror}") from None

    def _rescue(self, side: EngineSide, lost: NodeLost) -> None:
        """Save the last iteration that all have done, if the remaining workers have it; else an older one stays."""
        found = side.recovered(self._progress.iteration - 1, None if lost.pairs else lost.node)
        if found is not None:
            load_state(self.network.layers, found[0])
            self._segment_state = SegmentState(self.network, found[1])
            self._save()

    def _gather(self, side: EngineSide) -> None:
        weights, optimizer = side.state()
        load_state(self.network.layers, weights)
        self._segment_state = SegmentState(self.network, optimizer)

    def _evaluate(self, number: int, at: int, crew: Crew) -> bool:
        """Evaluate the network on held-out data, where that lives; returns whether it is the best so far."""
        job, phase = self.job, self.segments[number].phase
        if owners_of(job, phase):
            found = evaluated_at_owners(job, self.network, phase, crew)
        else:
            found = evaluate(self.network, job.data.held_out, job.objective, job.options)
        self.outcome.evaluation = found
        self._progress = replace(self._progress, losses=(*self._progress.losses, self._log.epoch_loss()))
        better = self._note_best(found)
        self._log.evaluated(at, found)
        status = self._epoch_status(number, at, found)
        if self._is_enough(found):
            self.outcome.stopped_early = True
            self._replace_rest(number, at, ())
        else:
            self._turn(number, at, status)
        for told in self.on_epoch:
            told(status)
        return better

    def _is_enough(self, found: Evaluation) -> bool:
        """Whether the run stops before its end, as a metric is reached or no longer becomes better."""
        options, stale = self.job.options, self._progress.stale_evaluations
        early, target = options.early_stopping, options.stopping_at
        reached = target is not None and target.is_reached(found.value(target.metric))
        return reached or (early is not None and stale >= early.patience)

    def _note_best(self, found: Evaluation) -> bool:
        """Note the best value so far; returns whether this one is, by the metric of stopping, else accuracy.

        Without classes there is no accuracy, and the loss counts.
        """
        progress = self._progress
        options, usual = self.job.options, BY_LOSS if found.accuracy is None else BY_ACCURACY
        counts = options.early_stopping or options.stopping_at or usual
        value = found.value(counts.metric)
        better = counts.is_better(value, progress.best)
        self._progress = replace(
            progress,
            best=value if better else progress.best,
            stale_evaluations=0 if better else progress.stale_evaluations + 1,
        )
        return better

    def _epoch_status(self, number: int, at: int, found: Evaluation) -> EpochStatus:
        progress, segment = self._progress, self.segments[number]
        return EpochStatus(
            number,
            segment.phase,
            progress.losses,
            found,
            progress.time_s,
            progress.energy_j,
            segment_epochs=at // segment.epoch_iterations,
            epoch_s=(progress.time_s - self._began.time_s)
            / (at - self._began.phase_iteration)
            * segment.epoch_iterations,
        )

    def _turn(self, number: int, at: int, status: EpochStatus) -> None:
        """At the end of an epoch, replace the remaining segments if the job's epoch callback returns others."""
        phases = None if self.job.on_epoch_end is None else self.job.on_epoch_end(status)
        if phases is None:
            return
        self._replace_rest(number, at, phases)
        for tell in self.on_other_phases if phases else ():
            tell(self._progress.iteration, phases)

    def _replace_rest(self, number: int, at: int, phases: Sequence[Phase]) -> None:
        """After ``at`` iterations of a segment, continue with these phases alone."""
        self.segments.replace_rest(number, at, phases)
        over = at >= self.segments[number].iterations
        self._progress = replace(
            self._progress,
            phase=number + over,
            phase_iteration=0 if over else at,
            lengths=tuple(each.iterations for each in self.segments.all),
            phases=tuple(phase.model_dump(mode="json") for phase in self.segments.phases()),
        )

    def _save(self, *, best: bool = False) -> None:
        self._journal.flush()
        weights = {name: each for name, each in unshared(state(self.network.layers)).items() if name not in self._base}
        kept = Checkpoint(self._progress, weights, unshared(self._segment_state.optimizer))
        checkpoints.save(kept, self.job.folder / "checkpoints", best=best)
        self._saved = self._progress
