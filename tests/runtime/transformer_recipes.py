"""A recipe of transformers, as people write it: dicts of ragged token ids, and a loss of ``outputs.logits``."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import BertConfig, BertForTokenClassification

import palmette as pt
from tests.runtime.recipes import SAMPLES, Ragged


class Encoded(Ragged):
    """What a tokenizer returns, and a tag for each token."""

    def __getitem__(self, k: int) -> Any:
        return {"input_ids": self.items[k], "labels": self.items[k] % 5}


def collate(items: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Padded ids, their mask, and padded tags."""
    ids = nn.utils.rnn.pad_sequence([item["input_ids"] for item in items], batch_first=True)
    labels = nn.utils.rnn.pad_sequence([item["labels"] for item in items], batch_first=True, padding_value=-100)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}


def model() -> nn.Module:
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        num_labels=5,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForTokenClassification(config)


def loss(outputs: Any, targets: Tensor) -> tuple[Tensor, Tensor]:
    total = nn.functional.cross_entropy(outputs.logits.transpose(1, 2), targets, reduction="sum")
    return total, (targets != -100).sum()


bert = pt.Recipe(model=model, data=(Encoded(SAMPLES, 4), Encoded(9, 5)), loss=loss, collate=collate)
