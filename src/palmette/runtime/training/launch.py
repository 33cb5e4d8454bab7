"""Starts the workers of a segment or a hand-over: sets them up, connects them, and calibrates the testbed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor

from palmette.errors import RunError
from palmette.runtime.data.base import SampleSource
from palmette.runtime.data.epoch_length import phase_shards
from palmette.runtime.data.kept_samples import SampleStore, file_name
from palmette.runtime.data.samples import SourceGroup
from palmette.runtime.data.shards import by_tree, own_data, row_of, source_nodes
from palmette.runtime.data.sources import DataDescription, ShardedData, StepData
from palmette.runtime.engines.crew import LISTEN_S, Crew, Stopped, never, one_from_each
from palmette.runtime.options import TrainedIterations
from palmette.runtime.phase_programs import PhasePart
from palmette.runtime.program import Program
from palmette.runtime.sync.registry import WORKER_SIDES
from palmette.runtime.training.engine_loss import kept_folder
from palmette.runtime.training.job import Job
from palmette.runtime.training.owners import evaluation_batch, owners_of
from palmette.runtime.training.phase_length import phase_iterations
from palmette.runtime.worker.actions import raw_dtype
from palmette.runtime.worker.commands import (
    AgreeOnMasks,
    Calibrate,
    Calibrated,
    Calibration,
    KeptVerified,
    Ready,
    SetPace,
    TrustKept,
    VerifyKept,
)
from palmette.runtime.worker.fixed_point import fixed_point
from palmette.runtime.worker.messages import state_of
from palmette.runtime.worker.setup import OwnedData, Setup, held_layers, unshared
from palmette.spec.cluster import Node
from palmette.spec.plan import Phase
from palmette.zoo.capture import TiedWeight, state, tied_weights
from palmette.zoo.data import DataSplit
from palmette.zoo.lengths import SampleLengths, known_lengths
from palmette.zoo.models import UNNAMED, Network


@dataclass(frozen=True)
class SegmentState:
    """Training state between segments: the network with its weights, and the optimizer state by the weights' names.

    ``span`` says which iterations come next.
    """

    network: Network
    optimizer: Mapping[str, Tensor]
    span: TrainedIterations = field(default_factory=TrainedIterations)

    def of_layers(self, numbers: Sequence[int]) -> dict[str, Tensor]:
        """The optimizer state of some layers."""
        own = set(state([self.network.layers[n - 1] for n in numbers]))
        return {key: value for key, value in self.optimizer.items() if key.rpartition("/")[0] in own}


@dataclass(frozen=True)
class WorkerTask:
    """What the workers of a phase do: which side each one is, by name, which layers of a program it needs, and where
    samples come from, if any are needed.
    """

    side: str
    layers: Callable[[Program], Sequence[int]]
    source: SampleSource | None = None


@contextmanager
def launched(
    job: Job,
    carried: SegmentState,
    phase: Phase,
    parts: Sequence[PhasePart],
    side: WorkerTask,
    *,
    stopping: Callable[[], bool] = never,
) -> Iterator[Crew]:
    """Start the workers of a phase; afterwards, stop them and close the testbed.

    Raises:
        RunError: a worker is lost, or does not start, or a weight cannot be masked where it should be.
        Stopped: ``stopping`` returns True before they are ready.
    """
    if phase.secure_aggregation:
        _refuse_what_cannot_be_masked(carried.network, phase)
    testbed, nodes = job.testbed, phase.nodes()
    testbed.open(phase, parts, job.evaluator)
    try:
        make = SetupFactory(job, carried, phase, parts, side)
        setups = {node: make.of(node) for node in nodes}
        crew = job.start_crew(setups, {node: testbed.initializer(node) for node in nodes})
        try:
            ready = one_from_each(crew, setups, Ready, stopping)
            _agree_on_kept(crew, ready, stopping)
            if side.source is not None and phase.secure_aggregation:
                _agree_on_masks(crew, ready, phase)
            if testbed.emulates:
                _settle(job, crew, parts, stopping)
            yield crew
        finally:
            crew.close()
    finally:
        testbed.close()


@dataclass(frozen=True)
class SetupFactory:
    """Makes the setups of a phase's workers."""

    job: Job
    carried: SegmentState
    phase: Phase
    parts: Sequence[PhasePart]
    side: WorkerTask

    def of(self, name: str) -> Setup:
        """The setup of a node's worker."""
        node, network = self.job.evaluator.cluster.nodes[name], self.carried.network
        programs = [part.programs.get(name) for part in self.parts]
        ties = tied_weights(network.layers)
        needed = {n for program in programs if program is not None for n in self.side.layers(program)}
        held = real_layers(needed, ties, len(network.layers))
        kept = self.carried.of_layers(held)
        return Setup(
            node=name,
            endpoint=self.job.testbed.endpoint(name),
            programs=programs,
            layers={n: network.layers[n - 1].module for n in held},
            shapes=(network.input_shape, *(layer.output_shape for layer in network.layers)),
            input_dtype=network.dtype,
            inputs=network.inputs,
            input_names=network.input_names,
            lengths_vary=bool(network.varying),
            outputs=[layer.outputs for layer in network.layers],
            ties=ties,
            options=replace(self.job.options, span=self.carried.span),
            side=WORKER_SIDES[self.side.side],
            objective=self.job.objective,
            source=self.side.source,
            cpu_limit=node.limits.cpu_share,
            device=node.device,
            threads=self._threads(node),
            profiled_precision=self.job.evaluator.profile.precision,
            rollback=self.job.testbed.emulates or (self.job.rollback and len(self.phase.nodes()) > 1),
            optimizer=to_bytes(unshared(kept)) if kept else b"",
            kept_state=kept_folder(self.job.folder.absolute() / "checkpoints") if self.job.keeps_state else None,
            store=self._store(node, name),
            names=replace(self.job.names, pruning=self.phase.pruning, side=self.side.side),
            evaluation=self._evaluation(name),
        )

    def _evaluation(self, name: str) -> OwnedData | None:
        """What a node evaluates on itself, if it can."""
        owned = owners_of(self.job, self.phase) if self.side.source is not None else {}
        if name not in owned or not evaluation_batch(self.job, self.phase, name):
            return None
        return OwnedData(partial(copy.deepcopy, replace(self.carried.network, module=None)), owned[name])

    def _store(self, node: Node, name: str) -> SampleStore:
        most_bytes = None if node.storage_bytes is None else int(node.storage_bytes)
        return SampleStore(self.job.samples_folder / file_name(name), most_bytes)

    def _threads(self, node: Node) -> int | None:
        """How many threads compute; one on a testbed, whose nodes share this machine and are as fast as profiled."""
        return 1 if self.job.testbed.emulates else node.thread_count(real_host=self.job.real_hosts)


