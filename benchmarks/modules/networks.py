"""Networks of others and odd ones, small and with random weights, each with random samples and a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import palmette as pt

SAMPLES, WORDS, LENGTH, CLASSES = 48, 97, 12, 5
Made = tuple[nn.Module, Any, Tensor, Callable[[Any, Any], Any]]
"""A module, inputs and targets of some samples, and a loss of each."""


class Samples(torch.utils.data.Dataset[Any]):
    """Inputs, a tensor or a dict of them, and targets."""

    def __init__(self, inputs: Any, targets: Tensor) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, k: int) -> tuple[Any, Tensor]:
        if isinstance(self.inputs, dict):
            return {name: tensor[k] for name, tensor in self.inputs.items()}, self.targets[k]
        return self.inputs[k], self.targets[k]


def recipe(make: Callable[[], Made]) -> pt.Recipe:
    """The recipe of a network; the same seed makes the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module, inputs, targets, loss = make()
    return pt.Recipe(model=without_dropout(module), data=(Samples(inputs, targets),) * 2, loss=loss)


def without_dropout(module: nn.Module) -> nn.Module:
    """The module with all dropout off: its random numbers in one process are not those of several."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return module


def words() -> Tensor:
    return torch.randint(0, WORDS, (SAMPLES, LENGTH))


def masked_words() -> dict[str, Tensor]:
    """Words, of which the last ones of some samples are padding."""
    lengths = torch.arange(SAMPLES) % 5 + LENGTH - 4
    return {"input_ids": words(), "attention_mask": (torch.arange(LENGTH) < lengths[:, None]).long()}


def pictures(side: int = 32) -> Tensor:
    return torch.randn(SAMPLES, 3, side, side)


def classes() -> Tensor:
    return torch.arange(SAMPLES) % CLASSES


def logits_loss(outputs: Any, targets: Tensor) -> Tensor:
    """Cross-entropy of each sample."""
    return functional.cross_entropy(outputs["logits"], targets, reduction="none")


def next_word_loss(outputs: Any, targets: Tensor) -> Tensor:
    """Cross-entropy of each next word."""
    return functional.cross_entropy(outputs["logits"].transpose(1, 2), targets, reduction="none")


def bert() -> Made:
    from transformers import BertConfig, BertForSequenceClassification

    small = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        num_labels=CLASSES,
    )
    return BertForSequenceClassification(small), masked_words(), classes(), logits_loss


def gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    small = GPT2Config(vocab_size=WORDS, n_positions=32, n_embd=32, n_layer=3, n_head=4, use_cache=False)
    return GPT2LMHeadModel(small), {"input_ids": words()}, words(), next_word_loss


def llama() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**_decoder())), {"input_ids": words()}, words(), next_word_loss


def qwen2() -> Made:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**_decoder())), {"input_ids": words()}, words(), next_word_loss


def _decoder() -> dict[str, Any]:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 32, "vocab_size": WORDS}
    heads = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    return sizes | heads | {"use_cache": False}


def t5() -> Made:
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    module = T5ForConditionalGeneration(T5Config(**sizes, use_cache=False, decoder_start_token_id=0, dropout_rate=0.0))
    return module, {"input_ids": words(), "decoder_input_ids": words()}, words(), next_word_loss


def vit() -> Made:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
    module = ViTForImageClassification(ViTConfig(**sizes, image_size=32, patch_size=8, num_labels=CLASSES))
    return module, {"pixel_values": pictures()}, classes(), logits_loss


def resnet() -> Made:
    from transformers import ResNetConfig, ResNetForImageClassification

    small = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 2], layer_type="basic", num_labels=CLASSES)
    return ResNetForImageClassification(small), {"pixel_values": pictures()}, classes(), logits_loss


def mobilenet() -> Made:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    small = MobileNetV2Config(depth_multiplier=0.25, image_size=32, num_labels=CLASSES)
    return MobileNetV2ForImageClassification(small), {"pixel_values": pictures()}, classes(), logits_loss


def efficientnet() -> Made:
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    small = EfficientNetConfig(
        image_size=32,
        width_coefficient=0.25,
        depth_coefficient=0.5,
        hidden_dim=320,
        drop_connect_rate=0.0,
        num_labels=CLASSES,
    )
    return EfficientNetForImageClassification(small), {"pixel_values": pictures()}, classes(), logits_loss


def convnext() -> Made:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    small = ConvNextConfig(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 2, 1], image_size=32, num_labels=CLASSES)
    return ConvNextForImageClassification(small), {"pixel_values": pictures()}, classes(), logits_loss


def swin() -> Made:
    from transformers import SwinConfig, SwinForImageClassification

    sizes = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2], "window_size": 4}
    module = SwinForImageClassification(SwinConfig(**sizes, drop_path_rate=0.0, num_labels=CLASSES))
    return module, {"pixel_values": pictures()}, classes(), logits_loss


def segformer() -> Made:
    """Segmentation by a transformer: a class for each fourth pixel."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    small = SegformerConfig(
        hidden_sizes=[8, 16],
        depths=[1, 1],
        num_encoder_blocks=2,
        sr_ratios=[2, 1],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
        drop_path_rate=0.0,
        num_labels=CLASSES,
    )
    targets = torch.randint(0, CLASSES, (SAMPLES, 8, 8))
    return SegformerForSemanticSegmentation(small), {"pixel_values": pictures()}, targets, pixel_logits_loss


