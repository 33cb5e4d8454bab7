"""What the event clock says of the peers: the same operations in the order in which torch does them.

Gloo sends nothing before it is asked; that it then serialises messages in both directions is left out.

DDP: gradients go around a ring (gloo's all-reduce), a part for each rank, after backward; that they may leave in
buckets before its end is left out. Pipeline: a stage asks for a message only when it has nothing else to do before;
GPipe waits for all outputs to have left before its first backward, 1F1B for each message once it is warm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from benchmarks.peers.tasks import Pipeline, Schedule
from palmette.cost.evaluate import Evaluator
from palmette.cost.steps import Iteration, Kind, Step
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance

MICROBATCHES = (1, 2, 4, 8)


def replicas(nodes: Sequence[str], split: Sequence[int], depth: int) -> Phase:
    """A whole replica a node."""
    return Phase(
        sources=tuple(Feed(node=nodes[0], samples=many, into=node) for node, many in zip(nodes, split, strict=True)),
        instances=tuple(Instance(id=node, layers=(1, depth), node=node, into=None) for node in nodes),
    )


def ddp_s(evaluator: Evaluator, nodes: Sequence[str], split: Sequence[int], *, send_data: bool = True) -> float:
    """Seconds of a step of DDP with the batch shared like this; the data is at the first node."""
    depth = len(evaluator.profile.layers)
    steps: list[Step] = []
    size_bytes: list[float] = []

    def add(step: Step, size: float = 0.0) -> int:
        steps.append(step)
        size_bytes.append(size)
        return len(steps) - 1

    ready = []
    for k, node in enumerate(nodes):
        fed = []
        if send_data and k:
            fed = [add(Step(Kind.DATA, k, nodes[0], [], node), split[k] * evaluator.profile.input_bytes)]
        forward = add(Step(Kind.FORWARD, k, node, fed))
        ready.append([add(Step(Kind.BACKWARD, k, node, [forward]))])
    part = sum(layer.parameter_bytes for layer in evaluator.profile.layers) / len(nodes)
    for _ in range(2 * (len(nodes) - 1)):
        sent = [
            add(Step(Kind.PUSH, k, node, [*ready[k], *ready[k - 1]], nodes[k - 1]), part)  # once it is asked for
            for k, node in enumerate(nodes)
        ]
        ready = [[*ready[k], sent[(k + 1) % len(nodes)], sent[k]] for k in range(len(nodes))]
    for k, node in enumerate(nodes):
        add(Step(Kind.UPDATE, k, node, ready[k]))
    made = Iteration(steps, list(split), size_bytes)
    return evaluator.play(replicas(nodes, split, depth), made).total_s


def all_pipelines(nodes: Sequence[str], depth: int, batch: int) -> Iterator[Pipeline]:
    """Every cut into three stages on the three nodes, or two on the first and another, every schedule."""
    device, edge, cloud = nodes
    for row in ((device, edge, cloud), (device, edge), (device, cloud)):
        for cuts in combinations(range(1, depth), len(row) - 1):
            for many in MICROBATCHES:
                if batch % many == 0:
                    yield Pipeline(row, cuts, many, "gpipe")
                    if many >= len(row):
                        yield Pipeline(row, cuts, many, "1f1b")


def pipeline_s(evaluator: Evaluator, way: Pipeline, batch: int) -> float:
    """Seconds of a step of a pipeline."""
    return _Played(evaluator, way, batch).total_s()


class _Played:
    """The graph of a pipeline's step. An instance is a stage with a microbatch."""

    def __init__(self, evaluator: Evaluator, way: Pipeline, batch: int) -> None:
        self._evaluator, self._way, self._many = evaluator, way, batch // way.microbatches
        self._steps: list[Step] = []
        self._size_bytes: list[float] = []
        self._runs = way.runs(len(evaluator.profile.layers))
        self._calls: dict[tuple[str, int, int], int] = {}  # (F or B, stage, microbatch)
        self._messages: dict[tuple[str, int, int], int] = {}  # what such a call sends

    def total_s(self) -> float:
        """Play it."""
        stages = range(len(self._runs))
        orders = [order_of(self._way.schedule, stage, len(stages), self._way.microbatches) for stage in stages]
        left = [list(order) for order in orders]
        while any(left):
            for stage in stages:
                while left[stage] and self._can(stage, *left[stage][0]):
                    done = orders[stage][: len(orders[stage]) - len(left[stage])]
                    self._add_call(stage, *left[stage].pop(0), done)
        for stage, order in enumerate(orders):
            self._add(Step(Kind.UPDATE, stage, self._way.nodes[stage], self._all_sent(stage, order)))
        made = Iteration(self._steps, [self._many] * len(self._instances()), self._size_bytes)
        return self._evaluator.play(self._phase(), made).total_s

    def _can(self, stage: int, what: str, microbatch: int) -> bool:
        giver = _giver(stage, what, len(self._runs))
        return giver is None or (what, giver, microbatch) in self._calls

    def _add_call(self, stage: int, what: str, microbatch: int, done: list[tuple[str, int]]) -> None:
        before = [self._calls[w, stage, m] for w, m in done[-1:]]
        sent = self._waits(stage, what, done)
        giver = _giver(stage, what, len(self._runs))
        if giver is not None:
            asked = before + sent if self._way.schedule == "gpipe" else before  # 1F1B sends and asks at once
            before = [self._add_message(what, giver, stage, microbatch, asked)]
        before = before + sent
        kind = Kind.FORWARD if what == "F" else Kind.BACKWARD
        number = microbatch * len(self._runs) + stage
        self._calls[what, stage, microbatch] = self._add(Step(kind, number, self._way.nodes[stage], before))

    def _waits(self, stage: int, what: str, done: list[tuple[str, int]]) -> list[int]:
        """Messages that have to have left before a stage goes on; those that nobody has asked for yet are passed over.

        A message is added when its receiver comes to it, so one that is not there yet cannot be waited for here; GPipe
        and 1F1B wait in such cases for something that ends later anyway.
        """
        sent = [("F", stage, m) for w, m in done if w == "F"] if what == "B" else []
        if self._way.schedule == "1f1b":
            sent = [(w, stage, m) for w, m in done[-1:]] if any(w == "B" for w, _ in done) else []
        return [self._messages[key] for key in sent if key in self._messages]

    def _add_message(self, what: str, giver: int, taker: int, microbatch: int, asked: list[int]) -> int:
        layer = self._runs[min(giver, taker)][1]
        size = self._many * self._evaluator.profile.layers[layer - 1].output_bytes
        after = [self._calls[what, giver, microbatch], *asked]
        nodes = self._way.nodes
        sent = self._add(Step(Kind.OUTPUT, 0, nodes[giver], after, nodes[taker]), size)
        self._messages[what, giver, microbatch] = sent
        return sent

    def _all_sent(self, stage: int, order: list[tuple[str, int]]) -> list[int]:
        keys = [(w, stage, m) for w, m in order]
        return [self._calls[keys[-1]], *(self._messages[key] for key in keys if key in self._messages)]

    def _add(self, step: Step, size: float = 0.0) -> int:
        self._steps.append(step)
        self._size_bytes.append(size)
        return len(self._steps) - 1

    def _instances(self) -> list[Instance]:
        last = len(self._runs) - 1
        return [
            Instance(id=f"{m}.{s}", layers=run, node=node, into=None if s == last else f"{m}.{s + 1}")
            for m in range(self._way.microbatches)
            for s, (run, node) in enumerate(zip(self._runs, self._way.nodes, strict=True))
        ]

    def _phase(self) -> Phase:
        feeds = [
            Feed(node=self._way.nodes[0], samples=self._many, into=f"{m}.0") for m in range(self._way.microbatches)
        ]
        return Phase(sources=tuple(feeds), instances=tuple(self._instances()))


