"""A plan as it is to be used: for how many epochs, and with samples in which form."""

from __future__ import annotations

from palmette.errors import ArgumentFault, InputError
from palmette.plan.core.strategy import refuse_epochs
from palmette.plan.core.tensor_input import cluster_of_tensors, phase_of_tensors, profile_of_tensors
from palmette.spec.cluster import Cluster
from palmette.spec.plan import InputAs, Plan, known_input_as
from palmette.spec.profile import Profile


def used_as(
    plan: Plan, profile: Profile, cluster: Cluster, epochs: int | None, input_as: InputAs | None
) -> tuple[Plan, Profile, Cluster]:
    """The plan and its inputs with samples in a form, that of the plan if None.

    Raises:
        InputError: there is no such form, or the plan says itself how long it trains.
    """
    refuse_epochs(epochs)
    if epochs is not None and any(phase.epochs is not None for phase in plan.phases):
        raise InputError(ArgumentFault("epochs", epochs, "the plan says how long it trains; expected none"))
    if input_as is None:
        return plan, profile, cluster
    if known_input_as(input_as) == "stored":
        phases = tuple(phase.model_copy(update={"input_as": "stored"}) for phase in plan.phases)
        return plan.model_copy(update={"phases": phases}), profile, cluster
    tensors = plan.model_copy(update={"phases": tuple(map(phase_of_tensors, plan.phases))})
    return tensors, profile_of_tensors(profile), cluster_of_tensors(cluster)
