"""What a Python program calls: load files, make plans, estimate and run them. Imports what it needs when called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.control.prune import Compression
    from palmette.cost.memory import Optimizer
    from palmette.plan.core.comparison import Comparison
    from palmette.runtime.options import Dtype
    from palmette.runtime.training.job import RunOutcome
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
    """Read a table of measurements, which ``palmette pretrain`` writes and the strategy ``cluster`` takes.

    Raises:
        InputError: the file cannot be read or holds no measurements; holds every fault.
    """
    from palmette.spec.files import load
    from palmette.spec.measurements import Measurements

    return load(Measurements, path)


def load_plan(path: File) -> Plan:
    """Read a ``plan.json``; nodes of the cluster in it are completed as in ``load_cluster``.

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
    """The plan of a strategy: which node computes which layers on which samples, and what it costs.

    ``goal`` is what to minimise (``"time"``, ``"energy"``, ``"power"``, ``"edp"``, a weighted sum such as
    ``"0.3*time+0.7*energy"``, or a ``Goal`` with deadlines); each strategy has its own default. ``options`` are
    the strategy's own. Strategies that take tables of their own need no profile and cluster; such a plan has no
    estimate.

    Raises:
        InputError: an unknown strategy or option, or an input that it needs is missing.
        Infeasible: no plan can meet the goal.
    """
    from palmette.plan.core.make_plan import configured, make_plan
    from palmette.plan.core.strategy import Ask, Task

    chosen = configured(strategy, options)
    inputs: dict[str, Any] = {"batch": _checked_batch(batch), "goal": _goal(goal or chosen.default_goal)}
    inputs |= {"optimizer": optimizer, "seed": seed}
    if profile is not None and cluster is not None:
        return make_plan(chosen, Task(profile=profile, cluster=cluster, **inputs))
    return make_plan(chosen, Ask(profile=profile, cluster=cluster, **inputs))


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
        InputError: the goal or the batch cannot be used.
    """
    from palmette.plan.core.comparison import compare as compare_plans
    from palmette.plan.core.strategy import Task

    task = Task(
        profile=profile,
        cluster=cluster,
        batch=_checked_batch(batch),
        goal=_goal(goal),
        optimizer=optimizer,
        seed=seed,
    )
    return compare_plans(task, options)


def _goal(goal: str | Goal) -> Goal:
    from palmette.spec.goal import Goal, parse_weights

    return goal if isinstance(goal, Goal) else Goal(weights=parse_weights(goal))


def _checked_batch(batch: int) -> int:
    if not 1 <= batch <= MOST_SAMPLES:
        raise InputError(ArgumentFault("batch", batch, f"expected at least 1 and at most {MOST_SAMPLES}"))
    return batch


def estimate(
    plan: Plan,
    *,
    profile: Profile | None = None,
    cluster: Cluster | None = None,
    optimizer: Optimizer = "sgd",
    timeline: bool = False,
) -> Estimate:
    """What a plan costs: seconds and joules of an iteration and of the whole training, and each node's part.

    Profile and cluster are those in the plan unless they are given. ``timeline`` adds every operation
    with its start and end.

    Raises:
        InputError: the plan has no inputs and none are given, or it cannot be executed; holds every reason.
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
    progress: Callable[[str, float], None] = lambda *_: None,
) -> Profile:
    """What a network's layers cost on each node.

    Args:
        model: a network of the zoo, or ``package.module:callable``.
        cluster: its nodes with ``host: local`` are measured here, those with ``hardware`` are predicted.
        on: further nodes that this machine is measured for.
        input_shape: the shape of one sample, where the network does not say it.
        engine: ``"ray"`` measures on every node that is a host of the Ray cluster.
        variants: fractions of its parameters to prune: the smaller networks are profiled, too.
        progress: called with the layer at hand and the fraction that is done.

    Raises:
        InputError: the network cannot be loaded, or a node can neither be measured nor predicted.
    """
    from palmette.control.run.engines import refuse_unknown
    from palmette.measure.profiling import profile_network
    from palmette.measure.ray_hosts import measure_times_on_hosts
    from palmette.runtime.engines.registry import ENGINES
    from palmette.zoo.models import load_network

    refuse_unknown("engine", engine)
    network = load_network(model, input_shape, seed=0)
    elsewhere = measure_times_on_hosts(model, cluster, on, input_shape, variants) if ENGINES[engine].real_hosts else {}
    return profile_network(network, cluster, on, progress, elsewhere, variants=variants)


