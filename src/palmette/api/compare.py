"""The plans of all strategies that apply, best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palmette.api.arguments import Model, Progress
    from palmette.plan.core.comparison import Comparison
    from palmette.runtime.options import Precision
    from palmette.spec.cluster import Cluster
    from palmette.spec.goal import Goal
    from palmette.spec.plan import InputAs
    from palmette.spec.profile import Profile


def compare(
    *,
    profile: Profile | Model,
    cluster: Cluster,
    batch: int = 32,
    goal: str | Goal = "time",
    optimizer: str | None = None,
    accumulate: int | None = None,
    dtype: str | None = None,
    seed: int = 0,
    epochs: int | None = None,
    input_as: InputAs = "stored",
    exchange_codec: str = "none",
    overlap: bool = False,
    robust: float | None = None,
    freeze: Sequence[str] = (),
    precision: Precision | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """The plans of every strategy that applies, best first by the goal, and why the others have none.

    Strategies plan in parallel, each in a process of its own.

    Args:
        profile: as for ``plan``, as are all arguments that are not explained here.
        cluster: the nodes and links to plan for.
        batch: samples per iteration.
        goal: what to minimise.
        optimizer: what it costs; the recipe's if not given.
        accumulate: how many iterations' gradients make one update.
        dtype: ``"float64"`` for double precision.
        seed: of strategies that search at random.
        epochs: how long the plans will be used.
        input_as: how samples travel.
        exchange_codec: how gradients of replicas travel.
        overlap: send gradients during backward, where that is faster.
        robust: with 0.9, plan for what links that vary reach in nine of ten moments, and rank by that.
        freeze: patterns of weights or layers not to train.
        precision: of a network that is profiled first.
        progress: called while a network is profiled, and while strategies are compared.
        options: go to every strategy that has them.

    Raises:
        InputError: the goal or the batch cannot be used.
    """
    from palmette.api.planning_inputs import planning_inputs
    from palmette.plan.core.comparison import compare_to_loss
    from palmette.plan.core.make_plan import of_what_holds
    from palmette.plan.core.strategy import Task

    inputs = planning_inputs(
        profile,
        cluster,
        batch=batch,
        goal=goal,
        optimizer=optimizer,
        accumulate=accumulate,
        dtype=dtype,
        exchange_codec=exchange_codec,
        freeze=freeze,
        precision=precision,
        progress=progress,
    )
    task = Task(**inputs, seed=seed, epochs=epochs, input_as=input_as, overlap=overlap, robust=robust)
    return compare_to_loss(of_what_holds(task), options, progress)
