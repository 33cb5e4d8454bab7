"""How the model moves from one phase to the next: to the node that compresses it, and on to those that train it.

    holders of layers ──gather──▶ giver: where the phase before it meets ──deliver──▶ holders in the next phase

What a node holds already is not sent, unless the model is made smaller: then all nodes but the giver get it again.
Under ``async`` only the server gets it, since workers pull it anyway. The optimizer's state of the weights is sent with
them, unless an exchange of weights has just reset it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import exchanges_weights
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.prices import NodePrice
from palmette.cost.sizes import Run, Sizes, runs_of
from palmette.cost.steps import Iteration, Kind, Step
from palmette.spec.goal import Spending
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance


class Move(NamedTuple):
    """Layers that are sent from one node to another."""

    sender: str
    to: str
    layers: tuple[Run, ...]


class ModelTransfer(NamedTuple):
    """The two halves of a change of phase, and the node in between."""

    giver: str
    gather: tuple[Move, ...]
    deliver: tuple[Move, ...]

    @property
    def nodes(self) -> list[str]:
        """The nodes that take part, the giver first."""
        ends = [end for move in (*self.gather, *self.deliver) for end in (move.sender, move.to)]
        return list(dict.fromkeys([self.giver, *ends]))


def model_transfer(before: Phase, after: Phase) -> ModelTransfer:
    """What travels between two phases."""
    giver, everything = before.meeting_node, set(range(1, before.depth + 1))
    had, wanted = _held(before), _wanted(after)
    if changes_model(before, after):
        lacking = {node: layers for node, layers in wanted.items() if node != giver}
        needed = everything
    else:
        lacking = {node: layers - had.get(node, set()) for node, layers in wanted.items()}
        needed = set().union(*lacking.values())
    gathered: dict[str, set[int]] = {}
    for number in sorted(needed - had.get(giver, set())):
        holder = next(node for node, layers in had.items() if number in layers)
        gathered.setdefault(holder, set()).add(number)
    return ModelTransfer(
        giver,
        tuple(Move(node, giver, _runs(layers)) for node, layers in gathered.items()),
        tuple(Move(giver, node, _runs(layers)) for node, layers in lacking.items() if layers and node != giver),
    )


def changes_model(before: Phase, after: Phase) -> bool:
    """Whether the model changes between two phases."""
    return before.pruning != after.pruning


def copies_per_weight(before: Phase, after: Phase, optimizer: OptimizerCost) -> int:
    """How many numbers travel for each weight: itself, the optimizer's state of it if that is kept, and its momentum.

    That is the outer optimizer's, where both phases have one.
    """
    if changes_model(before, after) and after.compress == "distill":
        return 1
    kind = before.sync_kind
    begins_anew = kind.averages_weights and not kind.keeps_optimizers and exchanges_weights(before)
    outer = before.outer is not None and after.outer is not None
    return 1 + (0 if begins_anew else optimizer.state_copies) + outer


def transfer_phase(like: Phase, giver: str, nodes: Sequence[str]) -> Phase:
    """The nodes of a transfer as a phase, with the whole of the model of ``like`` on each, the giver's first."""
    hosts = list(dict.fromkeys([giver, *nodes]))
    return Phase(
        pruning=like.pruning,
        sync="epoch",
        server=giver,
        sources=tuple(Feed(node=node, samples=1, into=node) for node in hosts),
        instances=tuple(Instance(id=node, layers=(1, like.depth), node=node) for node in hosts),
    )


def transfer_steps(
    moves: Sequence[Move], phase: Phase, sizes: Sizes, times: int, after: Sequence[int] = ()
) -> Iteration:
    """Moves between the nodes of a ``transfer_phase`` as operations; each weight counts so many times."""
    index = {instance.node: k for k, instance in enumerate(phase.instances)}
    steps = [Step(Kind.PULL, index[move.to], move.sender, list(after), move.to, layers=move.layers) for move in moves]
    size_bytes = [times * sizes.weight_bytes(move.layers) for move in moves]
    return Iteration(steps, [1] * len(phase.instances), size_bytes)


