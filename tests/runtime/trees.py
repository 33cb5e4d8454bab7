"""Whole trainings with workers as threads, for agreements under which every tree goes its own way, and plain twins.

``FedAvg`` and ``Sgd`` are written without the runtime: one process, PyTorch's own optimizers, autograd through a whole
tree at once. Only which samples a step takes is asked of the runtime.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from palmette.cost.delivery import keeps_samples
from palmette.cost.operations import trees
from palmette.cost.sync.turns import fragment_runs
from palmette.runtime.data.batches import Batches, DealtBatches, Indices
from palmette.runtime.data.epoch_length import phase_shards
from palmette.runtime.data.shards import by_tree, own_data
from palmette.runtime.engines.testbed import Calibrations
from palmette.runtime.engines.threads import ThreadCrew
from palmette.runtime.training.checkpoint import last
from palmette.runtime.training.job import Job, ProgressUpdate, RunOutcome
from palmette.runtime.training.loop import Training
from palmette.runtime.transports.memory import MemoryEndpoint, MemoryTransport
from palmette.runtime.worker.executor import Pace
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase, Plan
from palmette.zoo.capture import NetworkLayer, state
from palmette.zoo.data import load_data
from palmette.zoo.models import Network
from palmette.zoo.recipes.objective import classification
from tests.runtime.plain import PlainUpdates
from tests.runtime.rig import Rig, Toy

DATA = "tests.runtime.trees:common"
OTHER_DATA = "tests.runtime.trees:other"
Weights = dict[str, Tensor]


def common() -> list[tuple[Tensor, int]]:
    """60 samples, of which 54 are trained on."""
    return list(Toy((5,), 3, 60))


def other() -> list[tuple[Tensor, int]]:
    """Another data set: 20 samples, of which 18 are trained on."""
    made = Toy((5,), 3, 20)
    made.inputs += 1
    return list(made)


@dataclass
class MemoryGround:
    """Threads of this process; calls of a node last as long as ``seconds`` says, at the least."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    name: str = "memory"
    dilation: float = 1.0
    emulates: bool = True

    def open(self, *_: Any) -> None:
        self._place = MemoryEndpoint(MemoryTransport())

    def endpoint(self, node: str) -> MemoryEndpoint:
        return self._place

    def initializer(self, node: str) -> None:
        return None

    def apply_calibration(self, calibrated: Calibrations) -> dict[str, dict[int, Pace]]:
        return {
            node: {n: Pace(dict.fromkeys(found.seconds, self.seconds.get(node, 0.0))) for n, found in programs.items()}
            for node, programs in calibrated.items()
        }

    def increase_dilation(self, by: float) -> None:
        return None

    def close(self) -> None:
        pass


