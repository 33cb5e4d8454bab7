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
    links: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    epochs: int | None = None,
    profile: Profile | None = None,
    cluster: Cluster | None = None,
) -> list[PlanVariant]:
    """What a plan would cost if something were different: as it is, after each change, and after all of them.

    Each variant has the estimate of the plan as it is (``kept``) and the plan that its strategy makes instead
    (``planned``), or in their place the error that says why that is not possible.

    Args:
        plan: what to start from.
        links: other bandwidths, such as ``{"phone-server": "50 Mbit/s"}``; two with a comma are those from the first
            named to the second, and back.
        without: nodes to leave out.
        epochs: another number of epochs.
        profile: instead of the one in the plan.
        cluster: instead of the one in the plan.

    Raises:
        InputError: the plan has no inputs and none are given, it cannot be executed, or a change names nothing.
    """
    from palmette.control.what_if import VariantChange, link_changes, node_changes
    from palmette.control.what_if import what_if as variants
    from palmette.plan.core.strategy import refuse_epochs
    from palmette.spec.plan import inputs_of

    refuse_epochs(epochs)
    _, known = inputs_of(plan, profile, cluster)
    changes = [*link_changes(known, links or {}), *node_changes(known, without)]
    changes += [] if epochs is None else [VariantChange(f"{epochs} epochs", epochs=epochs)]
    return variants(plan, changes, profile, cluster)
