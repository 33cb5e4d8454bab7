"""More networks of transformers, by their classes: each a small configuration with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.modules.networks import (
    CLASSES,
    SAMPLES,
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
    "modernbert": ("ModernBert", _CLASSIFY, {**READER, "global_attn_every_n_layers": 2, "local_attention": 8}, read),
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


def clip() -> Made:
    """Text and pictures: their similarities are of all pairs, the loss of each pair by itself."""
    from transformers import CLIPConfig, CLIPModel

    text = {**SIZES, "vocab_size": WORDS, "max_position_embeddings": 32, "eos_token_id": WORDS - 1, "pad_token_id": 0}
    vision = {**SIZES, "image_size": 32, "patch_size": 8}
    written = words()
    written[:, -1] = WORDS - 1  # the end of a text, where CLIP reads what it says
    inputs = {"input_ids": written, "attention_mask": torch.ones_like(written), "pixel_values": pictures()}
    module = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    return module, inputs, classes(), pair_loss


def pair_loss(outputs: Any, _targets: Tensor) -> Tensor:
    """How far each text is from its picture."""
    return 1 - functional.cosine_similarity(outputs["image_embeds"], outputs["text_embeds"])


def whisper() -> Made:
    """Sound, and what was said."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    sizes = {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32}
    small = WhisperConfig(**{**_TEXT, **_BART, **tokens, **sizes, "use_cache": False})
    inputs = {"input_features": torch.randn(SAMPLES, 8, 32), "decoder_input_ids": words()}
    return WhisperForConditionalGeneration(small), inputs, words(), next_word_loss


MORE: dict[str, Callable[[], Made]] = {
    **{
        name: _network(f"{family}{what}", f"{family}Config", options, samples)
        for name, (family, what, options, samples) in _ROWS.items()
    },
    "clip": clip,
    "whisper": whisper,
}
