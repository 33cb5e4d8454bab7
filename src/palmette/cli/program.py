"""``palmette program``: what a node's worker does, as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt
from palmette.errors import ArgumentFault, InputError, expected_name

if TYPE_CHECKING:
    from palmette.spec.cluster import Cluster
    from palmette.spec.plan import Plan
    from palmette.spec.profile import Profile


def program(
    plan: Annotated[Path, typer.Argument(help="The plan (JSON).")],
    node: Annotated[str, typer.Option("--node", help="The node whose program to print.", show_default=False)],
    profile: opt.AnyProfileFile = None,
    cluster: opt.AnyClusterFile = None,
) -> None:
    """Print what a node's worker does in an iteration.

    Example: palmette program plan.json --node phone
    """
    import palmette as pt

    print(
        programs_of(
            pt.load_plan(plan),
            node,
            pt.load_profile(profile) if profile else None,
            pt.load_cluster(cluster) if cluster else None,
        )
    )


def programs_of(plan: Plan, node: str, profile: Profile | None, cluster: Cluster | None) -> str:
    """A node's programs in each phase: one, or under ``epoch`` and ``async`` one for each part it has in it.

    Raises:
        InputError: the plan cannot be executed, or the node has no part in it.
    """
    from palmette.cost.check import check
    from palmette.cost.estimate import evaluator
    from palmette.runtime.phase_programs import parts_of
    from palmette.spec.plan import inputs_of

    prices = evaluator(*inputs_of(plan, profile, cluster))
    wrong = check(plan, prices)
    if wrong:
        raise InputError(wrong)
    texts = []
    for phase in plan.phases:
        if node not in phase.nodes():
            expected = expected_name(node, "node in this plan", phase.nodes())
            raise InputError(ArgumentFault("node", node, expected))
        texts += [str(part.programs[node]) for part in parts_of(phase, prices) if node in part.programs]
    return "\n\n".join(texts)