@dataclass
class Forest:
    """A phase, what it is run on, and a folder for what it leaves."""

    rig: Rig
    phase: Phase
    cluster: Cluster
    folder: Path
    testbed: MemoryGround = field(default_factory=MemoryGround)
    watch: Callable[[Training, ProgressUpdate], None] = lambda *_: None

    def job(self, *, resume: bool = False, **lengths: int | None) -> Job:
        layers = zip(self.rig.fresh(), self.rig.shapes[1:], strict=True)
        made = tuple(NetworkLayer(f"l{k}", module, shape) for k, (module, shape) in enumerate(layers, 1))
        resumed = last(self.folder / "checkpoints").checkpoint if resume else None
        if resumed is not None:
            for layer in made:
                layer.module.load_state_dict({name: resumed.weights[name] for name in layer.state_names})
        return Job(
            plan=Plan(model="toy", batch=self.phase.batch, phases=(self.phase,)),
            evaluator=self.rig.optimizing(self.cluster),
            network=Network("toy", made, self.rig.shape, self.rig.dtype),
            data=load_data(DATA, self.rig.shape),
            own_data={name: load_data(name, self.rig.shape) for name in (DATA, OTHER_DATA)},
            objective=classification(self.rig.shapes[-1][0]),
            options=self.rig.options,
            folder=self.folder,
            samples_folder=self.folder / "samples",
            testbed=self.testbed,
            start_crew=lambda setups, _: ThreadCrew(setups),
            resumed=resumed,
            **lengths,
        )

    def trained(self, *, resume: bool = False, **lengths: int | None) -> tuple[RunOutcome, Weights]:
        """Run; the outcome, and the weights and buffers in the end."""
        job = self.job(resume=resume, **lengths)
        training = Training(job, lambda update: self.watch(training, update))
        outcome = training.run()
        return outcome, {name: value.clone() for name, value in state(job.network.layers).items()}

    def batches(self) -> list[list[Callable[[int], tuple[Tensor, Tensor]]]]:
        """For each source of each tree, its batch of a step."""
        return self.slices() if self.phase.sync == "every" else self.shard_batches()

    def slices(self) -> list[list[Callable[[int], tuple[Tensor, Tensor]]]]:
        """Slices of batches from all data, or from each node's own, in the plan's order; sorted where they are kept."""
        named = own_data([feed.node for feed in self.phase.sources], self.cluster)
        kind = DealtBatches if keeps_samples(self.phase) else Batches
        taken: dict[int, Callable[[int], tuple[Tensor, Tensor]]] = {}
        for group in dict.fromkeys(feed.node if named else "" for feed in self.phase.sources):
            feeds = [feed for feed in self.phase.sources if group in (feed.node, "")]
            part = load_data(named.get(group, DATA), self.rig.shape).train
            drawn, end = kind(len(part), sum(feed.samples for feed in feeds), self.rig.options.seed), 0
            for feed in feeds:
                begin, end = end, end + feed.samples
                taken[id(feed)] = lambda k, d=drawn, p=part, b=begin, e=end: p.batch(_sorted(d, k)[b:e])
        return [[taken[id(feed)] for feed in tree.sources] for tree in trees(self.phase)]

    def shard_batches(self) -> list[list[Callable[[int], tuple[Tensor, Tensor]]]]:
        """Batches of the sources' own shards."""
        job = self.job()
        owned = by_tree(self.phase, phase_shards(self.phase, job.evaluator, job.epoch_data))
        found = []
        for tree, own in zip(trees(self.phase), owned, strict=True):
            row = []
            for feed, share in zip(tree.sources, own, strict=True):
                part = load_data(share.data, self.rig.shape).train
                indices = share.indices(len(part), self.rig.options.seed)
                drawn = Batches(len(indices), feed.samples, self.rig.options.seed + share.number)
                row.append(lambda k, p=part, i=indices, d=drawn: p.batch(i[d.indices(k)]))
            found.append(row)
        return found


def _sorted(batches: Batches, iteration: int) -> Indices:
    """The samples of a batch, in the fixed order where they are dealt by that."""
    found = batches.indices(iteration)
    return found[batches.order(iteration)] if isinstance(batches, DealtBatches) else found


class Local:
    """One instance with weights of its own."""

    def __init__(self, forest: Forest, layers: tuple[int, int], start: Weights) -> None:
        self.first, self.end = layers
        self.modules = forest.rig.fresh()[self.first - 1 : self.end]
        self.samples, self._options = 0, forest.rig.options
        self.load(start, 0, 1)

    def load(self, values: Weights, first: int, total: int) -> None:
        for module in self.modules:
            module.load_state_dict({name: values[name].clone() for name in module.state_dict()})
        named = {name: weight for module in self.modules for name, weight in module.named_parameters()}
        trained = {name: weight for name, weight in named.items() if name not in self._options.freeze}
        self.weights, self.trained = list(trained.values()), set(trained)
        for weight in self.weights:
            weight.grad = None
        self.updates = PlainUpdates(trained, self._options, total, first=first)
        self.samples = 0

    def go_on_from(self, values: Weights) -> None:
        """Load weights, and go on with the same optimizer."""
        for module in self.modules:
            module.load_state_dict({name: values[name].clone() for name in module.state_dict()})
        self.samples = 0

    def state(self) -> Weights:
        return {name: value for module in self.modules for name, value in module.state_dict().items()}