def _giver(stage: int, what: str, stages: int) -> int | None:
    """The stage whose message a call needs."""
    giver = stage - 1 if what == "F" else stage + 1
    return giver if 0 <= giver < stages else None


def order_of(schedule: Schedule, stage: int, stages: int, microbatches: int) -> list[tuple[str, int]]:
    """The calls of a stage in their order: F or B, and the microbatch."""
    if schedule == "gpipe":
        return [(what, m) for what in "FB" for m in range(microbatches)]
    warm = min(microbatches, stages - stage)
    order = [("F", m) for m in range(warm)]
    for m in range(microbatches):
        order.append(("B", m))
        if warm + m < microbatches:
            order.append(("F", warm + m))
    return order


def streamed_s(evaluator: Evaluator, device: str, node: str, batch: int, microbatches: int) -> float:
    """Seconds of a step in which one node trains alone and gets the raw data in microbatches: a first stage of none.

    No contender (a stage of ``torch.distributed.pipelining`` has layers), but what a pipeline could come to.
    """
    depth, many = len(evaluator.profile.layers), batch // microbatches
    steps: list[Step] = []
    forwards = []
    for m in range(microbatches):
        steps.append(Step(Kind.DATA, m, device, [len(steps) - 2] if m else [], node))  # after the one before
        before = [*forwards[-1:], len(steps) - 1]
        steps.append(Step(Kind.FORWARD, m, node, before))
        forwards.append(len(steps) - 1)
    for m in range(microbatches):
        steps.append(Step(Kind.BACKWARD, m, node, [forwards[-1] if m == 0 else len(steps) - 1]))
    steps.append(Step(Kind.UPDATE, 0, node, [len(steps) - 1]))
    size_bytes = [many * evaluator.profile.input_bytes if step.kind is Kind.DATA else 0.0 for step in steps]
    phase = Phase(
        sources=tuple(Feed(node=device, samples=many, into=str(m)) for m in range(microbatches)),
        instances=tuple(Instance(id=str(m), layers=(1, depth), node=node, into=None) for m in range(microbatches)),
    )
    return evaluator.play(phase, Iteration(steps, [many] * microbatches, size_bytes)).total_s
