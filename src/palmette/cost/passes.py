"""The forward and the backward pass of all instances of a tree, as operations.

Each instance makes one call per pass; where replicas share the statistics of a batch norm, a call is cut there and
continues with the totals of all. Backward mirrors forward; where an instance recomputes, it is cut between the blocks
as well, and each block is computed again before its backward. One that is halved passes its gradient on before it
computes those of its weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from palmette.cost.batch_norm import SharedNorm, add_totals
from palmette.cost.sizes import Run, Sizes
from palmette.cost.steps import Kind, NormPoint, Step, Steps, add
from palmette.spec.plan import Phase


class TreePass(ABC):
    """The calls of one pass.

    ``last`` is the number of each instance's last call, ``at`` where in the network it has come to; ``blocks`` are
    those of the instances that recompute, or the parts of those whose gradients leave in buckets.
    """

    kind: Kind

    def __init__(
        self,
        steps: Steps,
        phase: Phase,
        sizes: Sizes,
        shared: Sequence[SharedNorm],
        parts: Mapping[int, tuple[Run, ...]],
    ) -> None:
        self.steps, self.phase, self._shared = steps, phase, shared
        self.blocks = [
            sizes.blocks(each.layers) if each.recompute else parts.get(k, ()) for k, each in enumerate(phase.instances)
        ]
        self.index = {instance.id: k for k, instance in enumerate(phase.instances)}
        self.last: dict[int, int] = {}
        self._ready: dict[int, list[int]] = {}
        self.at: dict[int, float] = {}
        self.reached: dict[int, list[tuple[float, int]]] = {}

    def add(self, order: Sequence[int]) -> list[int]:
        """Add all calls and what passes between them, instances in this order; returns each one's last call."""
        for shared in self._shared:
            for k in order:
                if self._is_done_by(k, shared.position):
                    self.finish(k)
                elif k in shared.run.replicas:
                    self._call(k, shared.position, shared.point)
            computed = {k: self._ready[k][0] for k in shared.run.replicas}
            ready = add_totals(self.steps, self.phase, shared, computed)
            self._ready |= {k: [number] for k, number in ready.items()}
        for k in order:
            self.finish(k)
        return [self.last[k] for k in range(len(self.phase.instances))]

    def _is_done_by(self, k: int, position: float) -> bool:
        """Whether an instance's pass ends before one comes to this position."""
        begin, end = self.ends(k)
        return end < position if begin < end else end > position

    def finish(self, k: int) -> None:
        """Add what is left of an instance's pass."""
        if k not in self.last:
            self.last[k] = self._call(k, self.ends(k)[1])
            self.pass_on(k)

    def _call(self, k: int, until: float, point: NormPoint | None = None) -> int:
        """Add a call that goes on from where the last one ended, up to a batch norm or to the end."""
        if k not in self._ready:
            self._ready[k], self.at[k] = self.enter(k), self.ends(k)[0]
        return self.go_on(k, until, point)

    def go_on(self, k: int, until: float, point: NormPoint | None) -> int:
        """Add calls from where the last one ended; returns the last of them."""
        return self.add_call(k, until, self.blocks[k], point)

    def add_call(self, k: int, until: float, blocks: tuple[Run, ...], point: NormPoint | None = None) -> int:
        """Add one call; ``blocks`` are those that it goes through, if the instance has any."""
        at, self.at[k] = self.at[k], until
        span = None if (at, until) == self.ends(k) else (min(at, until), max(at, until))
        number = self.add_step(Step(self.kind, k, self.phase.instances[k].node, [], None, None, blocks, span, point))
        self.reached.setdefault(k, []).append((until, number))
        return number

    def add_step(self, step: Step) -> int:
        """Add a call of an instance after its last one."""
        step.after = self._ready[step.instance]
        done = add(self.steps, step)
        self._ready[step.instance] = [done]
        return done

    @abstractmethod
    def ends(self, k: int) -> tuple[float, float]:
        """Where in the network an instance's pass begins and ends."""

    @abstractmethod
    def enter(self, k: int) -> list[int]:
        """What an instance's first call waits for; added if need be."""

    @abstractmethod
    def pass_on(self, k: int) -> None:
        """Add what follows an instance's last call."""