class FedAvg:
    """Federated averaging in one process, instance by instance."""

    def __init__(self, forest: Forest, steps: Sequence[int]) -> None:
        self.forest, self.steps, self.draw = forest, steps, forest.batches()
        self.now: Weights = copy.deepcopy(
            {name: value for module in forest.rig.fresh() for name, value in module.state_dict().items()}
        )
        self.local = {i.id: Local(forest, i.layers, self.now) for i in forest.phase.instances}
        self.losses: list[float] = []

    def epochs(self, many: int, *, iterations: int | None = None) -> Weights:
        """Train; of the last epoch only the first iterations where so many are asked for."""
        longest, left = max(self.steps), iterations or many * max(self.steps)
        self._total = left
        for each in self.local.values():
            each.load(self.now, 0, self._total)
        for epoch in range(many):
            self._epoch(epoch, min(longest, left))
            left -= longest
        return self.now

    def _epoch(self, epoch: int, iterations: int) -> None:
        lost: list[list[tuple[float, int]]] = [[] for _ in range(iterations)]
        drawn = self.drawn(epoch)
        for number, tree in enumerate(trees(self.forest.phase)):
            if number not in drawn:
                continue
            for step in range(min(self.steps[number], iterations)):
                loss = self._step(tree, number, epoch * self.steps[number] + step)
                lost[step].append((loss, tree.batch))
        self.losses += [sum(loss * many for loss, many in row) / sum(many for _, many in row) for row in lost if row]
        self._average((epoch + 1) * max(self.steps))

    def drawn(self, number: int) -> list[int]:
        """The trees of a round, as they are documented."""
        phase, seed = self.forest.phase, self.forest.rig.options.seed
        many = len(trees(phase))
        hashes = {hashlib.sha256(f"{seed}/{number}/{k}".encode()).hexdigest(): k for k in range(many)}
        return [hashes[each] for each in sorted(hashes)][: phase.clients]

    def _step(self, tree: Phase, number: int, step: int) -> float:
        given = [batch(step) for batch in self.draw[number]]
        reached: dict[str, int] = {}

        def output(name: str) -> tuple[Tensor, Tensor]:
            fed = [pair for feed, pair in zip(tree.sources, given, strict=True) if feed.into == name]
            before = [i for i in tree.instances if i.into == name]
            fed += [output(i.id) for i in sorted(before, key=lambda i: i.layers[0])]
            values, labels = torch.cat([a for a, _ in fed]), torch.cat([b for _, b in fed])
            reached[name] = len(labels)
            return nn.Sequential(*self.local[name].modules)(values), labels

        root = next(i.id for i in tree.instances if i.into is None)
        outputs, labels = output(root)
        loss = nn.functional.cross_entropy(outputs, labels)
        own = [self.local[i.id] for i in tree.instances]
        weights = [w for each in own for w in each.weights]
        gradients = iter(torch.autograd.grad(loss, weights, allow_unused=True) if weights else ())
        for instance, each in zip(tree.instances, own, strict=True):
            for weight in each.weights:
                gradient = next(gradients)
                if gradient is not None:
                    part = gradient * (len(labels) / reached[instance.id]) / self.forest.rig.options.accumulate
                    weight.grad = part if weight.grad is None else weight.grad + part
        most = self.forest.rig.options.clip_norm
        if most is not None and own[0].updates.comes_next:
            nn.utils.clip_grad_norm_(weights, most)  # the tree is one network
        for instance, each in zip(tree.instances, own, strict=True):
            each.updates.step_with_gradients(clip=False)
            each.samples += reached[instance.id]
        return float(loss.detach())

    def _average(self, done: int) -> None:
        held = [name for each in self.local.values() for name in each.state()]
        alone = self.forest.phase.server is None and len(held) == len(set(held))
        for name in self.now:
            holders = [each for each in self.local.values() if each.samples and name in each.state()]
            total = sum(each.samples for each in holders)
            values = [each.state()[name] for each in holders]
            if values[0].is_floating_point():
                self.now[name] = sum(v * (h.samples / total) for v, h in zip(values, holders, strict=True))
            else:
                self.now[name] = values[0].clone()
        if not alone:
            for each in self.local.values():
                each.load(self.now, done, self._total)


