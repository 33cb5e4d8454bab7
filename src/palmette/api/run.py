"""Executes a plan: trains the network."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from palmette.api.arguments import Data, File
    from palmette.control.prune import Compression
    from palmette.control.run.callbacks import RunCallback
    from palmette.runtime.options import (
        Dtype,
        OptimizerFactory,
        ParameterGroups,
        Precision,
        ScheduleFactory,
        ScheduleName,
    )
    from palmette.runtime.training.job import RunOutcome
    from palmette.spec.cluster import Cluster
    from palmette.spec.plan import Plan
    from palmette.spec.profile import Profile
    from palmette.zoo.recipes.recipe import Recipe


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
    stop_at: str | None = None,
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
        stop_at: ``"loss:0.3"``, ``"accuracy:0.9"``, or a recipe's metric as ``"f1:0.8:max"``: stop when held-out data
            has reached it.
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
        engine: ``"local"`` (processes on this machine), ``"ray"`` (hosts of a Ray cluster) or ``"hub"`` (workers
            that dial in).
        testbed: ``"paced"`` (default) or ``"namespaces"`` emulate the cluster; ``"none"`` does not, as always on
            ray and hub.
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
            stop_at=stop_at,
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
