"""``palmette program``: what a node's worker does, in text."""

from __future__ import annotations

from palmette.cost.check import check
from palmette.cost.estimate import evaluator
from palmette.errors import Fault, InputError, expected_name
from palmette.runtime.phase_programs import parts_of
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan, inputs_of
from palmette.spec.profile import Profile


def programs_of(plan: Plan, node: str, profile: Profile | None, cluster: Cluster | None) -> str:
    """A node's programs in each phase: one, or under ``epoch`` and ``async`` one for each part it has in it.

    Raises:
        InputError: the plan cannot be carried out, or the node takes no part in it.
    """
    prices = evaluator(*inputs_of(plan, profile, cluster))
    wrong = check(plan, prices)
    if wrong:
        raise InputError(wrong)
    texts = []
    for phase in plan.phases:
        if node not in phase.nodes():
            expected = expected_name(node, "node in this plan", phase.nodes())
            raise InputError(Fault("--node", node, expected))
        texts += [str(part.programs[node]) for part in parts_of(phase, prices) if node in part.programs]
    return "\n\n".join(texts)