class Sgd:
    """One worker against a parameter server is one process that trains."""

    def __init__(self, forest: Forest) -> None:
        (self.row,) = forest.batches()
        self.modules, self.forest = forest.rig.fresh(), forest
        self.losses: list[float] = []

    def steps(self, many: int) -> Weights:
        whole = nn.Sequential(*self.modules)
        named = {name: weight for module in self.modules for name, weight in module.named_parameters()}
        updates = PlainUpdates(named, self.forest.rig.options, many)
        for step in range(many):
            given = [batch(step) for batch in self.row]
            loss = nn.functional.cross_entropy(
                whole(torch.cat([a for a, _ in given])), torch.cat([b for _, b in given])
            )
            updates.step(loss)
            self.losses.append(float(loss.detach()))
        return {name: value for module in self.modules for name, value in module.state_dict().items()}


class LocalSgd(FedAvg):
    """Local SGD in one process, with or without an outer optimizer, written out: no optimizer of PyTorch's for that."""

    def __init__(self, forest: Forest) -> None:
        super().__init__(forest, [])
        self.momentum: Weights = {}
        self.sent: tuple[Any, ...] = ()
        self.fragments = fragment_runs(forest.phase, forest.job().evaluator.sizes())

    def iterations(self, many: int, epoch: int) -> Weights:
        """Train for so many iterations, of which ``epoch`` make an epoch; all windows end with one."""
        every = self.forest.phase.every
        assert every is not None
        for each in self.local.values():
            each.load(self.now, 0, many)
        for done in range(1, many + 1):
            lost = [(self._step(tree, k, done - 1), tree.batch) for k, tree in enumerate(trees(self.forest.phase))]
            self.losses.append(sum(loss * part for loss, part in lost) / sum(part for _, part in lost))
            place = (done - 1) % epoch + 1
            whole = place == epoch or done == many
            if self.forest.phase.turns is not None:
                self._turn(place, whole)
            elif place % every == 0 or whole:
                self._average(done)
        return self.now

    def _turn(self, place: int, whole: bool) -> None:
        """Streaming DiLoCo: parts of the network in turns, and what was sent is used some steps later."""
        phase = self.forest.phase
        assert phase.turns is not None
        assert phase.every is not None
        if self.sent and (whole or place == self.sent[0] + phase.turns.delay):
            self._put()
        if whole:
            self._average(0)
            return
        for number, run in enumerate(self.fragments):
            if (place - 1) % phase.every + 1 == math.ceil((number + 1) * phase.every / len(self.fragments)):
                names = [n for m in self.forest.rig.fresh()[run[0] - 1 : run[1]] for n in m.state_dict()]
                copies = [{n: v.clone() for n, v in each.state().items() if n in names} for each in self.local.values()]
                self.sent = (place, names, copies)
                if phase.turns.delay == 0:
                    self._put()

    def _put(self) -> None:
        _, names, copies = self.sent
        kept = {name: {n: v.clone() for n, v in each.state().items()} for name, each in self.local.items()}
        samples = {name: each.samples for name, each in self.local.items()}
        for each, then in zip(self.local.values(), copies, strict=True):
            for name, value in then.items():
                each.state()[name].copy_(value)  # the mean is that of what was sent
        self._average(0, names)
        for (name, each), then in zip(self.local.items(), copies, strict=True):
            each.samples = samples[name]
            for key, value in each.state().items():
                value.copy_(self.now[key] + (kept[name][key] - then[key]) if key in then else kept[name][key])
        self.sent = ()

    def _average(self, done: int, names: Sequence[str] | None = None) -> None:
        outer, begun = self.forest.phase.outer, {name: value.clone() for name, value in self.now.items()}
        learning = {name for each in self.local.values() for name in each.trained}
        for name in self.now if names is None else names:
            holders = [each for each in self.local.values() if name in each.state()]
            total = sum(each.samples for each in holders)
            mean = sum(each.state()[name] * (each.samples / total) for each in holders)
            if not begun[name].is_floating_point():
                mean = holders[0].state()[name]
            elif outer is not None and name in learning:
                change = begun[name] - mean
                momentum = change + outer.momentum * self.momentum.get(name, torch.zeros_like(change))
                self.momentum[name] = momentum
                mean = begun[name] - outer.lr * (change + outer.momentum * momentum if outer.nesterov else momentum)
            self.now[name] = torch.as_tensor(mean).clone()
        for each in self.local.values():
            each.go_on_from(self.now)
