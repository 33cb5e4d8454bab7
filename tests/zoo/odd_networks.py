"""Small networks of all shapes that are not in the zoo, for the tests of capturing."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """A block with a shortcut, after a convolution with batch norm, before a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.block = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1))
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.stem(x)))
        x = self.relu(x + self.block(x))
        return self.head(self.pool(x).flatten(1))


class Branching(nn.Module):
    """Three branches joined by concatenation, twice."""

    class Mix(nn.Module):
        def __init__(self, inputs: int) -> None:
            super().__init__()
            self.one, self.three = nn.Conv2d(inputs, 2, 1), nn.Conv2d(inputs, 3, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat(
                [functional.relu(self.one(x)), functional.relu(self.three(x)), functional.max_pool2d(x, 3, 1, 1)], 1
            )

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = self.Mix(3), self.Mix(8)
        self.head = nn.Linear(13, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(self.first(x), 2)
        return self.head(self.second(x).mean((2, 3)))


class Attention(nn.Module):
    """Causal attention with two heads, dropout as a function, and a mask that is not in the state."""

    def __init__(self, width: int, length: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).bool(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, 2, width // 2).transpose(1, 2) for part in self.mix(x).chunk(3, dim=-1))
        weights = (q @ k.transpose(-2, -1)).masked_fill(~self.mask[:length, :length], float("-inf")).softmax(-1)
        weights = functional.dropout(weights, self.dropout, self.training)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, length: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, length, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """A small language model on token ids; ``tied`` shares the embedding with the head."""

    input_shape = (6,)
    input_dtype = torch.long

    def __init__(self, tied: bool = False, dropout: float = 0.1) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.blocks = nn.ModuleList([Block(8, 6, dropout) for _ in range(2)])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        batch, length = ids.shape
        x = self.tokens(ids) + self.places(torch.arange(length))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).view(batch * length, -1).view(batch, length, -1)


class TiedInTheMiddle(nn.Module):
    """One linear layer used twice with another in between, and layers around."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shared, self.between, self.last = (nn.Linear(6, 6) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.shared(self.between(self.shared(self.first(x)))))


class FunctionalDropout(nn.Module):
    """Dropout as a function, noise only while training, and dropout only while training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 4)
        self.drop = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.dropout(functional.relu(self.first(x)), 0.5, training=self.training)
        x = self.second(x)
        if self.training:
            x = x + torch.randn_like(x) * 0.1
            x = self.drop(x)
        return self.third(functional.dropout(x, p=0.3, training=self.training, inplace=True))


class FunctionalBatchNorm(nn.Module):
    """Batch norm as a function and a counter, in a forward that only export can trace."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)
        self.register_buffer("mean", torch.zeros(5))
        self.register_buffer("spread", torch.ones(5))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] != 3:
            raise ValueError("three channels, please")
        if self.training:
            self.calls += 1
        x = functional.relu(self.norm(self.conv(x))).mean((2, 3))
        return functional.batch_norm(self.head(x), self.mean, self.spread, training=self.training)


class SizesFromTheTop(nn.Module):
    """Sizes taken at the top and used at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        batch, rows = x.shape[0], x.shape[1]
        shape = x.shape
        x = self.second(functional.relu(self.first(x)))
        x = self.third(x.reshape(batch * rows, 6)).view(shape)
        return x.view(batch, -1)


class Unused(nn.Module):
    """A head that forward does not use, a plain tensor that it does."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 2)
        self.scale = torch.full((4,), 2.0)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.used(x) * self.scale
        return x if mask is None else x * mask


class DataDependent(nn.Module):
    """Does one thing or another, by the values that come in."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) if x.sum() > 0 else -x


class TwoOutputs(nn.Module):
    """Returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.fc(x), x


class TwoInputs(nn.Module):
    """Takes two tensors."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Frozen(nn.Module):
    """Keeps its batch norm in evaluation, whatever it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


class EvaluationOnly(nn.Module):
    """Adds a softmax in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        return x if self.training else x.softmax(-1)


class WithoutGradient(nn.Module):
    """A first layer that must not learn."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = self.first(x)
        return self.second(x)


class Recurrent(nn.Module):
    """An LSTM, whose output is a tuple, and a head on its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.lstm(x)
        return self.head(out[:, -1])


class SharedMask(nn.Module):
    """A mask made at the top from sizes, used in every layer."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.tril(torch.ones(x.shape[1], x.shape[1], dtype=x.dtype))
        for mix in self.mix:
            x = mask @ mix(x)
        return x


class PreActivation(nn.Module):
    """Each layer starts by writing to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        self.relu(x)
        x = self.second(x)
        x += 1
        self.relu(x)
        return self.third(x)


class ClassToken(nn.Module):
    """A learned token before the sequence, torch's own attention, a head on that token."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 4))
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(x[:, 0])


class First(nn.Module):
    """The first of several."""

    def forward(self, several: tuple[Tensor, ...]) -> Tensor:
        return several[0]


class SumOverBatch(nn.Module):
    """Mixes all samples into one number."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sum()


class Raising(nn.Module):
    """Does not want to."""

    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("no, thank you\nnot today")


class Encoder(nn.Module):
    """Torch's own encoder between two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(4, 4), nn.Linear(4, 3)
        layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))


class StochasticDepth(nn.Module):
    """Residual branches that are left out by chance while training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def kept(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        chance = torch.empty((x.shape[0], 1), dtype=x.dtype).bernoulli_(0.8)
        return chance * x / 0.8

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.kept(self.first(x))
        return self.head(x + self.kept(self.second(x)))


class SampleDependent(nn.Module):
    """Does one thing or another with each sample, by the sample's own values: no graph has that."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.one(row) if float(row.sum()) > 0 else self.other(row) for row in x])


class ByBatchSize(nn.Module):
    """Does something else with large batches."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) if len(x) < 4 else -self.fc(x)


class Halves(nn.Module):
    """Gates one half of its features by the other, which it finds by a size of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[1] // 2
        x = self.first(x)
        return self.second(x[:, :half] * torch.sigmoid(x[:, half:]))


class WithAutocast(nn.Module):
    """Turns autocast off for a part, and gradients for a part of that; counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] != 4:
            raise ValueError("four columns, please")
        x = self.first(x)
        with torch.no_grad():
            self.calls.add_(1)
            with torch.autocast("cpu", enabled=False):
                gate = self.second(x).sigmoid()
        with torch.autocast("cpu", enabled=False):
            y = self.second(x) * gate
        return self.head(y)


class UNet(nn.Module):
    """Two levels down, two up, with skips."""

    def __init__(self) -> None:
        super().__init__()
        self.e1, self.e2, self.middle = self.twice(3, 4), self.twice(4, 6), self.twice(6, 8)
        self.u2, self.d2 = nn.ConvTranspose2d(8, 6, 2, 2), self.twice(12, 6)
        self.u1, self.d1 = nn.ConvTranspose2d(6, 4, 2, 2), self.twice(8, 4)
        self.head = nn.Conv2d(4, 2, 1)

    @staticmethod
    def twice(inputs: int, outputs: int) -> nn.Sequential:
        first, second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        return nn.Sequential(first, nn.ReLU(True), second, nn.ReLU(True))

    def forward(self, x: Tensor) -> Tensor:
        a = self.e1(x)
        b = self.e2(functional.max_pool2d(a, 2))
        x = self.u2(self.middle(functional.max_pool2d(b, 2)))
        x = self.u1(self.d2(torch.cat([x, b], 1)))
        return self.head(self.d1(torch.cat([x, a], 1)))


class TwoTowers(nn.Module):
    """Two inputs, each through layers of its own, then a head for both."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5))
        self.b = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 5))
        self.head = nn.Linear(10, 2)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.head(torch.cat([self.a(left), self.b(right)], 1))


class Masked(nn.Module):
    """Token ids with a mask of padding, which every block needs as a mask of pairs; returns a dict with None in it."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.mixes = nn.ModuleList([nn.Linear(8, 24) for _ in range(3)])
        self.head = nn.Linear(8, 3)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> dict[str, Tensor | None]:
        x = self.tokens(ids)
        pairs = mask[:, None, :].expand(-1, x.shape[1], -1).bool()
        for mix in self.mixes:
            q, k, v = mix(x).chunk(3, dim=-1)
            x = x + (q @ k.transpose(1, 2)).masked_fill(~pairs, -1e9).softmax(-1) @ v
        return {"logits": self.head((x * mask[..., None]).sum(1)), "cache": None}


class DictOutputs(nn.Module):
    """Returns two outputs by name, one of them from the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        middle = self.first(x).relu()
        return {"logits": self.third(self.second(middle).relu()), "middle": middle}


class SharedBias(nn.Module):
    """A bias made of weights once, the same for all samples, for every block, as in T5."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 1)
        self.mixes = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(5)
        bias = self.table(places[:, None] - places[None, :] + 4)[..., 0]
        for mix in self.mixes:
            x = x + (mix(x) @ x.transpose(1, 2) + bias).softmax(-1) @ x
        return x.mean(1)


class TupleOutputs(DictOutputs):
    """Returns the same as a tuple."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return tuple(super().forward(x).values())


class Long(nn.Module):
    """Many layers, every other one with fewer outputs."""

    def __init__(self, many: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(4, 3) if k % 2 == 0 else nn.Linear(3, 4) for k in range(many)])

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x).tanh()
        return x


class BatchSecond(nn.Module):
    """Passes everything on with the samples in the second dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Parameter(torch.rand(4, 4)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(1, 0)
        for weight in (self.first, self.second, self.third):
            x = (weight @ x).tanh()
        return x.permute(1, 0)
