"""Trained adapters in a folder as peft writes one: ``PeftModel.from_pretrained(base, folder)`` reads it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from palmette.errors import RunError, one_line
from palmette.runtime.tensor_file import write_tensors
from palmette.runtime.worker.setup import unshared
from palmette.spec.durable import flush
from palmette.zoo.capture import state
from palmette.zoo.models import Network

ADAPTER = "default"
_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# What peft puts before the names of a module that it has wrapped; Palmette's own adapters are put into it unwrapped.
WRAPPED = "base_model.model."


def save_adapters(network: Network, folder: Path) -> None:
    """Write the adapters of a network, if it has any, and nothing of the weights beside them; removes earlier ones.

    Raises:
        RunError: they cannot be written.
    """
    for name in (_CONFIG, _WEIGHTS):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # others may have put something there
        folder.rmdir()
    configs: Mapping[str, Any] = getattr(network.module, "peft_config", {})
    if ADAPTER not in configs:
        return
    config = copy.copy(configs[ADAPTER])
    config.inference_mode = True
    try:
        folder.mkdir(exist_ok=True)
        config.save_pretrained(folder)
        write_tensors(_adapter_weights(network), folder / _WEIGHTS, {"format": "pt"})
        for path in (folder / _CONFIG, folder / _WEIGHTS, folder, folder.parent):
            flush(path)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{folder}: cannot be written: {one_line(str(error))}") from None


def with_adapter_names(weights: Mapping[str, Tensor], network: Network) -> Mapping[str, Tensor]:
    """Weights of a network before it got adapters, by the names that they have now; adapters stay as they are."""
    if not getattr(network.module, "peft_config", {}):
        return weights
    found = dict(weights)
    for name, own in state(network.layers).items():
        plain = name.removeprefix(WRAPPED).replace(".base_layer.", ".")
        if name not in weights and plain in weights:
            found[name] = weights[plain]
        elif name not in weights and ".lora_" in name:
            found[name] = own
    return found


def _adapter_weights(network: Network) -> dict[str, Tensor]:
    """The weights of the adapters, by the names that peft reads."""
    from peft import get_peft_model_state_dict

    found: Mapping[str, Tensor] = get_peft_model_state_dict(
        network.module, state_dict=unshared(state(network.layers)), save_embedding_layers=False
    )
    return {name if name.startswith(WRAPPED) else WRAPPED + name: weight for name, weight in found.items()}
