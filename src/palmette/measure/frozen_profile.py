"""A profile of a network of which more is frozen than when it was profiled.

``palmette run --freeze`` may freeze what was trained when layers were measured. Sizes are exact then: they follow from
which weights are left. Times are modelled like those of hardware that is predicted: no backward where nothing learns,
half of one where only gradients pass through, updates in proportion to what is updated. ``palmette profile --freeze``
measures them.
"""

from __future__ import annotations

from collections.abc import Sequence

from palmette.measure.layer_sizes import shared_weights, weight_shapes
from palmette.measure.roofline import backward_part
from palmette.spec.profile import Layer, Profile, Table, Times
from palmette.zoo.capture import NetworkLayer
from palmette.zoo.models import Network


def with_frozen(profile: Profile, network: Network) -> Profile:
    """The profile for a network with the same layers, of which fewer weights may be trained; itself if none are."""
    if not any(map(_freezes, profile.layers, network.layers)):
        return profile
    shared = shared_weights(network)
    tied = {tie.names[0] for tie in shared.values()}
    tables = {key: _table(table, network.layers, tied) for key, table in profile.variants.items()}
    whole = _table(profile, network.layers, tied)
    if all(layer.weight_shapes is not None for layer in profile.layers):
        whole = _with_shapes(whole, [weight_shapes(layer, shared) for layer in network.layers])
    update = {"layers": whole.layers, "nodes": whole.nodes, "ties": whole.ties, "variants": tables}
    return profile.model_copy(update=update)


def _table(table: Table, found: Sequence[NetworkLayer], tied: set[str]) -> Table:
    layers = tuple(map(_layer, table.layers, found))
    backward = [_ratio(backward_part(new), backward_part(old)) for new, old in zip(layers, table.layers, strict=True)]
    updates = [_ratio(new.learned_bytes, old.learned_bytes) for new, old in zip(layers, table.layers, strict=True)]
    nodes = {name: _times(times, backward, updates) for name, times in table.nodes.items()}
    ties = tuple(tie for tie in table.ties if tie.name in tied)
    return Table(layers=layers, nodes=nodes, ties=ties)


def _layer(known: Layer, found: NetworkLayer) -> Layer:
    if not _freezes(known, found):
        return known
    part = _ratio(sum(spec.sample_bytes for spec in found.outputs if spec.gradient), _output_bytes(found))
    gradient_bytes = min(known.returned_bytes, part * known.output_bytes)
    sizes = {"trainable_bytes": _trained_bytes(known, found), "gradient_bytes": gradient_bytes}
    return known.model_copy(update={**sizes, "weight_shapes": None})


def _with_shapes(table: Table, shapes: Sequence[tuple[tuple[int, ...], ...]]) -> Table:
    layers = [layer.model_copy(update={"weight_shapes": own}) for layer, own in zip(table.layers, shapes, strict=True)]
    return table.model_copy(update={"layers": tuple(layers)})


def _freezes(known: Layer, found: NetworkLayer) -> bool:
    """Whether less is trained in a layer, or less comes back from it, than a profile says."""
    stops = known.returned_bytes > 0 and not any(spec.gradient for spec in found.outputs)
    return stops or _trained_bytes(known, found) < known.learned_bytes * (1 - 1e-9)


def _trained_bytes(known: Layer, found: NetworkLayer) -> float:
    """Bytes of the weights that are trained; in proportion, since a variant has fewer and a run may have wider ones."""
    weights = list(found.module.parameters())
    trained = sum(weight.numel() for weight in weights if weight.requires_grad)
    return min(known.learned_bytes, known.parameter_bytes * _ratio(trained, sum(weight.numel() for weight in weights)))


def _output_bytes(found: NetworkLayer) -> float:
    return sum(spec.sample_bytes for spec in found.outputs)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _times(times: Times, backward: Sequence[float], updates: Sequence[float]) -> Times:
    calls_s, input_s, backward_s = times.backward_call_s, times.backward_input_s, _scaled(times.backward_s, backward)
    return times.model_copy(
        update={
            "backward_s": backward_s,
            "backward_input_s": None if input_s is None else tuple(map(min, input_s, backward_s)),
            "backward_call_s": None if calls_s is None else _scaled(calls_s, backward),
            "update_s": _scaled(times.update_s, updates),
        }
    )


def _scaled(values: Sequence[float], factors: Sequence[float]) -> tuple[float, ...]:
    return tuple(value * factor for value, factor in zip(values, factors, strict=True))
