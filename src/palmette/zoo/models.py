"""A network by name: one of the zoo, in any variant, or the user's own.

    lenet5                        as published
    alexnet?classes=200&size=64   a variant: classes, size (pixels per side), channels
    package.module:callable       whatever nn.Module the callable returns

Either way the result is a ``Network``: consecutive layers, and the shape of what goes in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from palmette.errors import Fault, InputError, expected_name
from palmette.zoo.capture import NetworkLayer, cut
from palmette.zoo.capture.wrapper import describe_error
from palmette.zoo.import_callable import import_callable
from palmette.zoo.networks import registry

VARIANT_KEYS = ("classes", "size", "channels")


@dataclass(frozen=True, eq=False)
class Network:
    """A network as consecutive layers; ``input_shape`` and ``dtype`` are those of one sample.

    ``module`` is what they were cut from, where that is known.
    """

    name: str
    layers: tuple[NetworkLayer, ...]
    input_shape: tuple[int, ...]
    dtype: torch.dtype
    module: nn.Module | None = None

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of one sample's output."""
        return self.layers[-1].output_shape

    @property
    def classes(self) -> int:
        """The number of classes that the last layer distinguishes."""
        return self.output_shape[-1] if self.output_shape else 1


def load_network(name: str, input_shape: Sequence[int] | None = None, seed: int | None = None) -> Network:
    """The network of that name, freshly initialised; the same ``seed`` gives the same weights.

    ``input_shape`` is that of one sample, e.g. (3, 32, 32); a network of the zoo has its own.

    Raises:
        InputError: there is no such network, or it cannot be built or cut into layers.
    """
    with seeded(seed):
        return custom_network(name, input_shape) if ":" in name else zoo_network(name, input_shape)


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed torch's random numbers; afterwards its random state is what it was before."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
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
        raise InputError(Fault("input-shape", format_shape(shape), f"{name} takes square images, e.g. 3,32,32"))
    requested = {"channels": shape[0], "size": shape[1]}
    for key, value in requested.items():
        if options.get(key, value) != value:
            raise InputError(
                Fault("input-shape", format_shape(shape), f"{name} says {key}={options[key]}; expected the same")
            )
    return {**options, **requested}


def custom_network(name: str, input_shape: Sequence[int] | None) -> Network:
    """The module that the user's callable returns, cut into layers."""
    module = build_custom(name)
    shape = input_shape if input_shape is not None else getattr(module, "input_shape", None)
    if shape is None:
        raise InputError(Fault("model", name, "has no input_shape; give one, e.g. --input-shape 3,32,32"))
    checked = checked_shape(shape)
    example = example_input(checked, input_dtype(name, module))
    return Network(name, cut(module, example), checked, example.dtype, module)


def recut(network: Network, module: nn.Module) -> Network:
    """The network with another module of the same structure but other widths.

    Raises:
        InputError: it is not cut into the same layers.
    """
    weights = next((w.dtype for w in module.parameters() if w.is_floating_point()), network.dtype)
    example = example_input(network.input_shape, weights if network.dtype.is_floating_point else network.dtype)
    layers = cut(module, example if ":" in network.name else example.to("meta"))
    if [layer.name for layer in layers] != [layer.name for layer in network.layers]:
        expected = f"it is cut into {len(layers)} layers when it is made smaller"
        raise InputError(Fault("model", network.name, f"{expected}; expected the {len(network.layers)} it has"))
    return Network(network.name, layers, network.input_shape, network.dtype, module)


def build_custom(name: str) -> nn.Module:
    """The module that ``package.module:callable`` returns."""
    make = import_callable(name, "model")
    try:
        module = make()
    except Exception as error:
        raise InputError(Fault("model", name, f"calling it failed: {describe_error(error)}")) from error
    if not isinstance(module, nn.Module):
        raise InputError(Fault("model", name, f"returned a {type(module).__name__}; expected a torch.nn.Module"))
    return module


def checked_shape(shape: object) -> tuple[int, ...]:
    """The shape as a tuple, if it consists of positive integers."""
    if isinstance(shape, Sequence) and all(isinstance(side, int) and side > 0 for side in shape):
        return tuple(shape)
    raise InputError(Fault("input-shape", shape, "expected whole numbers of 1 or more, e.g. 3,32,32"))


def input_dtype(name: str, module: nn.Module) -> torch.dtype:
    """The dtype that a module takes: its ``input_dtype``, else that of its weights."""
    declared = getattr(module, "input_dtype", None)
    if declared is None:
        weights = (weight.dtype for weight in module.parameters() if weight.is_floating_point())
        return next(weights, torch.get_default_dtype())
    if not isinstance(declared, torch.dtype):
        raise InputError(Fault("model", name, f"has input_dtype {declared!r}; expected a dtype such as torch.long"))
    return declared


def example_input(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Two samples to run a network on; integers are 0 and 1, which every vocabulary has."""
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        return torch.rand(2, *shape, generator=generator).to(dtype)
    return torch.randint(0, 2, (2, *shape), generator=generator).to(dtype)


def format_shape(shape: Sequence[int]) -> str:
    """A shape as the command line takes it."""
    return ",".join(map(str, shape))
