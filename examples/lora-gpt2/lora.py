"""Fine-tune a small GPT-2 with LoRA: palmette run plan.json --recipe lora:recipe (see README.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel

import palmette as pt

# No hub is needed here: a small GPT-2 with random weights, on the bytes of a text. For a real one, replace both by
# GPT2LMHeadModel.from_pretrained("gpt2") and a data set of its tokens.
TEXT = Path(pt.__file__).read_bytes() * 20
BYTES, LENGTH = 256, 64


class Blocks(torch.utils.data.Dataset[Any]):
    """Blocks of a text, each with the same bytes one further on as its target."""

    vocabulary = BYTES

    def __init__(self, text: bytes) -> None:
        self.ids = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()

    def __len__(self) -> int:
        return (len(self.ids) - 1) // LENGTH

    def __getitem__(self, k: int) -> tuple[dict[str, Tensor], Tensor]:
        begin = k * LENGTH
        return {"input_ids": self.ids[begin : begin + LENGTH]}, self.ids[begin + 1 : begin + LENGTH + 1]


def model() -> nn.Module:
    """A GPT-2 whose own weights are frozen; its adapters are trained."""
    small = GPT2Config(
        vocab_size=BYTES, n_positions=LENGTH, n_embd=128, n_layer=4, n_head=4, use_cache=False,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    adapters = LoraConfig(r=8, lora_alpha=16, target_modules=["c_attn"], fan_in_fan_out=True)
    return get_peft_model(GPT2LMHeadModel(small), adapters)


def next_byte_loss(outputs: dict[str, Tensor], targets: Tensor) -> Tensor:
    """Cross-entropy of every byte."""
    return functional.cross_entropy(outputs["logits"].transpose(1, 2), targets, reduction="none")


cut = len(TEXT) * 9 // 10
recipe = pt.Recipe(
    model=model,
    data=(Blocks(TEXT[:cut]), Blocks(TEXT[cut:])),
    loss=next_byte_loss,
    optimizer="adamw",
    lr=3e-3,
    schedule="cosine",
)
