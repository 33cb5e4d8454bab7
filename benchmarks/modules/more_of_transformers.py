"""More networks of transformers, by their classes: each a small configuration with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from benchmarks.modules.networks import (
    CLASSES,
    WORDS,
    Made,
    classes,
    logits_loss,
    masked_words,
    next_word_loss,
    pictures,
    words,
)

SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
READER = {**SIZES, "vocab_size": WORDS, "max_position_embeddings": 32, "num_labels": CLASSES, "pad_token_id": 0}
WRITER = {**SIZES, "vocab_size": WORDS, "max_position_embeddings": 32, "use_cache": False, "pad_token_id": 0}
GROUPED = {**WRITER, "num_key_value_heads": 2}
VIEWER = {**SIZES, "image_size": 32, "patch_size": 8, "num_labels": CLASSES}
STAGES = {"num_labels": CLASSES, "image_size": 32}
HEADS = {"n_head": 4, "n_layer": 3, "hidden_size": 32, "vocab_size": WORDS, "use_cache": False}

Samples = Callable[[], tuple[Any, Tensor, Callable[[Any, Any], Any]]]


def read() -> Any:
    """Text with padding, and its class."""
    return masked_words(), classes(), logits_loss


def written() -> Any:
    """Text, and the next words."""
    return {"input_ids": words()}, words(), next_word_loss


def translated() -> Any:
    """Text, and text to become."""
    return {"input_ids": words(), "decoder_input_ids": words()}, words(), next_word_loss


def seen() -> Any:
    """Pictures, and their classes."""
    return {"pixel_values": pictures()}, classes(), logits_loss


def _network(name: str, config: str, options: dict[str, Any], samples: Samples) -> Callable[[], Made]:
    def make() -> Made:
        import transformers

        module = getattr(transformers, name)(getattr(transformers, config)(**options))
        return module, *samples()

    return make


_TEXT = {"vocab_size": WORDS, "dropout": 0.0, "attention_dropout": 0.0}
_CLASSIFY, _WRITE, _SEE = "ForSequenceClassification", "ForCausalLM", "ForImageClassification"
_DISTIL = {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 32}
_BART = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
_BART |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 32}
_ROWS: dict[str, tuple[str, str, dict[str, Any], Samples]] = {
    "distilbert": ("DistilBert", _CLASSIFY, {**_TEXT, **_DISTIL, "num_labels": CLASSES}, read),
    "roberta": ("Roberta", _CLASSIFY, {**READER, "max_position_embeddings": 40}, read),
    "electra": ("Electra", _CLASSIFY, {**READER, "embedding_size": 16}, read),
    "albert": ("Albert", _CLASSIFY, {**READER, "embedding_size": 16}, read),
    "mpnet": ("MPNet", _CLASSIFY, {**READER, "max_position_embeddings": 40}, read),
    "mistral": ("Mistral", _WRITE, {**GROUPED, "sliding_window": None}, written),
    "gemma": ("Gemma", _WRITE, {**GROUPED, "head_dim": 8}, written),
    "phi": ("Phi", _WRITE, GROUPED, written),
    "qwen3": ("Qwen3", _WRITE, {**GROUPED, "head_dim": 8}, written),
    "gpt_neox": ("GPTNeoX", _WRITE, WRITER, written),
    "opt": ("OPT", _WRITE, {**WRITER, "ffn_dim": 64, "word_embed_proj_dim": 32, "dropout": 0.0}, written),
    "bloom": ("Bloom", _WRITE, HEADS, written),
    "bart": ("Bart", "ForConditionalGeneration", {**_TEXT, **_BART, "use_cache": False}, translated),
    "deit": ("DeiT", _SEE, VIEWER, seen),
    "dinov2": ("Dinov2", _SEE, {**VIEWER, "mlp_ratio": 2}, seen),
    "regnet": (
        "RegNet",
        _SEE,
        {**STAGES, "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 8},
        seen,
    ),
    "poolformer": ("PoolFormer", _SEE, {**STAGES, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}, seen),
    "convnext_v2": (
        "ConvNextV2",
        _SEE,
        {**STAGES, "hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 2},
        seen,
    ),
}
MORE = {
    name: _network(f"{family}{what}", f"{family}Config", options, samples)
    for name, (family, what, options, samples) in _ROWS.items()
}
