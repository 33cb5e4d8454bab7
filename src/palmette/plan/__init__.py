"""One strategy a file, behind one Protocol.

    strategy  the Protocol, the task it is given, what it decides
    making    from a decision to a plan: checked, priced, timed
    parallel  jobs side by side, each in a process of its own
    comparison every strategy's plan, best first
    choice    the best of several candidates for a goal
    owner     the one node that owns the data, and the nodes that it can reach
    whole     all-device, all-edge, all-cloud: the whole network on one node
    chain     one instance after the other, priced by the rivals' own formula; chain_search finds the shortest
    jointdnn  JointDNN and JointDNN+: a chain over the owner and the cloud, or over all nodes
    jalad     JALAD: an edge server and the cloud, 8-bit integers between them
    hiertrain HierTrain: three workers share the first layers; hiertrain_search finds the optimum
    cluster_choice  Gu et al.: which devices should train, by measurements of each; cluster_search finds them
    pact      PACT, its optimum, StaticLearn, OneSwitch: schedules of models and nodes; pact_search finds them
    righttrain  RightTrain, its optimum and split learning: the least energy; righttrain_search finds it
    hybrid    any tree that the event clock finds best; hybrid_search looks for it
    auto      the best of all of them; auto_search says why, and what would change the answer

A file of this folder that has ``STRATEGIES`` adds strategies; ``find`` and ``names`` look there.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from palmette.errors import Fault, InputError, expected_name

if TYPE_CHECKING:
    from palmette.plan.strategy import Strategy


@cache
def strategies() -> dict[str, type[Strategy]]:
    """Every strategy by its name."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    kinds = [kind for module in modules for kind in getattr(module, "STRATEGIES", ())]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.name)}


def find(name: str) -> type[Strategy]:
    """The strategy of this name.

    Raises:
        InputError: there is none; names the nearest.
    """
    if name not in strategies():
        raise InputError(Fault("strategy", name, expected_name(name, "strategy", list(strategies()))))
    return strategies()[name]
