"""What a network's layers cost on each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.api.arguments import Data, File, Model, Progress
    from palmette.runtime.options import Precision
    from palmette.spec.cluster import Cluster
    from palmette.spec.plan import InputAs
    from palmette.spec.profile import Profile


def profile(
    model: Model,
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
    from palmette.api.model_names import adapters_of, model_name, name_for_hosts
    from palmette.control.run.engines import refuse_listen
    from palmette.control.run.known_names import refuse_unknown
    from palmette.measure.hosts import measure_times_on_hosts, prober_of
    from palmette.measure.profiling import load_samples, profile_network, recipe_data_of
    from palmette.runtime.options import checked_precision
    from palmette.zoo.freezing import frozen_network, refuse_all_frozen
    from palmette.zoo.models import load_network
    from palmette.zoo.recipes.objects import recipe_with

    refuse_unknown("engine", engine)
    refuse_listen(engine, listen)
    adapters = adapters_of(model, lora, rank)
    if data is None or isinstance(data, str):
        network = load_network(model, input_shape, seed=0, adapters=adapters)
        samples = load_samples(network, recipe_data_of(model) if data is None else data, input_as)
    else:
        recipe = recipe_with(model, data)
        network = load_network(recipe, input_shape, seed=0, adapters=adapters)
        samples = load_samples(network, recipe, input_as)
        network = replace(network, name=model_name(model, adapters))
    network = frozen_network(network, freeze)
    if freeze:
        refuse_all_frozen(network.name, network.layers)
    computed_in = checked_precision(precision, mixed=mixed_precision)
    prober = prober_of(engine, cluster, on, listen=listen, keys=None if keys is None else Path(keys))
    elsewhere = {}
    if prober is not None:
        name = name_for_hosts(model, adapters)
        elsewhere = measure_times_on_hosts(
            prober, name, cluster, input_shape, variants, freeze=freeze, precision=computed_in
        )
    return profile_network(
        network, cluster, on, progress, elsewhere, variants=variants, samples=samples, precision=computed_in
    )