def pixel_logits_loss(outputs: Any, targets: Tensor) -> Tensor:
    """Cross-entropy of each pixel."""
    return segmentation_loss(outputs["logits"], targets)


class SqueezeExcite(nn.Module):
    """Channels weighted by what the whole picture says of them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(channels, 8, 1), nn.Conv2d(8, channels, 1)

    def forward(self, values: Tensor) -> Tensor:
        seen = torch.relu(self.squeeze(functional.adaptive_avg_pool2d(values, 1)))
        return values * functional.hardsigmoid(self.excite(seen))


class InvertedResidual(nn.Module):
    """A block of MobileNetV3: wider, each channel by itself, squeeze and excite, narrower; added to its input."""

    def __init__(self, taken: int, wide: int, given: int, stride: int) -> None:
        super().__init__()
        self.added = stride == 1 and taken == given
        self.body = nn.Sequential(
            nn.Conv2d(taken, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
            SqueezeExcite(wide),
            nn.Conv2d(wide, given, 1, bias=False),
            nn.BatchNorm2d(given),
        )

    def forward(self, values: Tensor) -> Tensor:
        return values + self.body(values) if self.added else self.body(values)


def mobilenet_v3() -> Made:
    module = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()),
        InvertedResidual(8, 16, 8, 1),
        InvertedResidual(8, 24, 12, 2),
        InvertedResidual(12, 36, 12, 1),
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 32), nn.Hardswish(), nn.Linear(32, CLASSES)),
    )
    return module, pictures(), classes(), nn.CrossEntropyLoss()


class UNet(nn.Module):
    """Two steps down and up, with skips: several tensors are alive in between."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.up2, self.up1 = nn.Conv2d(32, 8, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)
        self.head = nn.Conv2d(8, CLASSES, 1)

    def forward(self, image: Tensor) -> Tensor:
        one = torch.relu(self.down1(image))
        two = torch.relu(self.down2(functional.max_pool2d(one, 2)))
        low = torch.relu(self.middle(functional.max_pool2d(two, 2)))
        up = torch.relu(self.up2(torch.cat([functional.interpolate(low, scale_factor=2.0), two], 1)))
        up = torch.relu(self.up1(torch.cat([functional.interpolate(up, scale_factor=2.0), one], 1)))
        return self.head(up)


def unet() -> Made:
    """Segmentation: a class for each pixel."""
    return UNet(), pictures(16), torch.randint(0, CLASSES, (SAMPLES, 16, 16)), segmentation_loss


def segmentation_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each pixel."""
    return functional.cross_entropy(outputs, targets, reduction="none")


class Lstm(nn.Module):
    """The class of a sequence, by the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(WORDS, 16), nn.LSTM(16, 24, num_layers=2, batch_first=True)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        values, _ = self.lstm(self.embedding(tokens))
        return self.head(values[:, -1])


def lstm() -> Made:
    return Lstm(), words(), classes(), nn.CrossEntropyLoss()


class TwoInputs(nn.Module):
    """A picture and numbers, each with layers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.numbers = nn.Conv2d(3, 4, 3, stride=2), nn.Linear(6, 8)
        self.hidden, self.head = nn.Linear(4 * 7 * 7 + 8, 16), nn.Linear(16, 2)

    def forward(self, image: Tensor, numbers: Tensor) -> dict[str, Tensor]:
        seen = torch.relu(self.conv(image)).flatten(1)
        joined = torch.cat([seen, torch.relu(self.numbers(numbers))], 1)
        return {"prediction": self.head(torch.relu(self.hidden(joined)))}


def two_inputs() -> Made:
    """Regression, of a dict of outputs."""
    inputs = {"image": pictures(16), "numbers": torch.randn(SAMPLES, 6)}
    return TwoInputs(), inputs, torch.randn(SAMPLES, 2), regression_loss


def regression_loss(outputs: Any, targets: Tensor) -> Tensor:
    """Squared error of each sample."""
    return (outputs["prediction"] - targets).square().mean(1)


class Tied(nn.Module):
    """The embedding is the output head, too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.one, self.two = nn.Embedding(WORDS, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.head = nn.Linear(16, WORDS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        return {"logits": self.head(torch.tanh(self.two(torch.tanh(self.one(self.embedding(tokens))))))}


def tied() -> Made:
    return Tied(), words(), words(), next_word_loss


OTHERS = (bert, gpt2, llama, qwen2, t5, vit, resnet, mobilenet, efficientnet, convnext, swin, segformer)
"""From transformers."""
OWN = (mobilenet_v3, unet, lstm, two_inputs, tied)
NETWORKS: dict[str, Callable[[], Made]] = {each.__name__: each for each in (*OTHERS, *OWN)}
