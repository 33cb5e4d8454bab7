"""What a plan costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.spec.cluster import Cluster
    from palmette.spec.estimate import Estimate
    from palmette.spec.plan import InputAs, Plan
    from palmette.spec.profile import Profile


def estimate(
    plan: Plan,
    *,
    profile: Profile | None = None,
    cluster: Cluster | None = None,
    optimizer: str = "sgd",
    accumulate: int | None = None,
    dtype: str | None = None,
    timeline: bool = False,
    epochs: int | None = None,
    input_as: InputAs | None = None,
    moment_s: float | None = None,
) -> Estimate:
    """What a plan costs: seconds and joules of an iteration and of the whole training, and each node's part.

    Args:
        plan: what to estimate.
        profile: instead of the one in the plan.
        cluster: instead of the one in the plan.
        optimizer: what it costs in memory and time.
        accumulate: how many iterations' gradients make one update.
        dtype: with ``"float64"``, sizes and memory are those of training in double precision.
        timeline: add every operation with its start and end.
        epochs: how long the plan will be used, where it does not say so itself.
        input_as: how samples travel, instead of what the plan says.
        moment_s: links that vary have what their traces say from this moment on; their mean bandwidth if not given.

    Raises:
        InputError: the plan has no inputs and none are given, or it cannot be executed; holds every reason.
    """
    from palmette.cost.estimate import estimate as price
    from palmette.cost.number_width import in_float_type
    from palmette.cost.optimizer import accumulating
    from palmette.plan.core.used import used_as
    from palmette.spec.plan import inputs_of

    profile, cluster = inputs_of(plan, profile, cluster)
    plan, profile, cluster = used_as(plan, profile, cluster, epochs, input_as)
    profile = profile if dtype is None else in_float_type(profile, dtype)
    cost = accumulating(optimizer, accumulate)
    return price(plan, profile, cluster, optimizer=cost, timeline=timeline, epochs=epochs, moment_s=moment_s)
