"""A network by name: one of the zoo, in any variant, or the user's own.

    lenet5                        as published
    alexnet?classes=200&size=64   a variant: classes, size (pixels per side), channels
    package.module:callable       whatever nn.Module the callable returns
    package.module:recipe         the network of a recipe
    NAME?lora=q_proj&rank=8       any of these, with adapters

Either way the result is a ``Network``: consecutive layers, and the shape of what goes in.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from palmette.errors import Fault, InputError, expected_name
from palmette.zoo.adapters import Adapters, add_adapters, same_adapters, split_adapters
from palmette.zoo.capture import LayerChain, NetworkLayer, TensorSpec, as_bundle, cut
from palmette.zoo.capture.bundle import Bundle, Example, ModuleInput, module_input
from palmette.zoo.capture.trial_runs import one_at_a_time
from palmette.zoo.capture.wrapper import ModuleWrapper, describe_error
from palmette.zoo.casting import cast_floats
from palmette.zoo.data.collated import recipe_sources
from palmette.zoo.data.custom_source import call_user, fetched_pair
from palmette.zoo.data.item_format import item_tensors, one_item_format, stack_items
from palmette.zoo.data.transformed import transformed_lengths
from palmette.zoo.example_inputs import comma_separated, custom_example, example_input, runs
from palmette.zoo.import_callable import import_callable
from palmette.zoo.lengths import Lengths, SampleLengths, VaryingAxis, known_lengths, mean_lengths
from palmette.zoo.networks import registry
from palmette.zoo.recipes.loading import load_recipe, names_recipe
from palmette.zoo.recipes.recipe import Recipe
from palmette.zoo.user_code import located, user_error

VARIANT_KEYS = ("classes", "size", "channels")
# Of so many samples are batches for which it is known how long they are on average: a profile is of no batch size.
TYPICAL_BATCH = 32
UNNAMED = "recipe"
"""What a recipe is called that was given as an object."""


@dataclass(frozen=True, eq=False)
class Network:
    """A network as consecutive layers; ``input_shape`` and ``dtype`` are those of one sample, of its first input.

    ``module`` is what they were cut from, where that is known, and ``example`` what it was called with, with the axes
    that vary from batch to batch; ``typical_lengths`` are how long these are on average.
    """

    name: str
    layers: tuple[NetworkLayer, ...]
    input_shape: tuple[int, ...]
    dtype: torch.dtype
    module: nn.Module | None = None
    example: ModuleInput | None = None
    typical_lengths: Lengths = ()

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What goes into the first layer."""
        known = TensorSpec(self.input_shape, self.dtype, gradient=False)
        return (known,) if self.example is None else self.example.specs

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of its inputs, in the order in which the first layer takes them; none if they have none."""
        return () if self.example is None else self.example.names

    @property
    def varying(self) -> tuple[VaryingAxis, ...]:
        """The axes of its inputs that may be shorter than in the example; none if they are always the same."""
        return () if self.example is None else self.example.varying

    def example_batch(self, samples: int) -> Bundle:
        """So many samples to run it on."""
        example = self.example or ModuleInput((example_input(self.input_shape, self.dtype),))
        return example.batch(samples)

    def cast(self, inputs: Any, dtype: torch.dtype) -> Bundle:
        """Inputs as the first layer takes them, floats in a dtype; it also decides where data has whole numbers."""
        taken = [dtype if spec.dtype.is_floating_point else spec.dtype for spec in self.inputs]
        return tuple(each.to(to) for each, to in zip(as_bundle(inputs, self.input_names), taken, strict=True))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of one sample's output."""
        return self.layers[-1].output_shape

    @property
    def classes(self) -> int:
        """The number of classes that the last layer distinguishes."""
        return self.output_shape[-1] if self.output_shape else 1


def load_network(
    model: str | nn.Module | Recipe,
    input_shape: Sequence[int] | None = None,
    seed: int | None = None,
    *,
    adapters: Adapters | None = None,
) -> Network:
    """The network of that name, freshly initialised; the same ``seed`` gives the same weights.

    It may also be given as a recipe, or as a module, whose weights are copied. Its ``adapters`` are those of its name
    or those given, which its name then has.

    ``input_shape`` is that of one sample, e.g. (3, 32, 32); a network of the zoo has its own.

    Raises:
        InputError: there is no such network, or it cannot be built or cut into layers.
    """
    if isinstance(model, str):
        model, named = split_adapters(model)
        adapters = same_adapters(named, adapters, model)
    with seeded(seed):
        network = _plain_network(model, input_shape)
        return network if adapters is None else _with_adapters(network, adapters)


def _plain_network(model: str | nn.Module | Recipe, input_shape: Sequence[int] | None) -> Network:
    if isinstance(model, Recipe):
        return recipe_network(model, UNNAMED, input_shape)
    if isinstance(model, nn.Module):
        return module_network(type(model).__name__, _copied(type(model).__name__, model), input_shape)
    if ":" not in model:
        return zoo_network(model, input_shape)
    if names_recipe(model, "model"):
        return recipe_network(load_recipe(model), model, input_shape)
    return module_network(model, _called(model, import_callable(model, "model")), input_shape)


