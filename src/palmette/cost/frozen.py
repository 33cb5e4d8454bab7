"""What frozen weights save: the bytes that nodes would send each other if every weight were trained."""

from __future__ import annotations

from palmette.cost.evaluate import Evaluator, Price
from palmette.spec.plan import Phase
from palmette.spec.profile import Layer, Profile, Table


def frozen_bytes(profile: Profile) -> float:
    """Bytes of the weights that are not trained."""
    return sum(layer.parameter_bytes - layer.learned_bytes for layer in profile.layers)


def saved_bytes(phase: Phase, price: Price, prices: Evaluator) -> float | None:
    """Bytes that nodes send less in an epoch than if nothing were frozen; None where nothing is."""
    if not frozen_bytes(prices.profile):
        return None
    trained = Evaluator(_all_trained(prices.profile), prices.cluster, prices.optimizer, prices.exchange)
    return max(0.0, trained.price(phase).epoch.sent_bytes - price.epoch.sent_bytes)


def _all_trained(profile: Profile) -> Profile:
    variants = {key: _trained_table(table) for key, table in profile.variants.items()}
    return profile.model_copy(update={"layers": tuple(map(_trained, profile.layers)), "variants": variants})


def _trained_table(table: Table) -> Table:
    return table.model_copy(update={"layers": tuple(map(_trained, table.layers))})


def _trained(layer: Layer) -> Layer:
    """The layer as if all of its weights were trained, and those before it; integers have no gradient."""
    gradient_bytes = max(0.0, layer.output_bytes - layer.uncoded_bytes)
    shapes = layer.weight_shapes if layer.learned_bytes == layer.parameter_bytes else None
    found = {"trainable_bytes": None, "gradient_bytes": gradient_bytes, "weight_shapes": shapes}
    return layer.model_copy(update=found)