def all_transfer_steps(found: ModelTransfer, phase: Phase, sizes: tuple[Sizes, Sizes], times: int) -> Iteration:
    """Both halves of a transfer, one after the other; ``sizes`` are those before and after."""
    first = transfer_steps(found.gather, phase, sizes[0], times)
    second = transfer_steps(found.deliver, phase, sizes[1], times, range(len(first.steps)))
    return Iteration([*first.steps, *second.steps], first.samples, [*first.size_bytes, *second.size_bytes])


def change_price(before: Phase, after: Phase, evaluator: Evaluator) -> Spending:
    """What the change from one phase to the next takes."""
    found = model_transfer(before, after)
    compressing = _compressing(before, after, evaluator)
    if len(found.nodes) == 1:
        return compressing
    phase = transfer_phase(after, found.giver, found.nodes)
    sizes = evaluator.sizes(before.pruning), evaluator.sizes(after.pruning)
    made = all_transfer_steps(found, phase, sizes, copies_per_weight(before, after, evaluator.optimizer))
    return evaluator.transfer_price(phase, made).plus(compressing)


def compressing_s(before: Phase, after: Phase, evaluator: Evaluator) -> float:
    """Seconds that the giver needs to make the model smaller: to prune it, and to train it if it is distilled.

    What a profile does not say about pruning counts as 0.
    """
    if not changes_model(before, after):
        return 0.0
    giver = before.meeting_node
    time_s = evaluator.prune_s(giver, after.pruning)
    if after.compress == "distill":
        time_s += _distilling_s(before, after, evaluator)
    return time_s / evaluator.cluster.nodes[giver].limits.cpu_share


def _distilling_s(before: Phase, after: Phase, evaluator: Evaluator) -> float:
    """Seconds of one pass of both models over the giver's own samples, and of the smaller one's training."""
    giver, depth = before.meeting_node, before.depth
    owned = evaluator.cluster.nodes[giver].source
    many = max(1, (owned.samples if owned else 0) // before.batch)
    teacher, student = evaluator.seconds(giver, before.pruning), evaluator.seconds(giver, after.pruning)
    step_s = teacher.forward_s(1, depth, before.batch) + student.forward_s(1, depth, before.batch)
    step_s += student.backward_s(1, depth, before.batch) + student.update_s(1, depth)
    return many * step_s


def _compressing(before: Phase, after: Phase, evaluator: Evaluator) -> Spending:
    """What making the model smaller takes."""
    time_s, giver = compressing_s(before, after, evaluator), before.meeting_node
    if not time_s:
        return Spending(0.0, 0.0, 0.0, 0.0)
    node = evaluator.cluster.nodes[giver]
    exponent = 1.0 if node.power is None else node.power.exponent
    effort_s = time_s * node.limits.cpu_share**exponent
    return evaluator.spending({giver: NodePrice(busy_s=time_s, effort_s=effort_s)}, time_s)


def _held(phase: Phase) -> dict[str, set[int]]:
    """The layers whose weights each node has when a phase is over."""
    everything = set(range(1, phase.depth + 1))
    if phase.sync_kind.has_server:
        return {phase.meeting_node: everything}
    held = _hosted(phase)
    if phase.sync_kind.averages_weights and exchanges_weights(phase):
        held[phase.meeting_node] = everything
    return held


def _wanted(phase: Phase) -> dict[str, set[int]]:
    """The layers whose weights each node needs when a phase begins."""
    if phase.sync_kind.has_server:
        return {phase.meeting_node: set(range(1, phase.depth + 1))}
    return _hosted(phase)


def _hosted(phase: Phase) -> dict[str, set[int]]:
    hosted: dict[str, set[int]] = {}
    for instance in phase.instances:
        hosted.setdefault(instance.node, set()).update(range(instance.layers[0], instance.layers[1] + 1))
    return hosted


def _runs(layers: Iterable[int]) -> tuple[Run, ...]:
    return runs_of(sorted(layers))