def _with_adapters(network: Network, adapters: Adapters) -> Network:
    """The network with adapters, cut again: layers below the first of them no longer learn."""
    assert network.module is not None, "a network that was loaded has its module"
    add_adapters(network.module, adapters)
    return replace(network, name=adapters.named(network.name), layers=_cut_like(network, network.module))


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed torch's random numbers; afterwards its random state is what it was before."""
    if seed is None:
        yield
        return
    with one_at_a_time, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def zoo_network(name: str, input_shape: Sequence[int] | None) -> Network:
    """A network of the zoo, in the variant given by its name and the input shape."""
    base, options = parse_variant(name)
    if input_shape is not None:
        options = apply_input_shape(name, options, tuple(input_shape))
    size, channels = options.get("size", registry.network_entry(base).size), options.get("channels", 3)
    try:
        module = registry.build(base, **options)
    except (RuntimeError, MemoryError) as error:
        raise InputError(Fault("model", name, f"cannot be built: {describe_error(error)}")) from error
    shape = (channels, size, size)
    return Network(name, cut(module, torch.empty(2, *shape, device="meta")), shape, torch.float32, module)


def parse_variant(name: str) -> tuple[str, dict[str, int]]:
    """A name of the zoo and the options after its question mark.

    Raises:
        InputError: with every part that is wrong.
    """
    base, mark, query = name.partition("?")
    registry.network_entry(base)
    faults, options = [], {}
    for part in query.split("&") if mark else []:
        key, _, value = part.partition("=")
        if key not in VARIANT_KEYS:
            faults.append(Fault("model", name, f"{key or repr(key)}: {expected_name(key, 'option', VARIANT_KEYS)}"))
        elif not (value.isascii() and value.isdigit() and int(value) > 0):
            faults.append(Fault("model", name, f"{key}: expected a whole number of 1 or more, as in {key}=64"))
        elif key in options:
            faults.append(Fault("model", name, f"{key}: expected only once"))
        else:
            options[key] = int(value)
    if faults:
        raise InputError(faults)
    return base, options


def apply_input_shape(name: str, options: dict[str, int], shape: tuple[int, ...]) -> dict[str, int]:
    """The options together with those that an input shape implies."""
    if len(shape) != 3 or shape[1] != shape[2] or min(shape) < 1:
        raise InputError(Fault("input-shape", comma_separated(shape), f"{name} takes square images, e.g. 3,32,32"))
    requested = {"channels": shape[0], "size": shape[1]}
    for key, value in requested.items():
        if options.get(key, value) != value:
            raise InputError(
                Fault("input-shape", comma_separated(shape), f"{name} says {key}={options[key]}; expected the same")
            )
    return {**options, **requested}


def recipe_network(recipe: Recipe, name: str, input_shape: Sequence[int] | None) -> Network:
    """The network of a recipe, cut into layers; the first samples have the shape and the type of its input."""
    with located(recipe.model, recipe.made_at):
        return _network_of(recipe, name, input_shape)


def _network_of(recipe: Recipe, name: str, input_shape: Sequence[int] | None) -> Network:
    shape = input_shape if input_shape is not None else recipe.input_shape
    if isinstance(recipe.model, str):
        return replace(load_network(recipe.model, shape), name=name)
    module = _copied(name, recipe.model) if isinstance(recipe.model, nn.Module) else _called(name, recipe.model)
    if isinstance(recipe.data, str):
        return module_network(name, module, shape)
    samples, lengths = first_inputs(name, recipe)
    varying, typical = ((), ()) if lengths is None else (lengths.inputs, mean_lengths(lengths, TYPICAL_BATCH))
    if not isinstance(samples, Tensor):
        return replace(network_from_module(name, module, samples, varying), typical_lengths=typical)
    own = getattr(module, "input_shape", None)
    known = shape if shape is not None else own if own is not None else tuple(samples.shape[1:])
    varying = varying if tuple(known) == tuple(samples.shape[1:]) else ()
    return replace(module_network(name, module, known, varying), typical_lengths=typical)


def first_inputs(name: str, recipe: Recipe) -> tuple[Example, SampleLengths | None]:
    """The inputs of a recipe's first two samples, and how long all are, if that varies from batch to batch."""
    with located(recipe.data, recipe.made_at):
        source = recipe_sources(name, recipe).train
        return _stacked_inputs(name, recipe, source), _input_lengths(name, recipe, source)


def _input_lengths(name: str, recipe: Recipe, source: Any) -> SampleLengths | None:
    """How long a recipe's inputs are, if that varies, and its transform leaves it alone."""
    known = known_lengths(source)
    if recipe.transform is None:
        return known
    return transformed_lengths(name, recipe.transform, known, lambda k: fetched_pair(source, k, f"{name}[{k}]")[0])


