"""The learning curve of a network, through short real runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.api.arguments import Data, File, Model
    from palmette.control.pilot.pilot import PilotProgress
    from palmette.runtime.options import OptimizerFactory, ScheduleFactory, ScheduleName
    from palmette.spec.cluster import Cluster
    from palmette.spec.learning import Learning
    from palmette.spec.profile import Profile
    from palmette.spec.sync import OuterOptimizer


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
    exchange_codecs: Sequence[str] = (),
    output_codecs: Sequence[str] = (),
    optimizer: str | OptimizerFactory | None = None,
    lr: float | None = None,
    schedule: ScheduleName | ScheduleFactory | None = None,
    warmup: int | None = None,
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
    """The learning curve of a network, through short real runs that vary data, replicas, windows and codecs.

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
        exchange_codecs: of gradients and, with longer ``windows``, of differences, as ``plan`` takes them.
        output_codecs: of layer outputs: ``"int8"``, ``"int4"`` or ``"int4-delta"``.
        optimizer: the recipe's if not given, else SGD; the same counts for the runs of later plans.
        lr: the learning rate.
        schedule: the learning rate over a run, as for ``run``; the recipe's if not given. With ``"linear"`` and
            ``"cosine"``, each fraction of the data also has runs of half and of a quarter of the ``epochs``.
        warmup: iterations in which the learning rate rises to its value; the recipe's if not given.
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
    from palmette.api.model_names import adapters_of, model_name
    from palmette.api.profile import profile as measure_profile
    from palmette.control.pilot.grid import PilotGrid
    from palmette.control.pilot.pilot import Pilot
    from palmette.control.pilot.request import PilotRequest
    from palmette.control.run.data import COMMON
    from palmette.control.run.recipes import requested_recipe
    from palmette.control.run.request import options_of_pilot
    from palmette.control.run.trust import cluster_code, refuse_untrusted
    from palmette.spec.codec import known_codec
    from palmette.spec.exchange import known_exchange
    from palmette.spec.files import write_text
    from palmette.zoo.recipes.objects import recipe_from_objects
    from palmette.zoo.recipes.recipe import Recipe

    typed = [data] if isinstance(data, str) else []
    refuse_untrusted({"": cluster_code(cluster)}, trust=trust_code, typed=typed)
    if profile is None:
        profile = measure_profile(
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
    name = model_name(model, adapters_of(model, lora, rank))
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
            exchange_codecs=tuple(map(known_exchange, exchange_codecs)),
            output_codecs=tuple(map(known_codec, output_codecs)),
        ),
        engine=engine,
        transport=transport,
        keys=None if keys is None else str(keys),
        hub=hub,
        listen=listen,
        insecure=insecure,
        input_shape=input_shape,
        options=options_of_pilot(
            requested_recipe(name, training), optimizer=optimizer, lr=lr, schedule=schedule, warmup=warmup, seed=seed
        ),
    )
    made = Pilot(request, cluster, profile, Path(folder))
    write_text(made.folder / "profile.json", profile.to_json())
    return made.run(progress)
