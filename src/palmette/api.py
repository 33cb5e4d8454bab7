"""What a Python program needs: load files, make plans, price them. Imports what it needs when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmette.errors import Fault, InputError

if TYPE_CHECKING:
    from palmette.cost.memory import Optimizer
    from palmette.plan.core.comparison import Comparison
    from palmette.runtime.training.job import Outcome
    from palmette.spec.cluster import Cluster
    from palmette.spec.estimate import Estimate
    from palmette.spec.goal import Goal
    from palmette.spec.measurements import Measurements
    from palmette.spec.plan import Plan
    from palmette.spec.profile import Profile

File = str | PathLike[str]
MOST_SAMPLES = 10**12


def load_cluster(path: File) -> Cluster:
    """Read a ``cluster.yaml``; nodes that name hardware of the catalogue get its memory and power.

    Raises:
        InputError: the file cannot be read or describes no cluster; holds every fault.
    """
    from palmette.spec.cluster import Cluster
    from palmette.spec.files import load
    from palmette.zoo.hardware_defaults import fill_hardware_defaults

    return fill_hardware_defaults(load(Cluster, path), str(path))


def load_profile(path: File) -> Profile:
    """Read a ``profile.json``.

    Raises:
        InputError: the file cannot be read or holds no profile; holds every fault.
    """
    from palmette.spec.files import load
    from palmette.spec.profile import Profile

    return load(Profile, path)


def load_measurements(path: File) -> Measurements:
    """Read a table of measurements, which ``palmette pretrain`` writes and the strategy ``cluster`` decides on.

    Raises:
        InputError: the file cannot be read or holds no measurements; holds every fault.
    """
    from palmette.spec.files import load
    from palmette.spec.measurements import Measurements

    return load(Measurements, path)


def load_plan(path: File) -> Plan:
    """Read a ``plan.json``; nodes of the cluster that it carries are completed as in ``load_cluster``.

    Raises:
        InputError: the file cannot be read or holds no plan; holds every fault.
    """
    from palmette.spec.files import load
    from palmette.spec.plan import Plan
    from palmette.zoo.hardware_defaults import fill_hardware_defaults

    plan = load(Plan, path)
    if plan.inputs is None or plan.inputs.cluster is None:
        return plan
    inputs = plan.inputs.model_copy(
        update={"cluster": fill_hardware_defaults(plan.inputs.cluster, f"{path}: inputs.cluster")}
    )
    return plan.model_copy(update={"inputs": inputs})


def plan(
    strategy: str,
    *,
    profile: Profile | None = None,
    cluster: Cluster | None = None,
    batch: int = 32,
    goal: str | Goal | None = None,
    optimizer: Optimizer = "sgd",
    seed: int = 0,
    **options: Any,
) -> Plan:
    """The plan of a strategy: who computes which layers on which samples, and what it costs.

    ``goal`` is what to minimise (``"time"``, ``"energy"``, ``"power"``, ``"edp"``, a weighted sum such as
    ``"0.3*time+0.7*energy"``, or a ``Goal`` with deadlines); each strategy has its own default. ``options`` are
    the strategy's own. Strategies that take a table of their own can do without profile and cluster; such a plan has
    no estimate.

    Raises:
        InputError: an unknown strategy or option, or something that it needs is missing.
        Infeasible: no plan can meet the goal.
    """
    from palmette.plan.core.make_plan import configured, make_plan
    from palmette.plan.core.strategy import Ask, Task

    chosen = configured(strategy, options)
    asked: dict[str, Any] = {"batch": _many(batch), "goal": _goal(goal or chosen.default_goal)}
    asked |= {"optimizer": optimizer, "seed": seed}
    if profile is not None and cluster is not None:
        return make_plan(chosen, Task(profile=profile, cluster=cluster, **asked))
    return make_plan(chosen, Ask(profile=profile, cluster=cluster, **asked))


def compare(
    *,
    profile: Profile,
    cluster: Cluster,
    batch: int = 32,
    goal: str | Goal = "time",
    optimizer: Optimizer = "sgd",
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """The plans of every strategy that applies, best first by the goal, and why the others have none.

    Strategies plan in parallel, each in a process of its own. ``options`` go to every strategy that has them.

    Raises:
        InputError: the goal or the batch makes no sense.
    """
    from palmette.plan.core.comparison import compare as side_by_side
    from palmette.plan.core.strategy import Task

    task = Task(
        profile=profile,
        cluster=cluster,
        batch=_many(batch),
        goal=_goal(goal),
        optimizer=optimizer,
        seed=seed,
    )
    return side_by_side(task, options)


def _goal(goal: str | Goal) -> Goal:
    from palmette.spec.goal import Goal, parse_weights

    return goal if isinstance(goal, Goal) else Goal(weights=parse_weights(goal))


def _many(batch: int) -> int:
    if not 1 <= batch <= MOST_SAMPLES:
        raise InputError(Fault("--batch", batch, f"expected at least 1 and at most {MOST_SAMPLES}"))
    return batch


def estimate(
    plan: Plan,
    *,
    profile: Profile | None = None,
    cluster: Cluster | None = None,
    optimizer: Optimizer = "sgd",
    timeline: bool = False,
) -> Estimate:
    """What a plan costs: seconds and joules of an iteration and of the whole, and each node's part.

    Profile and cluster are those that the plan carries unless they are given. ``timeline`` adds every operation
    with its start and end.

    Raises:
        InputError: the plan carries no inputs and none are given, or it cannot be carried out; says all reasons.
    """
    from palmette.cost.estimate import estimate as price
    from palmette.spec.plan import inputs_of

    profile, cluster = inputs_of(plan, profile, cluster)
    return price(plan, profile, cluster, optimizer=optimizer, timeline=timeline)


def profile(
    model: str,
    *,
    cluster: Cluster,
    on: Sequence[str] = (),
    input_shape: tuple[int, ...] | None = None,
    engine: str = "local",
    variants: Sequence[float] = (),
) -> Profile:
    """What a network's layers cost on each node: measured here for the nodes in ``on`` and those with ``host: local``,
    predicted for those with ``hardware``; with ``engine="ray"``, measured on every node that is a host of the cluster.
    ``variants`` are fractions of its parameters: without these, too.

    Raises:
        InputError: the network cannot be had, or a node can neither be measured nor predicted.
    """
    from palmette.control.run.engines import refuse_unknown
    from palmette.measure.profiling import profile_network
    from palmette.measure.ray_hosts import measure_times_on_hosts
    from palmette.zoo.models import load_network

    refuse_unknown("--engine", engine)
    elsewhere = measure_times_on_hosts(model, cluster, on, input_shape, variants) if engine == "ray" else {}
    return profile_network(load_network(model, input_shape), cluster, on, elsewhere=elsewhere, variants=variants)


def run(
    plan: Plan, folder: File, *, profile: Profile | None = None, cluster: Cluster | None = None, **request: Any
) -> Outcome:
    """Train for real, as the plan says; ``folder`` is what the run leaves behind.

    ``request`` are the fields of ``palmette.control.run.run.Request``: ``data``, ``iterations`` or ``epochs``,
    ``testbed``, ``options`` and so on. A script that calls this guards its main part with
    ``if __name__ == "__main__"``, as everywhere where processes are started.

    Raises:
        InputError: the plan cannot be carried out, or network, data or options do not fit.
        RunError: it stopped before its end; the last checkpoint remains in the folder.
    """
    from palmette.control.adapt.supervise import Supervisor
    from palmette.control.run.run import Request, start
    from palmette.spec.plan import inputs_of

    known_profile, known_cluster = inputs_of(plan, profile, cluster)
    running = start(plan, known_profile, known_cluster, Request(**request), Path(folder))
    return Supervisor(running, lambda _: None).run(lambda _: None, lambda _: None)