def _stacked_inputs(name: str, recipe: Recipe, source: Any) -> Example:
    found = [fetched_pair(source, k, f"{name}[{k}]")[0] for k in range(2)]
    if recipe.transform is not None:
        found = [call_user(name, "transform", recipe.transform, each) for each in found]
    tensors = [item_tensors(each, name) for each in found]
    first = one_item_format(tensors[0])
    return stack_items(tensors, lambda k: f"{name}[{k}]", first, "input")  # type: ignore[no-any-return]


def module_network(
    name: str, module: nn.Module, input_shape: Sequence[int] | None, varying: Sequence[VaryingAxis] = ()
) -> Network:
    """A user's own module, cut into layers."""
    return network_from_module(name, module, custom_example(name, module, input_shape), varying)


def network_from_module(name: str, module: nn.Module, example: Example, varying: Sequence[VaryingAxis] = ()) -> Network:
    """A module cut into layers; ``example`` is a batch of two samples or more of what it is called with.

    That is a tensor, or several in order, or by the names of the forward's arguments: ``{"input_ids": …}``. Axes that
    are ``varying`` are always as long as in the example, where the module cannot be cut otherwise.

    Raises:
        InputError: it cannot be cut into layers.
    """
    layers, given = cut_for_lengths(module, module_input(example, varying), example)
    first = given.tensors[0]
    return Network(name, layers, tuple(first.shape[1:]), first.dtype, module, given)


def cut_for_lengths(
    module: nn.Module, given: ModuleInput, example: Example
) -> tuple[tuple[NetworkLayer, ...], ModuleInput]:
    """Layers for all lengths that vary, and what the module is called with; for one length, if only that is cut.

    Raises:
        InputError: it cannot be cut into layers.
    """
    if not given.varying:
        return cut(module, example), given
    why = ""
    try:
        layers = cut(module, example, given.varying)
        if len(layers) > 1:
            return layers, given
        why = layers[0].note
    except InputError as error:
        layers, why = (), error.faults[0].expected if isinstance(error.faults[0].expected, str) else ""
    fixed = cut(module, example)
    if len(fixed) <= len(layers):
        return layers, given
    reason = why.rpartition("cut: ")[2] or "its layers would compute something else"
    note = f"every sample is padded to the longest of the data set: at other lengths it is not cut: {reason}"
    noted = replace(fixed[0], note="; ".join(filter(None, (note, fixed[0].note))))
    return (noted, *fixed[1:]), replace(given, varying=())


def recut(network: Network, module: nn.Module) -> Network:
    """The network with another module of the same structure but other widths, or another dtype.

    Raises:
        InputError: it is not cut into the same layers.
    """
    layers = _cut_like(network, module)
    if [layer.name for layer in layers] != [layer.name for layer in network.layers]:
        expected = f"it is cut into {len(layers)} layers when it is changed"
        raise InputError(Fault("model", network.name, f"{expected}; expected the {len(network.layers)} it has"))
    return replace(network, layers=layers, module=module)


def in_dtype(network: Network, dtype: torch.dtype) -> Network:
    """The network with weights in a dtype; cut again where its layers run only in that in which they were traced.

    A forward that casts to the dtype of a weight is written down with the dtype that the weight had. A network that
    itself does not run in it is left as it is.

    Raises:
        InputError: it is not cut into the same layers.
    """
    for layer in network.layers:
        cast_floats(layer.module, dtype)
    if network.module is None or network.example is None:
        return network
    batch, layers = network.cast(network.example_batch(2), dtype), LayerChain(each.module for each in network.layers)
    whole = ModuleWrapper(cast_floats(network.module, dtype), network.input_names)
    return network if runs(layers, batch) or not runs(whole, batch) else recut(network, network.module)


def _cut_like(network: Network, module: nn.Module) -> tuple[NetworkLayer, ...]:
    """A module cut into layers, called with what the network is called with."""
    weights = next((w.dtype for w in module.parameters() if w.is_floating_point()), network.dtype)
    tensors = tuple(each.to(weights) if each.is_floating_point() else each for each in network.example_batch(2))
    named = dict(zip(network.input_names, tensors, strict=True)) if network.input_names else tensors
    return cut(module, named if network.example is not None else tensors[0].to("meta"), network.varying)


def _called(name: str, make: Callable[[], object]) -> nn.Module:
    """The module that a user's callable returns."""
    try:
        module = make()
    except Exception as error:
        raise InputError(Fault("model", name, f"calling it failed: {user_error(error)}")) from error
    if not isinstance(module, nn.Module):
        raise InputError(Fault("model", name, f"returned a {type(module).__name__}; expected a torch.nn.Module"))
    return module


def _copied(name: str, module: nn.Module) -> nn.Module:
    """A module of its own: the user's is left as it is."""
    try:
        return copy.deepcopy(module)
    except Exception as error:
        expected = f"cannot be copied: {user_error(error)}; expected a function that returns it"
        raise InputError(Fault("model", name, expected)) from error
