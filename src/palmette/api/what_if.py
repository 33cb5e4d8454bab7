"""What a plan would cost on a cluster that is different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.control.what_if import PlanVariant
    from palmette.spec.cluster import Cluster
    from palmette.spec.plan import Plan
    from palmette.spec.profile import Profile


def what_if(
    plan: Plan,
    *,
    links: Mapping[str, str | Sequence[str]] | None = None,
    without: Sequence[str] = (),
    epochs: int | Sequence[int] | None = None,
    profile: Profile | None = None,
    cluster: Cluster | None = None,
) -> list[PlanVariant]:
    """What a plan would cost if something were different: as it is, after each change, and after all of them.

    Each variant has the estimate of the plan as it is (``kept``) and the plan that its strategy makes instead
    (``planned``), or in their place the error that says why that is not possible. Where a link or the epochs have
    several values to try, no variant has all changes.

    Args:
        plan: what to start from.
        links: other bandwidths, such as ``{"phone-server": "50 Mbit/s"}``; two with a comma are those from the first
            named to the second, and back. A list has several to try.
        without: nodes to leave out.
        epochs: another number of epochs, or several to try.
        profile: instead of the one in the plan.
        cluster: instead of the one in the plan.

    Raises:
        InputError: the plan has no inputs and none are given, it cannot be executed, or a change names nothing.
    """
    from palmette.control.what_if import epoch_changes, link_changes, node_changes
    from palmette.control.what_if import what_if as variants
    from palmette.plan.core.strategy import refuse_epochs
    from palmette.spec.plan import inputs_of

    numbers = [] if epochs is None else [epochs] if isinstance(epochs, int) else list(epochs)
    for number in numbers:
        refuse_epochs(number)
    _, known = inputs_of(plan, profile, cluster)
    bandwidths = [(name, rate) for name, to in (links or {}).items() for rate in ([to] if isinstance(to, str) else to)]
    changes = [*link_changes(known, bandwidths), *node_changes(known, dict.fromkeys(without)), *epoch_changes(numbers)]
    return variants(plan, changes, profile, cluster)
