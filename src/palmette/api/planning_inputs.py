"""What ``plan`` and ``compare`` are given, as planners take it: a profile may be asked for by its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.api.arguments import Model, Progress
    from palmette.cost.optimizer import OptimizerCost
    from palmette.runtime.options import Options, Precision
    from palmette.spec.cluster import Cluster
    from palmette.spec.goal import Goal
    from palmette.spec.learning_rate import LearningRateSchedule
    from palmette.spec.profile import Profile

MOST_SAMPLES = 10**12


def planning_inputs(
    profile: Profile | Model | None,
    cluster: Cluster | None,
    *,
    batch: int,
    goal: str | Goal,
    optimizer: str | None,
    accumulate: int | None,
    dtype: str | None,
    exchange_codec: str,
    freeze: Sequence[str],
    precision: Precision | None,
    progress: Progress | None,
) -> dict[str, Any]:
    """The fields of a ``PlanRequest`` or a ``Task`` that need more than to be passed on.

    Raises:
        InputError: one of them cannot be used.
    """
    from palmette.cost.number_width import in_float_type
    from palmette.cost.optimizer import accumulating
    from palmette.spec.exchange import known_exchange

    inputs: dict[str, Any] = {"batch": _checked_batch(batch), "goal": _goal(goal)}
    inputs["optimizer"] = accumulating(optimizer or _optimizer_of(profile), accumulate)
    inputs["exchange"], inputs["schedule"] = known_exchange(exchange_codec), _schedule_of(profile)
    known = _profiled(profile, cluster, progress, freeze, precision)
    known = known if known is None or dtype is None else in_float_type(known, dtype)
    return inputs | {"profile": known, "cluster": cluster}


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


def _schedule_of(found: Profile | Model | None) -> LearningRateSchedule | None:
    """How a recipe changes the learning rate; None for everything else."""
    options = _options_of(found)
    if options is None:
        return None
    from palmette.control.run.callables import schedule_of

    return schedule_of(options.schedule, options.warmup)


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
    from palmette.api.profile import profile
    from palmette.spec.profile import Profile

    if found is None or isinstance(found, Profile):
        asked = [("freeze", ", ".join(freeze)), ("precision", precision)]
        expected = "a profile already has its own; expected it only with a recipe"
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
