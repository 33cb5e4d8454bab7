"""Models of transformers, as they are: cut into layers that compute the same, and trained across nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palmette.zoo.capture import cut, tied_weights
from tests.runtime.module_rig import CLUSTER, SAMPLES, ModuleRig, two_branches, two_cuts
from tests.runtime.rig import off
from tests.zoo.equality import assert_same_with_cuts

tf = pytest.importorskip("transformers")
logging.getLogger("transformers").setLevel(logging.ERROR)

TEXT = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
LLAMA = {**TEXT, "num_key_value_heads": 1, "max_position_embeddings": 32}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GPT2 = {"vocab_size": 32, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
T5 = {"vocab_size": 32, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
SWIN = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}


def ids() -> Tensor:
    return torch.randint(0, 32, (SAMPLES, 6))


def text() -> dict[str, Tensor]:
    lengths = torch.randint(3, 7, (SAMPLES, 1))
    return {"input_ids": ids(), "attention_mask": (torch.arange(6) < lengths).long()}


def image() -> dict[str, Tensor]:
    return {"pixel_values": torch.rand(SAMPLES, 3, 16, 16)}


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], dict[str, Tensor]], int]] = {
    "bert": (lambda: tf.BertForSequenceClassification(tf.BertConfig(**TEXT, **NO_DROPOUT)), text, 8),
    "gpt2": (
        lambda: tf.GPT2LMHeadModel(tf.GPT2Config(**GPT2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
        text,
        6,
    ),
    "llama": (lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**LLAMA)), text, 6),
    "qwen2": (lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**LLAMA)), lambda: {"input_ids": ids()}, 6),
    "t5": (
        lambda: tf.T5ForConditionalGeneration(tf.T5Config(**T5, dropout_rate=0.0)),
        lambda: {"input_ids": ids(), "decoder_input_ids": ids()},
        8,
    ),
    "vit": (
        lambda: tf.ViTForImageClassification(
            tf.ViTConfig(**{**TEXT, **NO_DROPOUT, "image_size": 16, "patch_size": 8, "vocab_size": None})
        ),
        image,
        6,
    ),
    "resnet": (
        lambda: tf.ResNetForImageClassification(
            tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
        ),
        image,
        5,
    ),
    "convnext": (
        lambda: tf.ConvNextForImageClassification(
            tf.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], patch_size=2, num_stages=2)
        ),
        image,
        6,
    ),
    "swin": (
        lambda: tf.SwinForImageClassification(tf.SwinConfig(**SWIN, hidden_dropout_prob=0.0, drop_path_rate=0.0)),
        image,
        6,
    ),
}
QUICK = ("bert", "gpt2")
CASES = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in MODELS]


def made(name: str) -> tuple[nn.Module, dict[str, Tensor], int]:
    torch.manual_seed(0)
    make, example, fewest = MODELS[name]
    module = make()
    for part in module.modules():
        if hasattr(part, "config"):
            part.config.use_cache = False  # for the module itself, which would return its cache
    return module, example(), fewest


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_layers_reproduce_a_model(name: str) -> None:
    module, example, fewest = made(name)
    module.double()
    batch = {key: (x[:4].double() if x.is_floating_point() else x[:4]) for key, x in example.items()}
    layers = cut(module, batch)
    assert len(layers) >= fewest
    assert_same_with_cuts(module, layers, batch, range(1, len(layers)))


@pytest.mark.parametrize("name", CASES)
def test_a_model_trains_on_three_nodes_as_in_one_process(name: str) -> None:
    module, example, _ = made(name)
    rig = ModuleRig(module, example)
    depth = len(rig.layers)
    norms = any(isinstance(part, nn.BatchNorm2d) for part in module.modules())
    trees = [two_cuts(depth, depth // 3, 2 * depth // 3)] + ([] if norms else [two_branches(depth, depth // 2)])
    expected_losses, expected = rig.one_process(5)
    for tree in trees:
        losses, held = rig.trained(tree, CLUSTER, 5)
        assert losses == pytest.approx(expected_losses, rel=1e-9)
        assert set().union(*held.values()) >= set(expected)
        for weights in held.values():
            assert off(known(weights, expected), expected) <= 1e-9


def known(weights: dict[str, Tensor], expected: dict[str, Any]) -> dict[str, Tensor]:
    """Copied layers list the constants of their graph beside the model's own state."""
    return {name: weights[name] for name in weights.keys() & expected.keys()}


@pytest.mark.slow
def test_the_embedding_and_the_head_of_gpt2_are_one_weight() -> None:
    module, example, _ = made("gpt2")
    module.config.use_cache = True
    layers = cut(module, {key: x[:2] for key, x in example.items()})
    (tied,) = tied_weights(layers)
    assert tied.layers == (1, len(layers))
    assert module.config.use_cache
