"""The task as arrays: layer times, routes between nodes, power, sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import mul
from typing import Any

import numpy as np

from palmette.errors import ArgumentFault, Fault, InputError
from palmette.plan.core.samples import apportion
from palmette.plan.core.strategy import Task
from palmette.plan.righttrain.data_amounts import Split, SplitBox, epoch_amounts
from palmette.plan.righttrain.epochs import LossTarget, Schedule
from palmette.spec.learning import Learning

Floats = np.ndarray[Any, np.dtype[np.float64]]
_TIMES = ("forward_s", "backward_s", "forward_call_s", "backward_call_s", "update_s")
_WORTH_ROUNDS = 50
"""Tries of a schedule with more data, where whole samples are worth less than their split says."""
_TRIED = 20
"""Amounts of data that are tried beyond what is in proportion to a split."""
MAX_OTHER_NODES = 24
"""The most nodes without data that are considered."""


@dataclass(frozen=True)
class RightTrainProblem:
    """The inputs of a search. Nodes are numbered in the order of the cluster file, layers and feeds from 0.

    A *feed* is a source, or one of the parts that a source is split into where there are more feeds than sources.
    """

    task: Task
    target: LossTarget
    names: list[str]
    feed_nodes: list[int]
    feed_samples: list[int]
    """The samples that each feed owns."""
    forward_s: Floats
    """Seconds per sample, by node and layer; infinite where the profile has none or a layer does not fit."""
    backward_s: Floats
    forward_call_s: Floats
    """The fixed part of a forward call."""
    backward_call_s: Floats
    update_s: Floats
    s_per_byte: Floats
    """Seconds per byte between two nodes."""
    latency_s: Floats
    """Infinite where there is no path."""
    j_per_byte: Floats
    idle_w: Floats
    dynamic_w: Floats
    """Power at full load above idle power."""
    exponent: Floats
    limit: Floats
    """The largest CPU share of a node."""
    private: list[bool]

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.task.profile.layers)

    @property
    def deadline_s(self) -> float:
        """Seconds for the whole training."""
        deadline_s = self.task.goal.deadline_s
        return float("inf") if deadline_s is None else deadline_s

    def times(self) -> list[Floats]:
        """All times of layers, by node and layer."""
        return [getattr(self, name) for name in _TIMES]

    def max_iteration_s(self, schedule: Schedule) -> float:
        """The most seconds that an iteration may take."""
        single_s = self.task.goal.iteration_deadline_s
        each_s = self.deadline_s / schedule.iterations
        return each_s if single_s is None else min(each_s, single_s)

    @property
    def has_energy_limits(self) -> bool:
        """Whether a node may use only so many joules."""
        return any(node.limits.energy_j is not None for node in self.task.cluster.nodes.values())

    @cached_property
    def output_bytes(self) -> list[float]:
        """Bytes of a stored sample, the smallest of all sources', and of each layer's output per sample."""
        sizes = self.task.evaluator.sizes()
        return [min(map(sizes.sample_bytes, self.task.cluster.sources())), *sizes.output_bytes[1:]]

    @cached_property
    def compute_nodes(self) -> list[int]:
        """The nodes that can compute some layer; of many, those of the sources and the most promising."""
        able = [k for k in range(len(self.names)) if np.isfinite(self.forward_s[k]).any()]
        others = [k for k in able if k not in set(self.feed_nodes)]
        if len(others) <= MAX_OTHER_NODES:
            return able
        sample_s = np.where(np.isfinite(self.forward_s), self.forward_s + self.backward_s, 0.0).sum(axis=1) / self.limit
        joules = sample_s * (self.idle_w + self.dynamic_w)
        input_s = (self.latency_s + self.s_per_byte * self.output_bytes[0])[self.feed_nodes].mean(axis=0)
        chosen: set[int] = set()
        for rank in zip(*(sorted(others, key=by.__getitem__) for by in (sample_s, joules, input_s)), strict=True):
            chosen.update(rank if len(chosen) < MAX_OTHER_NODES - 2 else ())
        return [k for k in able if k in chosen or k not in others]

    @cached_property
    def feed_worths(self) -> list[float]:
        """What a sample of each feed counts, where one of all data counts 1 in the mean."""
        weights = [self.target.learning.weight(self.names[node]) for node in self.feed_nodes]
        mean = sum(map(mul, weights, self.feed_samples)) / sum(self.feed_samples)
        return [weight / mean for weight in weights]

    def owned_by(self, feeds: tuple[int, ...]) -> list[int]:
        """The samples that some feeds own."""
        return [self.feed_samples[feed] for feed in feeds]

    def proportional_split(self, feeds: tuple[int, ...]) -> Split:
        """The split of a batch in proportion to what the feeds own."""
        return tuple(apportion(self.task.batch, self.owned_by(feeds)))

    def schedule(self, feeds: tuple[int, ...], replicas: int, split: Split) -> Schedule | None:
        """The fewest iterations that reach the loss with a split of the batch, and the data of each feed."""
        owned, batch = self.owned_by(feeds), sum(split)
        most = even = SplitBox.of_split(split).most_epoch_samples(owned)
        if len({self.feed_worths[feed] for feed in feeds}) > 1:  # beyond, what some have left changes a sample's worth
            even = min(most, *(own * batch // many for own, many in zip(owned, split, strict=True)))
        more = sorted({*range(even + batch - even % batch, most, max(batch, (most - even) // _TRIED)), most} - {even})
        found = [self._in_proportion(feeds, replicas, split, even)]
        found += [self._with_samples(feeds, replicas, split, samples) for samples in more]
        return min((each for each in found if each is not None), key=lambda each: each.iterations, default=None)

    def _in_proportion(self, feeds: tuple[int, ...], replicas: int, split: Split, most: int) -> Schedule | None:
        """A schedule with at most so many samples per epoch, in proportion to a split."""
        worth = self._worth(feeds, split)
        for _ in range(_WORTH_ROUNDS):
            found = self.target.schedule(replicas, most, len(feeds), worth)
            if found is None:
                return None
            amounts = epoch_amounts(split, found.samples, self.owned_by(feeds))
            worth = self._worth(feeds, amounts)  # of whole samples: a little more or less
            if self.target.reached(found.epochs, found.samples, replicas, worth):
                return replace(found, split=split, amounts=amounts)
        return None

    def _with_samples(self, feeds: tuple[int, ...], replicas: int, split: Split, samples: int) -> Schedule | None:
        """The fewest epochs of so many samples, as near to a split as their owners have them."""
        amounts = epoch_amounts(split, samples, self.owned_by(feeds))
        found = self.target.schedule_for(samples, replicas, self._worth(feeds, amounts))
        return None if found is None else replace(found, split=split, amounts=amounts)

    def _worth(self, feeds: tuple[int, ...], amounts: Sequence[int]) -> float:
        """What a sample counts in the mean, with so many of each feed."""
        return sum(self.feed_worths[feed] * many for feed, many in zip(feeds, amounts, strict=True)) / sum(amounts)

    def schedule_with_all_data(self, replicas: int) -> Schedule | None:
        """The fewest epochs of all data that reach the loss; None if none do."""
        feeds, found = tuple(range(len(self.feed_nodes))), self.target.schedule_for(self.target.samples, replicas)
        if found is None:
            return None
        return replace(found, split=self.proportional_split(feeds), amounts=tuple(self.feed_samples))

    def fewest_iterations(self, feeds: tuple[int, ...], replicas: int, box: SplitBox) -> Schedule | None:
        """A schedule with at most the iterations of any split of a box; None where none reaches the loss."""
        worth = box.most_worth([self.feed_worths[feed] for feed in feeds])
        return self.target.schedule(replicas, box.most_epoch_samples(self.owned_by(feeds)), len(feeds), worth)


def build_problem(task: Task, learning: Learning, alpha: float = 1.0) -> RightTrainProblem:
    """Convert a task to arrays.

    Raises:
        InputError: there is no loss to reach, no source, or a node without power.
    """
    if task.goal.loss is None:
        raise InputError(ArgumentFault("loss", "missing", "expected the loss to reach"))
    sources = task.cluster.sources()
    if not sources:
        raise InputError(Fault("nodes", "no source", "expected at least one node with a source of training data"))
    unknown = [name for name, node in task.cluster.nodes.items() if node.power is None]
    if unknown:
        raise InputError(Fault(f"nodes.{name}.power", "missing", "the goal energy needs it") for name in unknown)
    names = list(task.cluster.nodes)
    owned = [task.cluster.nodes[name].source for name in sources]
    samples = [source.samples for source in owned if source is not None]
    nodes, parts = _split_sources([names.index(name) for name in sources], samples, alpha)
    s_per_byte, latency_s, j_per_byte = _routes_as_arrays(task, names)
    powers = [node.power for node in task.cluster.nodes.values() if node.power is not None]
    return RightTrainProblem(
        task=task,
        target=LossTarget(learning, task.goal.loss, sum(samples), task.batch),
        names=names,
        feed_nodes=nodes,
        feed_samples=parts,
        **_layer_times(task, names),
        s_per_byte=s_per_byte,
        latency_s=latency_s,
        j_per_byte=j_per_byte,
        idle_w=np.array([power.idle_w for power in powers]),
        dynamic_w=np.array([power.busy_w - power.idle_w for power in powers]),
        exponent=np.array([power.exponent for power in powers]),
        limit=np.array([node.limits.cpu_share for node in task.cluster.nodes.values()]),
        private=[_is_private(task, names[node]) for node in nodes],
    )


def _split_sources(nodes: list[int], samples: list[int], alpha: float) -> tuple[list[int], list[int]]:
    """The node and samples of each feed: α|D| feeds, where the largest sources get more than one."""
    split = [1] * len(nodes)
    for _ in range(int(alpha * len(nodes) + 1e-9) - len(nodes)):
        largest = max(range(len(nodes)), key=lambda k: samples[k] / split[k])
        if samples[largest] // (split[largest] + 1) < 1:
            break
        split[largest] += 1
    feeds = [(node, part) for node, many, k in zip(nodes, samples, split, strict=True) for part in _even_parts(many, k)]
    return [node for node, _ in feeds], [part for _, part in feeds]


def _even_parts(total: int, parts: int) -> list[int]:
    return [total // parts + (k < total % parts) for k in range(parts)]


def _is_private(task: Task, name: str) -> bool:
    source = task.cluster.nodes[name].source
    return source is not None and bool(source.private)


def _layer_times(task: Task, names: list[str]) -> dict[str, Floats]:
    depth, sizes = len(task.profile.layers), task.evaluator.sizes()
    arrays = {key: np.full((len(names), depth), np.inf) for key in _TIMES}
    for k, name in enumerate(names):
        times = task.profile.nodes.get(name)
        if times is None:
            continue
        for key, array in arrays.items():
            array[k] = getattr(times, key) or (0.0,) * depth
        memory = task.cluster.nodes[name].memory_bytes
        if memory is not None:
            held = [sizes.weight_bytes([(k, k)]) + sizes.trainable_bytes([(k, k)]) for k in range(1, depth + 1)]
            fits = [size <= memory for size in held]
            for array in arrays.values():
                array[k, ~np.array(fits)] = np.inf
    return arrays


def _routes_as_arrays(task: Task, names: list[str]) -> tuple[Floats, Floats, Floats]:
    many, routes = len(names), task.evaluator.routes
    s_per_byte, latency_s, j_per_byte = np.zeros((many, many)), np.full((many, many), np.inf), np.zeros((many, many))
    for a, name in enumerate(names):
        for b, other in enumerate(names):
            route = routes.between(name, other)
            if route is not None:
                s_per_byte[a, b] = 8 / route.bandwidth_bps if route.hops else 0.0
                latency_s[a, b], j_per_byte[a, b] = route.latency_s, 8 * route.energy_j_per_bit
    return s_per_byte, latency_s, j_per_byte
