"""A run from beginning to end: workers are started, rounds follow one another, and what happens is written down.

Between two rounds the run can stop, save a checkpoint, or judge the network on held-out data, and nothing is half done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor

from palmette.errors import Fault, InputError
from palmette.runtime import checkpoint as checkpoints
from palmette.runtime.async_rounds import AsyncRounds
from palmette.runtime.checkpoint import Checkpoint, Progress
from palmette.runtime.control import Ready, Rehearse, Rehearsed, SetPace
from palmette.runtime.engine import Crew, one_from_each
from palmette.runtime.epoch_rounds import EpochRounds
from palmette.runtime.ground import Seconds
from palmette.runtime.job import Job, Outcome, Update
from palmette.runtime.judge import judged
from palmette.runtime.lengths import phase_iterations, position, shares
from palmette.runtime.log import Log
from palmette.runtime.parts import Part, channels_of, parts_of
from palmette.runtime.record import Journal
from palmette.runtime.rounds import Rounds, Stage, StepRounds
from palmette.runtime.shares import by_tree
from palmette.runtime.sources import NamedData, ShardedData
from palmette.runtime.worker import Setup, Source, held_layers, unshared
from palmette.spec.plan import Phase, Sync
from palmette.zoo.capture import load_state, state
from palmette.zoo.data import DataSet
from palmette.zoo.models import Network

CHECKPOINT_EVERY_S = 60.0

ROUNDS: dict[Sync, Callable[[Stage], Rounds]] = {"step": StepRounds, "epoch": EpochRounds, "async": AsyncRounds}


class Training:
    """Carries out a job."""

    def __init__(self, job: Job, watch: Callable[[Update], None]) -> None:
        self.job, self.watch = job, watch
        self._stopping = False
        for layer in job.network.layers:
            layer.module.to(getattr(torch, job.options.dtype))
        self.outcome = Outcome()
        self._progress = job.resumed.progress if job.resumed else Progress(0)
        self.outcome.iterations, self.outcome.energy_j = self._progress.iteration, self._progress.energy_j
        self._optimizer: dict[str, Tensor] = dict(job.resumed.optimizer) if job.resumed else {}

    def stop(self) -> None:
        """Stop as soon as nothing is half done, with a checkpoint; an epoch of federated averaging is given up."""
        self._stopping = True

    def run(self) -> Outcome:
        """Run all phases.

        Raises:
            RunError: a worker is lost, or something cannot be written; the last checkpoint remains.
        """
        if self.job.resumed is None:
            checkpoints.clear(self.job.folder / "checkpoints")
        self._journal = Journal(self.job.folder, before=self._progress.iteration)
        try:
            if self.job.resumed is None:
                self._save()
            for number, phase in enumerate(self.job.plan.phases):
                if number >= self._progress.phase and not self._stopping:
                    self._run_phase(number, phase)
            self.outcome.ended = "stopped" if self._stopping and not self._whole() else "done"
        finally:
            self._journal.close()
        return self.outcome

    def _whole(self) -> bool:
        return self._progress.phase >= len(self.job.plan.phases)

    def _run_phase(self, number: int, phase: Phase) -> None:
        parts = parts_of(phase, self.job.evaluator)
        crew = self._start(phase, parts)
        try:
            rounds = self._rounds(number, phase, parts, crew)
            try:
                self._go_through(rounds, number, phase)
            finally:
                self.outcome.measured[number] = rounds.measured()
        finally:
            crew.close()
            self.job.ground.close()

    def _rounds(self, number: int, phase: Phase, parts: Sequence[Part], crew: Crew) -> Rounds:
        where = position(self.job, number, self._progress.wall_s)
        channels = channels_of(parts)
        self._log = Log(self.job, phase, where, self._journal, self.outcome, channels=channels, watch=self.watch)
        before = self._progress.tree_steps if number == self._progress.phase else ()
        return ROUNDS[phase.sync](Stage(phase, parts, crew, self.job, self._log, before))

    def _start(self, phase: Phase, parts: Sequence[Part]) -> Crew:
        ground, nodes = self.job.ground, phase.nodes()
        ground.open(phase, parts, self.job.evaluator)
        try:
            setups = {node: self._setup(phase, node, parts) for node in nodes}
            crew = self.job.hire(setups, {node: ground.entrance(node) for node in nodes})
        except BaseException:
            ground.close()
            raise
        try:
            one_from_each(crew, setups, Ready)
            if ground.emulates:
                self._settle(crew, parts)
        except BaseException:
            crew.close()
            ground.close()
            raise
        return crew

    def _setup(self, phase: Phase, name: str, parts: Sequence[Part]) -> Setup:
        job, node = self.job, self.job.evaluator.cluster.nodes[name]
        programs = [part.programs.get(name) for part in parts]
        held = sorted({n for program in programs if program is not None for n in held_layers(program)})
        own = set(state([job.network.layers[n - 1] for n in held]))
        kept = {key: value for key, value in self._optimizer.items() if key.rpartition("/")[0] in own}
        return Setup(
            node=name,
            place=job.ground.place(name),
            programs=programs,
            layers={n: job.network.layers[n - 1].module for n in held},
            shapes=(job.network.input_shape, *(layer.output_shape for layer in job.network.layers)),
            input_dtype=job.network.dtype,
            options=job.options,
            source=self._source(phase, parts),
            sync=phase.sync,
            cpu_limit=node.limits.cpu_share,
            device=node.device,
            optimizer=to_bytes(unshared(kept)) if kept else b"",
        )

    def _source(self, phase: Phase, parts: Sequence[Part]) -> Source:
        job = self.job
        if phase.sync == "step":
            return NamedData(job.data.name, job.network.input_shape, job.options.seed)
        owned = by_tree(phase, shares(phase, job))
        roots = [part.root for part in parts]
        return ShardedData(dict(zip(roots, owned, strict=False)), job.network.input_shape, job.options.seed)

    def _settle(self, crew: Crew, parts: Sequence[Part]) -> None:
        asked = [(node, number) for number, part in enumerate(parts) for node in part.programs]
        for node, number in asked:
            crew.send(node, Rehearse(number))
        rehearsed: dict[str, dict[int, Seconds]] = {}
        for _ in asked:
            heard = crew.receive()
            assert heard is not None
            assert isinstance(heard[1], Rehearsed)
            rehearsed.setdefault(heard[0], {})[heard[1].program] = heard[1].seconds
        for node, paces in self.job.ground.settle(rehearsed).items():
            for program, pace in paces.items():
                crew.send(node, SetPace(program, pace))
        self.outcome.dilation = self.job.ground.dilation

    def _go_through(self, rounds: Rounds, number: int, phase: Phase) -> None:
        many, where = phase_iterations(phase, self.job), self._log.position
        saved_s = time.monotonic()
        at = self._progress.phase_iteration if number == self._progress.phase else 0
        while at < many and not self._stopping:
            end = min(many, (at // where.epoch_iterations + 1) * where.epoch_iterations)
            before, at = at, rounds.advance(at, end, lambda: self._stopping)
            if at == before:  # what was begun had to be given up
                self.outcome.iterations = self._progress.iteration
                break
            self._progress = replace(
                self._progress,
                iteration=where.iteration + at,
                phase=number + (at >= many),
                phase_iteration=at if at < many else 0,
                wall_s=self._log.wall_s(),
                energy_j=self.outcome.energy_j,
                tree_steps=rounds.tree_steps if at < many else (),
            )
            if at == end or self._stopping or time.monotonic() - saved_s > CHECKPOINT_EVERY_S:
                self._gather(rounds)
                better = self._judge(at) if at == end else False
                self._save(best=better)
                saved_s = time.monotonic()

    def _gather(self, rounds: Rounds) -> None:
        weights, self._optimizer = rounds.state()
        load_state(self.job.network.layers, weights)

    def _judge(self, at: int) -> bool:
        """Judge the network on held-out data; returns whether it is the best so far."""
        found = judged(self.job.network, self.job.data.held_out, self.job.options)
        self.outcome.judgement = found
        best = self._progress.best_accuracy
        better = best is None or found.accuracy > best
        if better:
            self._progress = replace(self._progress, best_accuracy=found.accuracy)
        self._log.judged(at, found)
        return better

    def _save(self, *, best: bool = False) -> None:
        weights = unshared(state(self.job.network.layers))
        kept = Checkpoint(self._progress, weights, unshared(self._optimizer))
        checkpoints.save(kept, self.job.folder / "checkpoints", best=best)


def refuse_unfit(network: Network, data: DataSet) -> None:
    """Refuse data with more classes than the network tells apart.

    Raises:
        InputError: they do not fit.
    """
    if data.classes is not None and data.classes > network.classes:
        expected = f"it has {data.classes} classes, but {network.name} tells {network.classes} apart"
        raise InputError(Fault("--data", data.name, f"{expected}; expected data that fits"))