def real_layers(numbers: Iterable[int], ties: Sequence[TiedWeight], depth: int) -> list[int]:
    """The layers with these numbers; of a tie, the first that uses it."""
    return sorted({n if n <= depth else ties[n - depth - 1].layers[0] for n in numbers})


def training_task(job: Job, phase: Phase, parts: Sequence[PhasePart]) -> WorkerTask:
    """What the workers do to train a phase."""
    return WorkerTask(phase.executed_sync, held_layers, _source(job, phase, parts))


def _source(job: Job, phase: Phase, parts: Sequence[PhasePart]) -> SampleSource:
    cluster = job.evaluator.cluster
    data = {**job.own_data, job.data.name: job.data}
    lengths = _lengths(job.network, {name: each.train for name, each in data.items()})
    known = {
        name: DataDescription(
            name, len(each.train), each.train.decoder, each.train if name == UNNAMED else None, lengths.get(name)
        )
        for name, each in data.items()
    }
    common: dict[str, Any] = {
        "input_shape": job.network.input_shape,
        "dtype": raw_dtype(job.network.dtype, getattr(torch, job.options.dtype)),
        "seed": job.options.seed,
        "iterations": phase_iterations(phase, job),
    }
    if not phase.sync_kind.common_batch:
        owned = by_tree(phase, phase_shards(phase, job.evaluator, job.epoch_data))
        roots = [part.root for part in parts]
        used = {share.data: known[share.data] for own in owned for share in own}
        return ShardedData(shares=dict(zip(roots, owned, strict=False)), data=used, **common)
    named = own_data(source_nodes(phase), cluster)
    if not named:
        everything = SourceGroup(range(len(phase.sources)), known[job.data.name].samples)
        return StepData(phase=phase, groups=[(everything, known[job.data.name])], **common)
    groups = [
        (SourceGroup(_sources_of(phase, node), known[name].samples, row_of(node, cluster)), known[name])
        for node, name in named.items()
    ]
    return StepData(phase=phase, groups=groups, **common)


