"""Train deep networks across phones, edge servers and the cloud, in the least time or the least energy.

    import palmette as pt

    cluster = pt.load_cluster("cluster.yaml")
    profile = pt.load_profile("profile.json")
    plan = pt.plan("all-edge", profile=profile, cluster=cluster, batch=128)
    print(pt.estimate(plan).iteration_s)

The modules, in the order of the data:

    spec     what things are: cluster, profile, plan, goal, trace
    zoo      what ships: networks, data sets, a catalogue of hardware
    measure  probes: layer times
    cost     the price of a plan: time, energy, memory
    predict  the loss to come
    compress smaller messages
    plan     strategies, one a file
    runtime  takes a finished plan and executes it
    testbed  this machine as a cluster
    report   records in, a page out
    control  from a plan to a run
    cli      the command line

Importing palmette and planning do not import torch.
"""

import palmette.plan  # noqa: F401  (first, so that the function of the same name below keeps its place)
from palmette.api import compare, estimate, load_cluster, load_measurements, load_plan, load_profile, plan, profile, run
from palmette.errors import Infeasible, InputError, PalmetteError, RunError

__all__ = [
    "Infeasible",
    "InputError",
    "PalmetteError",
    "RunError",
    "compare",
    "estimate",
    "load_cluster",
    "load_measurements",
    "load_plan",
    "load_profile",
    "plan",
    "profile",
    "run",
]
