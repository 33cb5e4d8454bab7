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

    Profile and cluster are those in the plan unless they are given. ``timeline`` adds every operation
    with its start and end. ``epochs`` is how long a plan will be used that does not say so itself, ``input_as`` how
    samples travel instead of what it says. ``accumulate`` and ``dtype`` are those of ``plan``. Links that vary have
    their mean bandwidth, or, with ``moment_s``, what their traces say from that moment on.

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