def _lengths(network: Network, data: Mapping[str, DataSplit]) -> dict[str, SampleLengths]:
    """How long samples are, if batches are cut to the longest of theirs: the network takes any, and all data vary."""
    found = {name: known_lengths(each) for name, each in data.items()}
    known = {name: each for name, each in found.items() if each is not None}
    alike = len(known) == len(found) and all(each.same_axes(next(iter(known.values()))) for each in known.values())
    return known if network.varying and alike else {}


def _sources_of(phase: Phase, node: str) -> list[int]:
    return [k for k, source in enumerate(phase.sources) if source.node == node]


def _agree_on_kept(crew: Crew, ready: Mapping[str, Ready], stopping: Callable[[], bool]) -> None:
    """Let owners compare the checksums of samples that nodes have kept, and nodes use those that are unchanged."""
    listed = [(node, owner, rows) for node, event in ready.items() for owner, rows in event.kept.items()]
    for node, owner, rows in listed:
        crew.send(owner, VerifyKept(node, rows))
        verified = one_from_each(crew, {owner: None}, KeptVerified, stopping)[owner]
        crew.send(node, TrustKept(owner, verified.numbers))


def _refuse_what_cannot_be_masked(network: Network, phase: Phase) -> None:
    """Refuse infinite constants before anybody trains.

    Raises:
        RunError: says how large a number is, and how large it may be.
    """
    for value in state_of(layer.module for layer in network.layers):
        fixed_point(value, 1, len(phase.instances))


def _agree_on_masks(crew: Crew, ready: Mapping[str, Ready], phase: Phase) -> None:
    """Tell the public keys to the nodes that mask what they send.

    Raises:
        RunError: a worker has none.
    """
    masking = dict.fromkeys(each.node for each in phase.instances if each.node != phase.meeting_node)
    for node in masking:
        if not ready[node].key:
            version = "its worker's version of palmette has no secure aggregation"
            raise RunError(f"node {node}: {version}; expected the version of this machine")
    keys = {node: ready[node].key for node in masking}
    for node in masking:
        crew.send(node, AgreeOnMasks(keys))


def _settle(job: Job, crew: Crew, parts: Sequence[PhasePart], stopping: Callable[[], bool]) -> None:
    asked = [(node, number) for number, part in enumerate(parts) for node in part.programs]
    for node, number in asked:
        crew.send(node, Calibrate(number))
    calibrated: dict[str, dict[int, Calibration]] = {}
    while sum(map(len, calibrated.values())) < len(asked):
        if stopping():
            raise Stopped
        heard = crew.receive(LISTEN_S)
        if heard is None:
            continue
        assert isinstance(heard[1], Calibrated)
        calibrated.setdefault(heard[0], {})[heard[1].program] = heard[1].found
    for node, paces in job.testbed.apply_calibration(calibrated).items():
        for program, pace in paces.items():
            crew.send(node, SetPace(program, pace))
