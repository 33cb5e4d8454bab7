"""The plan of one strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palmette.api.arguments import Model, Progress
    from palmette.runtime.options import Precision
    from palmette.spec.cluster import Cluster
    from palmette.spec.goal import Goal
    from palmette.spec.plan import InputAs, Plan
    from palmette.spec.profile import Profile


def plan(
    strategy: str,
    *,
    profile: Profile | Model | None = None,
    cluster: Cluster | None = None,
    batch: int = 32,
    goal: str | Goal | None = None,
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
) -> Plan:
    """The plan of a strategy: which node computes which layers on which samples, and what it costs.

    Strategies that take tables of their own need no profile and no cluster; such a plan has no estimate.

    Args:
        strategy: its name, as ``palmette strategies`` lists them.
        profile: layer times and sizes; or a recipe, a module or the name of a network, which is then profiled on the
            cluster first.
        cluster: the nodes and links to plan for.
        batch: samples per iteration.
        goal: what to minimise: ``"time"``, ``"energy"``, ``"power"``, ``"edp"``, ``"cost"``, ``"carbon"``, a weighted
            sum such as ``"0.3*time+0.7*energy"``, or a ``Goal`` with deadlines; each strategy has its own default.
        optimizer: what it costs in memory and time; the recipe's if not given, else ``"sgd"``.
        accumulate: how many iterations' gradients make one update; the recipe's if not given.
        dtype: with ``"float64"``, sizes and memory are those of training in double precision.
        seed: of strategies that search at random.
        epochs: how long the plan will be used, uploads included.
        input_as: ``"tensor"``: samples travel as the numbers that the network takes, as the papers count them;
            otherwise as they are stored.
        exchange_codec: how gradients of replicas travel: ``"none"``, ``"bf16"``, ``"int8"``, ``"topk:0.01"`` (a
            ratio) or ``"lowrank:2"`` (a rank).
        overlap: send gradients during backward, where that is faster.
        robust: with 0.9, links that vary (``bandwidth_trace``) count as what they reach in nine of ten moments,
            otherwise as their mean.
        freeze: patterns of weights or layers not to train, where a network is profiled first.
        precision: ``"bf16"`` or ``"fp16"``, where a network is profiled first; the recipe's if not given.
        progress: called with the layer that is being profiled, or with what is being planned where there is a profile,
            and the fraction that is done.
        options: the strategy's own.

    Raises:
        InputError: an unknown strategy or option, or an input that it needs is missing.
        Infeasible: no plan can meet the goal.
    """
    from palmette.api.planning_inputs import planning_inputs
    from palmette.plan.core.comparison import planned
    from palmette.plan.core.make_plan import configured, make_plan
    from palmette.plan.core.strategy import PlanRequest, Task
    from palmette.spec.plan import Inputs

    chosen = configured(strategy, options)
    inputs = planning_inputs(
        profile,
        cluster,
        batch=batch,
        goal=goal or chosen.default_goal,
        optimizer=optimizer,
        accumulate=accumulate,
        dtype=dtype,
        exchange_codec=exchange_codec,
        freeze=freeze,
        precision=precision,
        progress=progress,
    )
    inputs |= {"seed": seed, "epochs": epochs, "input_as": input_as, "robust": robust, "overlap": overlap}
    inputs["progress"] = progress if inputs["profile"] is profile else None
    if inputs["profile"] is None or cluster is None:
        return make_plan(chosen, PlanRequest(**inputs))
    task = Task(**inputs)
    if chosen.plans_epochs or task.goal.loss is None or options.get("learning") is None:
        return make_plan(chosen, task)
    made = planned(strategy, task, options)
    return made.model_copy(update={"inputs": Inputs(cluster=cluster, profile=inputs["profile"])})
