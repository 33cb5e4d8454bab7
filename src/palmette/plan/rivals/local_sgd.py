"""Local SGD (Stich 2019): replicas of the whole network take some steps apart, then average their weights.

Replicas are where the data is, or on the fastest nodes with samples shared by speed; the event clock says which, and
where they meet. Owners of private data that are slower give fewer samples to a batch, unless ``shares`` says otherwise,
so that a window is not bound to the slowest node. The window is an option: how much of it a training bears is a
question of the loss, not of the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, get_args

from palmette.cost.evaluate import Evaluator
from palmette.errors import ArgumentFault, InputError
from palmette.plan.core.choice import best
from palmette.plan.core.forest import PrivateShares, forests, servers
from palmette.plan.core.recompute import recompute_price
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.spec.sync import OuterOptimizer, Turns
from palmette.spec.tree import Feed

SHARES_HELP = "What private owners give to a batch: as owned, or by their nodes' speed, as it is if not given."


@dataclass(frozen=True, kw_only=True)
class LocalSgd(Strategy):
    """Replicas that average their weights after every few steps."""

    name: ClassVar[str] = "local-sgd"
    summary: ClassVar[str] = "replicas of the whole network that average their weights after every few steps"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True
    trains_apart: ClassVar[bool] = True

    every: int = field(default=10, metadata={"help": "Steps that replicas take before weights are averaged."})
    shares: PrivateShares | None = field(default=None, metadata={"help": SHARES_HELP})

    def __post_init__(self) -> None:
        refuse_window(self.every)
        refuse_shares(self.shares)

    def decide(self, task: Task) -> Decision:
        """Take the best replicas and the best server."""
        return decide_windows(task, Windows(self.every, None, shares=self.shares))


STRATEGIES = (LocalSgd,)


def refuse_window(every: int) -> None:
    """Refuse a window of no steps.

    Raises:
        InputError: says so.
    """
    if every < 1:
        raise InputError(ArgumentFault("every", every, "expected at least 1"))


def refuse_shares(shares: PrivateShares | None) -> None:
    """Refuse shares of a kind that is not known.

    Raises:
        InputError: names those that are.
    """
    known = get_args(PrivateShares)
    if shares is not None and shares not in known:
        raise InputError(ArgumentFault("shares", shares, f"expected one of {', '.join(known)}"))


class Windows(NamedTuple):
    """The steps that replicas take apart, and how they agree then.

    Parts of the network may have their ``turns``; ``shares`` is what private owners give to a batch.
    """

    every: int
    outer: OuterOptimizer | None
    turns: Turns | None = None
    shares: PrivateShares | None = None


def decide_windows(task: Task, windows: Windows) -> Decision:
    """The best forest and server for windows of so many steps.

    Raises:
        InputError: the network has fewer layers than parts, or differences are to be coded, but parts have turns.
        Infeasible: no forest of several replicas may run.
    """
    every, outer, turns, shares = windows
    if turns is not None:
        _refuse_turns(turns, task)
    found = forests(task, every, outer, shares or "speed")
    update = {"turns": turns}
    candidates = [forest.model_copy(update={"server": node} | update) for forest in found for node in servers(task)]
    phase, price = best(candidates, task, Evaluator.mean_epoch)
    variables: dict[str, Any] = {
        "replicas": {instance.node: _samples(phase.sources, instance.id) for instance in phase.instances},
        "server": phase.server,
        "every": every,
        "iteration_s": price.iteration_s,
    }
    return Decision((phase,), variables | recompute_price(phase, task))


def _refuse_turns(turns: Turns, task: Task) -> None:
    depth = len(task.profile.layers)
    if turns.fragments > depth:
        expected = f"the network has {depth} layers; expected at most as many"
        raise InputError(ArgumentFault("fragments", turns.fragments, expected))
    if task.exchange.kind.lossy:
        expected = "expected none where parts of the network are exchanged in turns"
        raise InputError(ArgumentFault("exchange_codec", task.exchange.codec, expected))


def _samples(sources: Sequence[Feed], instance: str) -> int:
    """The samples of a batch that an instance takes."""
    return sum(source.samples for source in sources if source.into == instance)
