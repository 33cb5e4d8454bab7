"""The transformers of ``torch.nn`` as sequences of their layers, with the masks that each layer gets.

Their own forward looks at shapes and at values of masks, to choose faster ways to the same numbers, and cannot be
traced symbolically for that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

Arguments = dict[str, Any]
"""What a forward was called with, by the names of its parameters; those that are left out are not in it."""
_OF_AN_ENCODER = {"src_mask": "mask", "src_key_padding_mask": "src_key_padding_mask", "src_is_causal": "is_causal"}


def given_arguments(module: nn.Module, args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
    """The arguments of a call, by name, without those that are None."""
    given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    return {name: value for name, value in given.items() if value is not None}


def encoder_layers(module: nn.TransformerEncoder, given: Arguments) -> Any:
    """What an encoder returns."""
    own = {"mask": "src_mask"}
    masks = {own.get(name, name): value for name, value in given.items() if name != "src"}
    return _in_sequence(module, given["src"], masks)


def decoder_layers(module: nn.TransformerDecoder, given: Arguments) -> Any:
    """What a decoder returns."""
    return _in_sequence(module, given["tgt"], {name: value for name, value in given.items() if name != "tgt"})


def encoder_and_decoder(module: nn.Transformer, given: Arguments) -> Any:
    """What both return, one after the other."""
    read = {_OF_AN_ENCODER[name]: value for name, value in given.items() if name in _OF_AN_ENCODER}
    memory = module.encoder(given["src"], **read)
    written = {name: value for name, value in given.items() if name not in {"src", "tgt", *_OF_AN_ENCODER}}
    return module.decoder(given["tgt"], memory, **written)


def _in_sequence(module: Any, value: Any, others: Arguments) -> Any:
    """All layers, and the norm after them."""
    for layer in module.layers:
        value = layer(value, **others)
    return value if module.norm is None else module.norm(value)


SEQUENCES: Mapping[type[nn.Module], Callable[[Any, Arguments], Any]] = {
    nn.TransformerEncoder: encoder_layers,
    nn.TransformerDecoder: decoder_layers,
    nn.Transformer: encoder_and_decoder,
}