def run(
    plan: Plan,
    folder: File,
    *,
    profile: Profile | None = None,
    cluster: Cluster | None = None,
    data: str | None = None,
    iterations: int | None = None,
    epochs: int | None = None,
    optimizer: Optimizer = "sgd",
    lr: float | None = None,
    seed: int = 0,
    dtype: Dtype = "float32",
    mixed_precision: bool = False,
    freeze: Sequence[str] = (),
    init: File | None = None,
    compress: Compression | None = None,
    input_shape: tuple[int, ...] | None = None,
    engine: str = "local",
    testbed: str = "",
    dilation: float | None = None,
    transport: str = "gloo",
    keys: File | None = None,
    hub: str | None = None,
    replan: bool = True,
    drift: float = 0.5,
    allow_data_loss: bool = False,
    cluster_file: File | None = None,
) -> RunOutcome:
    """Execute a plan: train the network. A script that calls this guards its main part with
    ``if __name__ == "__main__"``, as everywhere where processes are started.

    Args:
        plan: what to execute.
        folder: where to write what the run leaves: ``run.json``, weights, metrics, trace, checkpoints.
        profile: instead of the one in the plan.
        cluster: instead of the one in the plan.
        data: what sources without data of their own draw from, ``"digits"`` if not given; where all sources name
            data, only what the network is evaluated on.
        iterations: how many batches to train; not together with ``epochs``.
        epochs: how many passes over the data; as in the plan if neither is given.
        optimizer: ``"sgd"``, ``"momentum"`` or ``"adam"``.
        lr: the learning rate; the default depends on the optimizer.
        seed: of weights, batches and shards.
        dtype: type of the weights.
        mixed_precision: compute in bfloat16.
        freeze: patterns of weights or layers not to train, such as ``"conv1.*"``.
        init: weights to start from (safetensors).
        compress: how smaller models are made, instead of as in the plan.
        input_shape: the shape of one sample, where the network does not say it.
        engine: ``"local"`` (processes on this machine) or ``"ray"`` (hosts of a Ray cluster).
        testbed: ``"paced"`` (default) or ``"namespaces"`` emulate the cluster; ``"none"`` does not, as always on ray.
        dilation: the factor by which emulated time is slowed down; chosen if not given.
        transport: ``"gloo"`` on a trusted network, ``"tls"`` on any other.
        keys: the folder of keys for tls; keys are created for the run if not given.
        hub: the node that relays messages for tls; chosen if not given.
        replan: plan again when a node is lost or joins, instead of stopping.
        drift: plan again when a link's bandwidth is off by this fraction.
        allow_data_loss: continue without a lost node even if its data is lost too.
        cluster_file: a cluster file to watch for nodes that join or leave.

    Raises:
        InputError: the plan cannot be executed, or network, data or an argument do not fit.
        RunError: it stopped before its end; the last checkpoint remains in the folder.
    """
    from palmette.control.adapt.supervise import Supervisor
    from palmette.control.run.request import Request, training_options
    from palmette.control.run.session import prepare
    from palmette.spec.plan import inputs_of

    request = Request(
        data=data,
        iterations=iterations,
        epochs=epochs,
        engine=engine,
        testbed=testbed,
        transport=transport,
        keys=None if keys is None else str(keys),
        hub=hub,
        dilation=dilation,
        input_shape=input_shape,
        init=None if init is None else str(init),
        cluster_file=None if cluster_file is None else str(Path(cluster_file).absolute()),
        replan=replan,
        allow_data_loss=allow_data_loss,
        compress=compress,
        drift=drift,
        options=training_options(
            optimizer, lr=lr, seed=seed, dtype=dtype, mixed_precision=mixed_precision, freeze=tuple(freeze)
        ),
    )
    known_profile, known_cluster = inputs_of(plan, profile, cluster)
    session = prepare(plan, known_profile, known_cluster, request, Path(folder))
    return Supervisor(session, lambda _: None).run(lambda _: None, lambda _: None)
