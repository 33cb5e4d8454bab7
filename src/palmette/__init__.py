"""Train deep networks across phones, edge servers and the cloud, in the least time or the least energy.

    import palmette as pt

    cluster = pt.load_cluster("cluster.yaml")
    profile = pt.load_profile("profile.json")
    plan = pt.plan("all-edge", profile=profile, cluster=cluster, batch=128)
    print(pt.estimate(plan).iteration_s)

The modules, in the order of the data:

    spec       what things are: cluster, profile, plan, goal, trace
    zoo        what ships: networks, data sets, a catalogue of hardware
    measure    probes: layer times, bandwidths, power
    cost       what a plan costs: time, energy, memory
    predict    the loss of later epochs
    compress   smaller models and smaller messages
    plan       strategies, one file or folder each
    runtime    executes a plan
    testbed    emulates a cluster on this machine
    report     records in, a page out
    control    from a plan to a run; plans again when the cluster changes
    reproduce  the papers' figures
    api        what a Python program calls
    cli        the command line
    errors     what can go wrong, and the exit codes
    __main__   python -m palmette

Importing palmette and planning do not import torch.
"""

from typing import TYPE_CHECKING, Any

import palmette.plan  # noqa: F401  (first, so that the function of the same name below keeps its place)
from palmette.api import (
    compare,
    estimate,
    load_cluster,
    load_measurements,
    load_plan,
    load_profile,
    pilot,
    plan,
    profile,
    run,
    what_if,
)
from palmette.errors import Infeasible, InputError, PalmetteError, RunError

if TYPE_CHECKING:
    from palmette.control.run.callbacks import RunCallback, StopTraining
    from palmette.zoo.recipes.recipe import Recipe

    __version__: str

__all__ = [
    "Infeasible",
    "InputError",
    "PalmetteError",
    "Recipe",
    "RunCallback",
    "RunError",
    "StopTraining",
    "compare",
    "estimate",
    "load_cluster",
    "load_measurements",
    "load_plan",
    "load_profile",
    "pilot",
    "plan",
    "profile",
    "run",
    "what_if",
]


def __getattr__(name: str) -> Any:
    """What most programs do not need is imported only by those who use it: a recipe needs torch."""
    if name == "Recipe":
        from palmette.zoo.recipes.recipe import Recipe

        return Recipe
    if name in ("RunCallback", "StopTraining"):
        from palmette.control.run import callbacks

        return getattr(callbacks, name)
    if name == "__version__":
        from importlib.metadata import version

        return version("palmette")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