class ForwardPass(TreePass):
    """Raw data and outputs go up the tree."""

    kind = Kind.FORWARD

    def __init__(
        self,
        steps: Steps,
        phase: Phase,
        sizes: Sizes,
        shared: Sequence[SharedNorm] = (),
        *,
        parts: Mapping[int, tuple[Run, ...]] = MappingProxyType({}),
    ) -> None:
        super().__init__(steps, phase, sizes, shared, parts)
        self._feeds: list[list[int]] = [[] for _ in phase.instances]
        self._feeders: list[list[int]] = [[] for _ in phase.instances]
        for k, instance in enumerate(phase.instances):
            if instance.into is not None:
                self._feeders[self.index[instance.into]].append(k)
        for number, source in enumerate(phase.sources):
            target = self.index[source.into]
            to = phase.instances[target].node
            if source.node != to:
                self._feeds[target].append(add(steps, Step(Kind.DATA, target, source.node, [], to, number)))

    def ends(self, k: int) -> tuple[float, float]:
        """From the first layer to the last."""
        first, last = self.phase.instances[k].layers
        return first - 1, last

    def enter(self, k: int) -> list[int]:
        """All that feeds it."""
        for feeder in self._feeders[k]:
            self.finish(feeder)
        return self._feeds[k]

    def pass_on(self, k: int) -> None:
        """The output to the next instance, which waits for it."""
        instance, done = self.phase.instances[k], self.last[k]
        if instance.into is not None:
            into = self.index[instance.into]
            to = self.phase.instances[into].node
            if to != instance.node:
                done = add(self.steps, Step(Kind.OUTPUT, k, instance.node, [done], to))
            self._feeds[into].append(done)


class BackwardPass(TreePass):
    """Gradients come back down the tree; a root begins when its forward is done.

    An instance that no gradient comes back to, since nothing up to its last layer learns, has no backward call: it is
    done when its forward is.
    """

    kind = Kind.BACKWARD

    def __init__(
        self,
        steps: Steps,
        phase: Phase,
        forward: Sequence[int],
        sizes: Sizes,
        shared: Sequence[SharedNorm] = (),
        *,
        parts: Mapping[int, tuple[Run, ...]] = MappingProxyType({}),
        halved: Collection[int] = (),
    ) -> None:
        shared = [each for each in reversed(shared) if sizes.has_gradient(each.point.layer)]
        super().__init__(steps, phase, sizes, shared, parts)
        self._forward, self._halved = forward, halved
        self._passed: dict[int, int] = {}
        self._left = [list(blocks) for blocks in self.blocks]
        for k, instance in enumerate(phase.instances):
            if instance.into is not None and not sizes.has_gradient(instance.layers[1]):
                self.last[k] = forward[k]

    def ends(self, k: int) -> tuple[float, float]:
        """From the last layer to the first."""
        first, last = self.phase.instances[k].layers
        return last, first - 1

    def enter(self, k: int) -> list[int]:
        """The gradient of its output."""
        instance = self.phase.instances[k]
        if instance.into is None:
            return [self._forward[k]]
        into = self.index[instance.into]
        self.finish(into)
        ready, sender = self._passed.get(into, self.last[into]), self.phase.instances[into].node
        if sender != instance.node:
            ready = add(self.steps, Step(Kind.GRADIENT, k, sender, [ready], instance.node))
        return [ready]

    def go_on(self, k: int, until: float, point: NormPoint | None) -> int:
        """Add calls from where the last one ended; a block that is entered is computed again before."""
        left = self._left[k]
        while left:
            first, last = block = left[-1]
            if self.at[k] == last and self.phase.instances[k].recompute:
                self.add_step(Step(Kind.RECOMPUTE, k, self.phase.instances[k].node, [], layers=(block,)))
            if until >= first - 1 or len(left) == 1:  # layers before the first block do not learn
                return self.add_call(k, until, (block,), point)
            self.add_call(k, first - 1, (left.pop(),))
        return self.add_call(k, until, (), point)

    def computed(self, k: int, run: Run) -> int:
        """The call of an instance by which the gradients of a run are computed; of a tie or in halves, its last."""
        calls = self.reached.get(k, []) if run[0] <= self.phase.depth and k not in self._halved else []
        return next((number for until, number in calls if until < run[0]), self.last[k])

    def pass_on(self, k: int) -> None:
        """Of one that is halved, the gradients of its weights; the instances below fetch theirs when they enter."""
        if k in self._halved:
            self._passed[k] = done = self.last[k]
            self.steps[done].kind = Kind.BACKWARD_INPUT
            self.last[k] = add(self.steps, Step(Kind.BACKWARD_WEIGHTS, k, self.phase.instances[k].node, [done]))
