"""What a Python program calls: load files, make plans, estimate and run them. Imports what it needs when called."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmette.errors import ArgumentFault, InputError
from palmette.spec.display import Displayed, render_html_with

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.data import Dataset

    from palmette.control.pilot.pilot import PilotProgress
    from palmette.control.prune import Compression
    from palmette.control.run.callbacks import RunCallback
    from palmette.control.what_if import PlanVariant
    from palmette.cost.optimizer import OptimizerCost
    from palmette.plan.core.comparison import Comparison
    from palmette.runtime.options import (
        Dtype,
        OptimizerFactory,
        Options,
        ParameterGroups,
        Precision,
        ScheduleFactory,
        ScheduleName,
    )
    from palmette.runtime.training.job import RunOutcome
    from palmette.spec.cluster import Cluster
    from palmette.spec.estimate import Estimate
    from palmette.spec.goal import Goal
    from palmette.spec.learning import Learning
    from palmette.spec.measurements import Measurements
    from palmette.spec.plan import InputAs, Plan
    from palmette.spec.profile import Profile
    from palmette.spec.sync import OuterOptimizer
    from palmette.zoo.adapters import Adapters
    from palmette.zoo.recipes.recipe import Recipe

    Data = str | Dataset[Any] | tuple[Dataset[Any], Dataset[Any]]
    Model = str | nn.Module | Recipe

File = str | PathLike[str]
Progress = Callable[[str, float], None]
MOST_SAMPLES = 10**12


def _html(shown: Displayed) -> str:
    from palmette.report.notebook.views import html_of

    return html_of(shown)


render_html_with(_html)  # in notebooks, from now on


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
    profile: Profile | Model | None = None,
    cluster: Cluster | None = None,
    batch: int = 32,
    goal: str | Goal | None = None,
    optimizer: str | None = None,
    accumulate: int | None = None,
    dtype: str | None = None,
    seed: int = 0,
    epochs: int | None = None,
    input_as: InputAs = "stored",
    exchange_codec: str = "none",
    overlap: bool = False,
    robust: float | None = None,
    freeze: Sequence[str] = (),
    precision: Precision | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Plan:
    """The plan of a strategy: which node computes which layers on which samples, and what it costs.

    ``profile`` may also be a recipe, a module or the name of a network, which is then profiled on the cluster first;
    ``progress`` is called with the layer at hand and the fraction that is done, and ``freeze`` and ``precision`` are
    those of ``profile``; the precision is the recipe's if it is not given. ``optimizer`` is the recipe's, else
    ``"sgd"``, if it is not given; so is ``accumulate``, how many iterations' gradients make one update. With a
    ``dtype`` of ``"float64"``, sizes and memory are those of training in double precision.
    ``goal`` is what to minimise (``"time"``, ``"energy"``, ``"power"``, ``"edp"``, ``"cost"``, ``"carbon"``, a weighted
    sum such as ``"0.3*time+0.7*energy"``, or a ``Goal`` with deadlines); each strategy has its own default. ``epochs``
    is how long the plan will be used, uploads included. With ``input_as="tensor"`` samples travel as the numbers that
    the network takes, as the papers count them, else as they are stored. ``exchange_codec`` is how gradients of
    replicas travel: ``"none"``, ``"bf16"``, ``"int8"``, ``"topk:0.01"`` (a ratio) or ``"lowrank:2"`` (a rank). With
    ``overlap`` they do so while backward goes on, where that is faster. With ``robust=0.9``, links that vary
    (``bandwidth_trace``) count as what they reach in nine of ten moments, else as their mean. ``options`` are the
    strategy's own. Strategies that take tables of their own need no profile and cluster; such a plan has no estimate.

    Raises:
        InputError: an unknown strategy or option, or an input that it needs is missing.
        Infeasible: no plan can meet the goal.
    """
    from palmette.cost.number_width import in_float_type
    from palmette.plan.core.comparison import planned
    from palmette.plan.core.make_plan import configured, make_plan
    from palmette.plan.core.strategy import Ask, Task
    from palmette.spec.exchange import known_exchange
    from palmette.spec.plan import Inputs

    chosen = configured(strategy, options)
    inputs: dict[str, Any] = {"batch": _checked_batch(batch), "goal": _goal(goal or chosen.default_goal)}
    inputs |= {"optimizer": _cost_of(profile, optimizer, accumulate)}
    inputs |= {"seed": seed, "epochs": epochs, "input_as": input_as, "robust": robust}
    inputs |= {"exchange": known_exchange(exchange_codec), "overlap": overlap}
    profile = _profiled(profile, cluster, progress, freeze, precision)
    profile = profile if profile is None or dtype is None else in_float_type(profile, dtype)
    if profile is not None and cluster is not None:
        task = Task(profile=profile, cluster=cluster, **inputs)
        if chosen.plans_epochs or task.goal.loss is None or options.get("learning") is None:
            return make_plan(chosen, task)
        return planned(strategy, task, options).model_copy(update={"inputs": Inputs(cluster=cluster, profile=profile)})
    return make_plan(chosen, Ask(profile=profile, cluster=cluster, **inputs))


def compare(
    *,
    profile: Profile | Model,
    cluster: Cluster,
    batch: int = 32,
    goal: str | Goal = "time",
    optimizer: str | None = None,
    accumulate: int | None = None,
    dtype: str | None = None,
    seed: int = 0,
    epochs: int | None = None,
    input_as: InputAs = "stored",
    exchange_codec: str = "none",
    overlap: bool = False,
    freeze: Sequence[str] = (),
    precision: Precision | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """The plans of every strategy that applies, best first by the goal, and why the others have none.

    Strategies plan in parallel, each in a process of its own. ``profile``, ``optimizer``, ``accumulate``, ``dtype``,
    ``epochs``, ``input_as``, ``exchange_codec``, ``overlap``, ``freeze``, ``precision`` and ``progress`` are those of
    ``plan``; ``options`` go to every strategy that has them.

    Raises:
        InputError: the goal or the batch cannot be used.
    """
    from palmette.cost.number_width import in_float_type
    from palmette.plan.core.comparison import compare as compare_plans
    from palmette.plan.core.strategy import Task
    from palmette.spec.exchange import known_exchange

    inputs: dict[str, Any] = {"batch": _checked_batch(batch), "goal": _goal(goal)}
    inputs |= {"optimizer": _cost_of(profile, optimizer, accumulate)}
    known = _profiled(profile, cluster, progress, freeze, precision)
    assert known is not None
    known = known if dtype is None else in_float_type(known, dtype)
    task = Task(
        profile=known,
        cluster=cluster,
        **inputs,
        seed=seed,
        epochs=epochs,
        input_as=input_as,
        exchange=known_exchange(exchange_codec),
        overlap=overlap,
    )
    return compare_plans(task, options)


def _cost_of(found: Profile | Model | None, optimizer: str | None, accumulate: int | None) -> str | OptimizerCost:
    """What an optimizer costs, by its name, else that of the recipe that a model is.

    Raises:
        InputError: there is no such optimizer, or the recipe cannot be imported.
    """
    from palmette.cost.optimizer import accumulating

    return accumulating(optimizer or _optimizer_of(found), accumulate)


def _optimizer_of(found: Profile | Model | None) -> str | OptimizerCost:
    """The optimizer of a recipe that says one, as a run of it has it; plain SGD for everything else.

    Raises:
        InputError: the recipe cannot be imported, or its optimizer cannot be used.
    """
    options = _options_of(found)
    if options is None:
        return "sgd"
    from palmette.control.run.recipes import divisor_varies
    from palmette.runtime.optimizer_choice import optimizer_cost
    from palmette.zoo.recipes.recipe import Recipe

    assert isinstance(found, str | Recipe), "a recipe, or its name"
    return replace(optimizer_cost(options), divisor_varies=divisor_varies(found))


def _options_of(found: Profile | Model | None) -> Options | None:
    """How the recipe that a model is trains it; None where it is none.

    Raises:
        InputError: the recipe cannot be imported, or its options cannot be used.
    """
    from palmette.spec.profile import Profile

    if found is None or isinstance(found, Profile):
        return None
    from palmette.control.run.request import training_options
    from palmette.measure.profiling import recipe_data_of
    from palmette.zoo.recipes.loading import load_recipe

    recipe = recipe_data_of(found)
    recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
    return None if recipe is None else training_options(recipe)


def _profiled(
    found: Profile | Model | None,
    cluster: Cluster | None,
    progress: Progress | None,
    freeze: Sequence[str],
    precision: Precision | None,
) -> Profile | None:
    """The profile itself, or that of a network on the cluster.

    Raises:
        InputError: a network, but no cluster, or one with nodes that can neither be measured nor predicted, or a
            profile together with what one is made with.
    """
    from palmette.spec.profile import Profile

    if found is None or isinstance(found, Profile):
        asked = [("freeze", ", ".join(freeze)), ("precision", precision)]
        expected = "a profile was made with its own; expected this with a recipe"
        if wrong := [ArgumentFault(name, value, expected) for name, value in asked if value]:
            raise InputError(wrong)
        return found
    if cluster is None:
        raise InputError(ArgumentFault("cluster", "missing", "expected one, to profile the network on"))
    options = _options_of(found)
    if precision is None and options is not None:
        precision = options.autocast
    told = progress or (lambda *_: None)
    return profile(found, cluster=cluster, freeze=freeze, precision=precision, progress=told)


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
    optimizer: str = "sgd",
    accumulate: int | None = None,
    dtype: str | None = None,
    timeline: bool = False,
    epochs: int | None = None,
    input_as: InputAs | None = None,
    moment_s: float | None = None,
) -> Estimate:
    """What a plan costs: seconds and joules of an iteration and of the whole training, and each node's part.

    Profile and cluster are those in the plan unless they are given. ``timeline`` adds every operation
    with its start and end. ``epochs`` is how long a plan will be used that does not say so itself, ``input_as`` how
    samples travel instead of what it says. ``accumulate`` and ``dtype`` are those of ``plan``. Links that vary have
    their mean bandwidth, or, with ``moment_s``, what their traces say from that moment on.

    Raises:
        InputError: the plan has no inputs and none are given, or it cannot be executed; holds every reason.
    """
    from palmette.cost.estimate import estimate as price
    from palmette.cost.number_width import in_float_type
    from palmette.cost.optimizer import accumulating
    from palmette.plan.core.used import used_as
    from palmette.spec.plan import inputs_of

    profile, cluster = inputs_of(plan, profile, cluster)
    plan, profile, cluster = used_as(plan, profile, cluster, epochs, input_as)
    profile = profile if dtype is None else in_float_type(profile, dtype)
    cost = accumulating(optimizer, accumulate)
    return price(plan, profile, cluster, optimizer=cost, timeline=timeline, epochs=epochs, moment_s=moment_s)


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

    ``links`` are other bandwidths, such as ``{"phone-server": "50 Mbit/s"}``, ``without`` are nodes that are not there.
    Each variant has the estimate of the plan as it is (``kept``) and the plan that its strategy makes instead
    (``planned``), or in their place the error that says why that is not possible.

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


def profile(
    model: str | nn.Module | Recipe,
    *,
    cluster: Cluster,
    on: Sequence[str] = (),
    input_shape: tuple[int, ...] | None = None,
    data: Data | None = None,
    input_as: InputAs = "stored",
    engine: str = "local",
    listen: str | None = None,
    keys: File | None = None,
    variants: Sequence[float] = (),
    lora: str | Sequence[str] | None = None,
    rank: int | None = None,
    freeze: Sequence[str] = (),
    precision: Precision | None = None,
    mixed_precision: bool = False,
    progress: Progress = lambda *_: None,
) -> Profile:
    """What a network's layers cost on each node.

    Args:
        model: a network of the zoo, ``package.module:callable``, a module, or a recipe, as an object or by name.
        cluster: its nodes with ``host: local`` are measured here, those with ``hardware`` are predicted.
        on: further nodes that this machine is measured for.
        input_shape: the shape of one sample, where the network does not say it.
        data: the data to train on, by name, as a map-style data set, or as a pair of them (to train on, and held out):
            the profile has the size of a stored sample, and the time of decoding one. A recipe has its own.
        input_as: ``"tensor"`` if samples are to travel as tensors of the network's input: ``data`` adds nothing.
        engine: ``"ray"`` measures on every node that is a host of the Ray cluster, ``"hub"`` on every one whose worker
            dials in.
        listen: where engine hub waits for workers, ``"host:port"``.
        keys: its folder of keys.
        variants: fractions of its parameters to prune: the smaller networks are profiled, too.
        lora: names of modules that get LoRA adapters, such as ``"q_proj,v_proj"``; everything else is frozen. Needs
            peft. Plans of this profile, and their runs, have them, too.
        rank: the rank of the adapters, 8 if not given.
        freeze: patterns of weights or layers not to train, such as ``"conv1.*"``, as ``pt.run`` takes them.
        precision: measure layers in ``"bf16"`` or ``"fp16"``, as ``pt.run`` of the same precision computes them.
        mixed_precision: the same as ``precision="bf16"``.
        progress: called with the layer at hand and the fraction that is done.

    Raises:
        InputError: the network or the data cannot be loaded, or a node can neither be measured nor predicted.
    """
    from palmette.control.run.engines import refuse_listen, refuse_unknown
    from palmette.measure.hosts import measure_times_on_hosts, prober_of
    from palmette.measure.profiling import load_samples, profile_network, recipe_data_of
    from palmette.runtime.options import checked_precision
    from palmette.zoo.freezing import frozen_network, refuse_all_frozen
    from palmette.zoo.models import load_network
    from palmette.zoo.recipes.objects import recipe_with

    refuse_unknown("engine", engine)
    refuse_listen(engine, listen)
    adapters = _adapters_of(model, lora, rank)
    if data is None or isinstance(data, str):
        network = load_network(model, input_shape, seed=0, adapters=adapters)
        samples = load_samples(network, recipe_data_of(model) if data is None else data, input_as)
    else:
        recipe = recipe_with(model, data)
        network = load_network(recipe, input_shape, seed=0, adapters=adapters)
        samples = load_samples(network, recipe, input_as)
        network = replace(network, name=_model_name(model, adapters))
    network = frozen_network(network, freeze)
    if freeze:
        refuse_all_frozen(network.name, network.layers)
    computed_in = checked_precision(precision, mixed=mixed_precision)
    prober = prober_of(engine, cluster, on, listen=listen, keys=None if keys is None else Path(keys))
    elsewhere = {}
    if prober is not None:
        name = _named(model, adapters)
        elsewhere = measure_times_on_hosts(
            prober, name, cluster, input_shape, variants, freeze=freeze, precision=computed_in
        )
    return profile_network(
        network, cluster, on, progress, elsewhere, variants=variants, samples=samples, precision=computed_in
    )


_profile = profile  # where an argument has its name


def pilot(
    model: Model,
    folder: File,
    *,
    cluster: Cluster,
    data: Data | None = None,
    profile: Profile | None = None,
    batch: int = 32,
    epochs: int = 10,
    fractions: Sequence[float] = (1.0, 0.5, 0.25),
    replicas: Sequence[int] = (1, 2),
    each_source: bool = False,
    windows: Sequence[int] = (1,),
    outer: OuterOptimizer | None = None,
    optimizer: str | OptimizerFactory | None = None,
    lr: float | None = None,
    seed: int = 0,
    lora: str | Sequence[str] | None = None,
    rank: int | None = None,
    input_shape: tuple[int, ...] | None = None,
    engine: str = "local",
    transport: str = "",
    keys: File | None = None,
    hub: str | None = None,
    listen: str | None = None,
    insecure: bool = False,
    trust_code: bool = False,
    progress: Callable[[PilotProgress], None] = lambda _: None,
) -> Learning:
    """The learning curve of a network, through short real runs that vary data, replicas and windows.

    Runs that the folder has already are not made again, and one that was interrupted continues. A script that calls
    this guards its main part with ``if __name__ == "__main__"``.

    Args:
        model: what ``profile`` takes.
        folder: where runs, ``profile.json`` and ``learning.json`` are written.
        cluster: says which sources there are; on ``engine="ray"`` also the hosts.
        data: as for ``run``.
        profile: of the cluster; measured if not given.
        batch: samples per iteration. A curve is that of its batch.
        epochs: of each run; at least 2.
        fractions: of the data that an epoch uses, each with each number of ``replicas``.
        replicas: numbers of instances of the first layer.
        each_source: also train on each source alone, where sources name data, to learn what their samples are worth.
        windows: steps that the most replicas take before they average their weights; 1 is ``step``.
        outer: what updates with the mean difference after longer windows; without it, the mean is what remains.
        optimizer: the recipe's if not given, else SGD; the same counts for the runs of later plans.
        lr: the learning rate.
        seed: of weights and batches.
        lora: names of modules that get LoRA adapters, as ``profile`` takes them.
        rank: their rank.
        input_shape: the shape of one sample, where the network does not say it.
        engine: ``"local"`` (this machine, as fast as it is), ``"ray"`` (hosts of a Ray cluster) or ``"hub"`` (workers
            that dial in).
        transport: as for ``run``, as are ``keys``, ``hub``, ``insecure`` and ``trust_code``.
        keys: the folder of keys for tls.
        hub: the node that relays messages for tls.
        listen: where engine hub waits for workers, ``"host:port"``.
        insecure: let nodes on other machines talk over gloo.
        trust_code: call the code that the cluster names.
        progress: called with a ``PilotProgress`` after each iteration.

    Raises:
        InputError: network, data, cluster or an argument do not fit, or the folder has a pilot of something else.
        RunError: a run failed; the same call continues.
    """
    from palmette.control.pilot.grid import PilotGrid
    from palmette.control.pilot.pilot import Pilot
    from palmette.control.pilot.request import PilotRequest
    from palmette.control.run.data import COMMON
    from palmette.control.run.recipes import requested_recipe
    from palmette.control.run.request import options_of_beginning
    from palmette.control.run.trust import cluster_code, refuse_untrusted
    from palmette.spec.files import write_text
    from palmette.zoo.recipes.objects import recipe_from_objects
    from palmette.zoo.recipes.recipe import Recipe

    typed = [data] if isinstance(data, str) else []
    refuse_untrusted({"": cluster_code(cluster)}, trust=trust_code, typed=typed)
    if profile is None:
        profile = _profile(
            model,
            cluster=cluster,
            data=data,
            engine=engine,
            keys=keys,
            listen=listen,
            input_shape=input_shape,
            lora=lora,
            rank=rank,
        )
    name = _model_name(model, _adapters_of(model, lora, rank))
    recipe = model if isinstance(model, Recipe) else None
    module = None if isinstance(model, str | Recipe) else model
    training, data_name = recipe_from_objects(name, recipe, module, data, COMMON)
    request = PilotRequest(
        model=name,
        recipe=training,
        data=data_name,
        batch=batch,
        epochs=epochs,
        grid=PilotGrid(
            fractions=tuple(fractions),
            replicas=tuple(replicas),
            each_source=each_source,
            windows=tuple(windows),
            outer=outer,
        ),
        engine=engine,
        transport=transport,
        keys=None if keys is None else str(keys),
        hub=hub,
        listen=listen,
        insecure=insecure,
        input_shape=input_shape,
        options=options_of_beginning(requested_recipe(name, training), optimizer=optimizer, lr=lr, seed=seed),
    )
    made = Pilot(request, cluster, profile, Path(folder))
    write_text(made.folder / "profile.json", profile.to_json())
    return made.run(progress)


def run(
    plan: Plan,
    folder: File,
    *,
    profile: Profile | None = None,
    cluster: Cluster | None = None,
    recipe: str | Recipe | None = None,
    model: nn.Module | Callable[[], nn.Module] | None = None,
    data: Data | None = None,
    iterations: int | None = None,
    epochs: int | None = None,
    optimizer: str | OptimizerFactory | None = None,
    lr: float | None = None,
    weight_decay: float | None = None,
    momentum: float | None = None,
    nesterov: bool | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
    groups: ParameterGroups | None = None,
    schedule: ScheduleName | ScheduleFactory | None = None,
    warmup: int | None = None,
    clip_norm: float | None = None,
    accumulate: int | None = None,
    early_stop: str | None = None,
    seed: int = 0,
    dtype: Dtype = "float32",
    precision: Precision | None = None,
    loss_scale: float = 1024.0,
    mixed_precision: bool = False,
    freeze: Sequence[str] = (),
    lora: str | Sequence[str] | None = None,
    rank: int | None = None,
    init: File | None = None,
    keep_samples: File | None = None,
    compress: Compression | None = None,
    input_shape: tuple[int, ...] | None = None,
    engine: str = "local",
    testbed: str = "",
    dilation: float | None = None,
    transport: str = "",
    keys: File | None = None,
    hub: str | None = None,
    insecure: bool = False,
    trust_code: bool = False,
    listen: str | None = None,
    replan: bool = True,
    drift: float = 0.5,
    allow_data_loss: bool = False,
    cluster_file: File | None = None,
    callbacks: Sequence[RunCallback | object] = (),
    progress: bool | None = None,
    track: str | Sequence[str] = (),
    meter: Sequence[str] = (),
    force: bool = False,
    patience_s: float = 86400.0,
    trace: str = "summed",
) -> RunOutcome:
    """Execute a plan: train the network. A script that calls this guards its main part with
    ``if __name__ == "__main__"``, as everywhere where processes are started.

    Args:
        plan: what to execute.
        folder: where to write what the run leaves: ``run.json``, weights, metrics, trace, checkpoints.
        profile: instead of the one in the plan.
        cluster: instead of the one in the plan.
        recipe: the training, as an object or by name: network, data and loss; that of the plan if its model is one.
            What it says of the optimizer and so on counts where the arguments below are not given.
        model: the network, where the plan was made for a module that was an object; trained with cross-entropy.
        data: what sources without data of their own draw from, ``"digits"`` if not given; where all sources name
            data, only what the network is evaluated on. A name, a map-style data set, or a pair of them (to train on,
            and held out).
        iterations: how many batches to train; not together with ``epochs``.
        epochs: how many passes over the data; as in the plan if neither is given.
        optimizer: a class of ``torch.optim`` by name, such as ``"adamw"``, ``"momentum"`` (SGD with a momentum of 0.9),
            or a callable that takes weights or parameter groups and returns an optimizer, such as
            ``functools.partial(torch.optim.AdamW, betas=(0.9, 0.95))``. It must need gradients alone. SGD if not given.
        lr: the learning rate; the default depends on the optimizer.
        weight_decay: as the optimizer has it; its own default if not given.
        momentum: as the optimizer has it; its own default if not given.
        nesterov: Nesterov's momentum.
        optimizer_options: further options of the optimizer by name.
        groups: options of the optimizer for weights whose names match a pattern, such as
            ``{"*.bias": {"weight_decay": 0}}``; of several patterns that match, the first counts.
        schedule: the learning rate over the run: ``"constant"`` (if not given), ``"linear"`` or ``"cosine"``, both down
            to 0 at the end, or a callable that takes the optimizer and returns an ``LRScheduler`` that needs no metric;
            it takes a step in every iteration.
        warmup: iterations in which the learning rate rises to its value.
        clip_norm: scale gradients down where the norm of all of them exceeds this.
        accumulate: how many iterations' mean gradient makes one update.
        early_stop: ``"loss:3"``, ``"accuracy:3"``, or a recipe's metric as ``"f1:3:max"`` or ``"error:3:min"``: stop
            when that was not better in three evaluations in a row.
        seed: of weights, batches and shards.
        dtype: type of the weights.
        precision: compute in ``"bf16"`` or ``"fp16"``, with weights of ``dtype``.
        loss_scale: for fp16, the factor of gradients on their way through the network.
        mixed_precision: compute in bfloat16, as ``precision="bf16"``.
        freeze: patterns of weights or layers not to train, such as ``"conv1.*"``.
        lora: the adapters of the plan's network, as ``pt.profile`` takes them; may be left out.
        rank: their rank.
        init: weights to start from (safetensors).
        keep_samples: a folder, on each host, where nodes keep samples of others for the next run, too; otherwise they
            are deleted when the run is done.
        compress: how smaller models are made, instead of as in the plan.
        input_shape: the shape of one sample, where the network does not say it.
        engine: ``"local"`` (processes on this machine) or ``"ray"`` (hosts of a Ray cluster).
        testbed: ``"paced"`` (default) or ``"namespaces"`` emulate the cluster; ``"none"`` does not, as always on ray.
        dilation: the factor by which emulated time is slowed down; chosen if not given.
        transport: ``"gloo"`` (default) on a trusted network, ``"tls"`` on any other.
        keys: the folder of keys for tls; keys are created for the run if not given.
        hub: the node that relays messages for tls; chosen if not given.
        insecure: let nodes on other machines talk over gloo: not encrypted, and whoever is on the network can join in.
        trust_code: import and call the code that plan and cluster name as ``package.module:callable``; what other
            arguments name is trusted.
        listen: where engine ``"hub"`` waits for workers, host:port.
        replan: plan again when a node is lost or joins, instead of stopping.
        drift: plan again when a link's bandwidth is off by this fraction.
        allow_data_loss: continue without a lost node even if its data is lost too.
        cluster_file: a cluster file to watch for nodes that join or leave.
        callbacks: objects with methods of ``RunCallback``, called while it runs; one may raise ``StopTraining``.
        progress: whether to show a progress bar; if not given, in notebooks and where stderr is a terminal.
        track: where to log the run, too: ``"tensorboard:DIR"``, ``"mlflow:URI"``, ``"wandb:PROJECT"``, each also
            without what stands behind the colon; one or several.
        meter: power meters of nodes, ``"phone=replay:plug.csv"`` or, of this machine, ``"phone=zeus"``.
        patience_s: for how long workers keep their state for ``palmette run --resume`` when this process has died.
        trace: ``"summed"``: ``trace.jsonl`` has all operations of some iterations, and sums of the others; ``"full"``:
            all operations of all.
        force: replace the run that the folder holds; otherwise such a folder is refused.

    Raises:
        InputError: the plan cannot be executed, network, data or an argument do not fit, or the folder is taken.
        RunError: it stopped before its end, or a callback failed; the last checkpoint remains in the folder.
    """
    from palmette.control.adapt.supervise import Supervisor
    from palmette.control.progress.choice import shown_progress
    from palmette.control.run.callbacks import refuse_other_callbacks
    from palmette.control.run.data import COMMON
    from palmette.control.run.recipes import refuse_other_adapters, requested_recipe
    from palmette.control.run.request import Request, training_options
    from palmette.control.run.session import prepare
    from palmette.control.run.trust import cluster_code, plan_code, refuse_untrusted
    from palmette.control.run.validation import refuse_unrunnable
    from palmette.cost.estimate import evaluator
    from palmette.spec.plan import inputs_of
    from palmette.zoo.recipes.objects import recipe_from_objects

    refuse_other_callbacks(callbacks)
    refuse_other_adapters(plan.model, lora, rank)
    for_profile, for_cluster = inputs_of(plan, profile, cluster)
    refuse_unrunnable(plan, evaluator(for_profile, for_cluster))
    planned = plan_code(plan) if recipe is None and model is None else set()
    typed = [data] if isinstance(data, str) else []
    refuse_untrusted({"": planned | cluster_code(for_cluster)}, trust=trust_code, typed=typed)
    training, data_name = recipe_from_objects(plan.model, recipe, model, data, COMMON)
    request = Request(
        recipe=training,
        data=data_name,
        iterations=iterations,
        epochs=epochs,
        engine=engine,
        testbed=testbed,
        transport=transport,
        keys=None if keys is None else str(keys),
        hub=hub,
        insecure=insecure,
        listen=listen,
        dilation=dilation,
        input_shape=input_shape,
        init=None if init is None else str(init),
        keep_samples=None if keep_samples is None else str(Path(keep_samples).absolute()),
        cluster_file=None if cluster_file is None else str(Path(cluster_file).absolute()),
        replan=replan,
        allow_data_loss=allow_data_loss,
        compress=compress,
        drift=drift,
        track=(track,) if isinstance(track, str) else tuple(track),
        meter=tuple(meter),
        patience_s=patience_s,
        trace=trace,
        options=training_options(
            requested_recipe(plan.model, training),
            optimizer=optimizer,
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            optimizer_options=optimizer_options,
            groups=groups,
            schedule=schedule,
            warmup=warmup,
            clip_norm=clip_norm,
            accumulate=accumulate,
            early_stop=early_stop,
            seed=seed,
            dtype=dtype,
            precision=precision,
            loss_scale=loss_scale,
            mixed_precision=mixed_precision,
            freeze=tuple(freeze),
        ),
    )
    session = prepare(plan, for_profile, for_cluster, request, Path(folder), force=force)
    for warning in session.warnings:
        warnings.warn(warning, stacklevel=2)
    with shown_progress(progress) as displays:
        return Supervisor(session, [*displays, *callbacks]).run()


def _adapters_of(model: Model, lora: str | Sequence[str] | None, rank: int | None) -> Adapters | None:
    """The adapters of a network, by its name or as they are given.

    Raises:
        InputError: they cannot be used, or the two differ.
    """
    from palmette.zoo.adapters import requested_adapters, same_adapters, split_adapters

    base, named = split_adapters(model) if isinstance(model, str) else ("", None)
    return same_adapters(named, requested_adapters(lora, rank), base)


def _model_name(model: Model, adapters: Adapters | None) -> str:
    """What a network is called: by its name, or by what it is; with its adapters."""
    from palmette.zoo.adapters import split_adapters
    from palmette.zoo.models import UNNAMED
    from palmette.zoo.recipes.recipe import Recipe

    unnamed = UNNAMED if isinstance(model, Recipe) else type(model).__name__
    base = split_adapters(model)[0] if isinstance(model, str) else unnamed
    return base if adapters is None else adapters.named(base)


def _named(model: str | nn.Module | Recipe, adapters: Adapters | None) -> str:
    """A network's name, by which other hosts find it.

    Raises:
        InputError: it has none.
    """
    if isinstance(model, str):
        return _model_name(model, adapters)
    expected = "other hosts find a network by its name; expected one"
    raise InputError(ArgumentFault("model", type(model).__name__, expected))
