"""Workers for a segment of a run or for a hand-over: given their layers, connected, and settled on their ground."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from safetensors.torch import save as to_bytes
from torch import Tensor

from palmette.runtime.data.shards import by_tree, own_data, row_of, source_nodes
from palmette.runtime.data.sources import NamedData, NodesData, ShardedData
from palmette.runtime.engines.local import LISTEN_S, Crew, Stopped, never, one_from_each
from palmette.runtime.phase_programs import Part
from palmette.runtime.sync.handover import moved_layers
from palmette.runtime.training.job import Job
from palmette.runtime.training.phase_length import shares
from palmette.runtime.worker.commands import Ready, Rehearsal, Rehearse, Rehearsed, SetPace
from palmette.runtime.worker.worker import Setup, Source, held_layers, unshared
from palmette.spec.plan import Phase
from palmette.spec.sync import Sync
from palmette.zoo.capture import state
from palmette.zoo.models import Network


@dataclass(frozen=True)
class Carried:
    """What passes from segment to segment: the network with its weights, and the optimizer's state by their names."""

    network: Network
    optimizer: Mapping[str, Tensor]

    def of_layers(self, numbers: Sequence[int]) -> dict[str, Tensor]:
        """What the optimizer keeps for some layers."""
        own = set(state([self.network.layers[n - 1] for n in numbers]))
        return {key: value for key, value in self.optimizer.items() if key.rpartition("/")[0] in own}


@contextmanager
def hired(
    job: Job,
    carried: Carried,
    phase: Phase,
    parts: Sequence[Part],
    sync: Sync | Literal["relay"],
    *,
    stopping: Callable[[], bool] = never,
) -> Iterator[Crew]:
    """The workers of a phase, ready to go; afterwards they are gone, and so is their ground.

    Raises:
        RunError: a worker is lost, or does not start.
        Stopped: ``stopping`` says so before they are ready.
    """
    ground, nodes = job.ground, phase.nodes()
    ground.open(phase, parts, job.evaluator)
    try:
        make = Setups(job, carried, phase, parts, sync)
        setups = {node: make.of(node) for node in nodes}
        crew = job.hire(setups, {node: ground.entrance(node) for node in nodes})
        try:
            one_from_each(crew, setups, Ready, stopping)
            if ground.emulates:
                _settle(job, crew, parts, stopping)
            yield crew
        finally:
            crew.close()
    finally:
        ground.close()


@dataclass(frozen=True)
class Setups:
    """What the workers of a phase are told when they start."""

    job: Job
    carried: Carried
    phase: Phase
    parts: Sequence[Part]
    sync: Sync | Literal["relay"]

    def of(self, name: str) -> Setup:
        """What the worker of a node is told."""
        node, network = self.job.evaluator.cluster.nodes[name], self.carried.network
        programs = [part.programs.get(name) for part in self.parts]
        needed = moved_layers if self.sync == "relay" else held_layers
        held = sorted({n for program in programs if program is not None for n in needed(program)})
        kept = self.carried.of_layers(held)
        return Setup(
            node=name,
            place=self.job.ground.place(name),
            programs=programs,
            layers={n: network.layers[n - 1].module for n in held},
            shapes=(network.input_shape, *(layer.output_shape for layer in network.layers)),
            input_dtype=network.dtype,
            options=self.job.options,
            source=self._source(),
            sync=self.sync,
            cpu_limit=node.limits.cpu_share,
            device=node.device,
            keeps=self.job.ground.emulates or (self.job.keeps and len(self.phase.nodes()) > 1),
            optimizer=to_bytes(unshared(kept)) if kept else b"",
        )

    def _source(self) -> Source:
        job, cluster = self.job, self.job.evaluator.cluster
        shape, seed = job.network.input_shape, job.options.seed
        named = {} if self.sync == "relay" else own_data(source_nodes(self.phase), cluster)
        if self.phase.agreement.one_model and named:
            return NodesData(named, {node: row_of(node, cluster) for node in named}, shape, seed)
        if self.phase.agreement.one_model or self.sync == "relay":
            return NamedData(job.data.name, shape, seed)
        owned = by_tree(self.phase, shares(self.phase, job))
        roots = [part.root for part in self.parts]
        return ShardedData(dict(zip(roots, owned, strict=False)), shape, seed)


def _settle(job: Job, crew: Crew, parts: Sequence[Part], stopping: Callable[[], bool]) -> None:
    asked = [(node, number) for number, part in enumerate(parts) for node in part.programs]
    for node, number in asked:
        crew.send(node, Rehearse(number))
    rehearsed: dict[str, dict[int, Rehearsal]] = {}
    while sum(map(len, rehearsed.values())) < len(asked):
        if stopping():
            raise Stopped
        heard = crew.receive(LISTEN_S)
        if heard is None:
            continue
        assert isinstance(heard[1], Rehearsed)
        rehearsed.setdefault(heard[0], {})[heard[1].program] = heard[1].found
    for node, paces in job.ground.settle(rehearsed).items():
        for program, pace in paces.items():
            crew.send(node, SetPace(program, pace))
