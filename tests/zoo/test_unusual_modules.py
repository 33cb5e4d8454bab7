"""Modules that few networks have: complex numbers, buffers that forwards write, weights computed from others."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from palmette.errors import InputError
from palmette.zoo.capture import LayerChain, cut
from palmette.zoo.casting import cast_floats
from palmette.zoo.models import load_network
from tests.zoo.equality import assert_same_as_whole


def rows(*shape: int) -> Tensor:
    return torch.rand(4, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Rotated(nn.Module):
    """Turns pairs of numbers by a table of complex ones, as rotary embeddings do; they are alive beside a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three, self.head = (nn.Linear(4, 4) for _ in range(4))
        self.register_buffer("table", torch.polar(torch.ones(2), torch.tensor([0.5, 1.0])))

    def forward(self, x: Tensor) -> Tensor:
        turned = torch.view_as_complex(self.one(x).reshape(x.shape[0], 2, 2)) * self.table
        hidden = torch.tanh(self.three(torch.tanh(self.two(x))))
        return self.head(hidden + torch.view_as_real(turned).flatten(1))


def test_complex_numbers_are_not_passed_on() -> None:
    module = Rotated().double()
    layers = cut(module, rows(4))
    assert_same_as_whole(module, layers, rows(4))
    assert not any(spec.dtype.is_complex for layer in layers for spec in layer.outputs)
    assert [layer.note for layer in layers if layer.note] == [
        "mul has complex numbers, and is needed from one end to the other"
    ]


def test_a_cast_keeps_imaginary_parts() -> None:
    module = Rotated()
    table = module.table.clone()
    assert torch.equal(cast_floats(module, torch.float64).table, table)
    assert module.one.weight.dtype == torch.float64


def test_complex_weights_are_refused() -> None:
    module = Rotated()
    module.scale = nn.Parameter(torch.ones(2, dtype=torch.cfloat))
    with pytest.raises(InputError, match="its weight scale has complex numbers; expected real ones"):
        cut(module, rows(4).float())


@dataclass
class Scores:
    logits: Tensor
    hidden: Tensor
    loss: Tensor | None = None


def test_a_dataclass_of_outputs_is_a_dict() -> None:
    class Scoring(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.head = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Scores:
            hidden = torch.tanh(self.one(x))
            return Scores(self.head(torch.tanh(self.two(hidden))), hidden)

    module = Scoring().double()
    layers = cut(module, rows(4))
    assert len(layers) == 3
    assert list(LayerChain(layer.module for layer in layers)(rows(4))) == ["logits", "hidden"]


class Counting(nn.Module):
    """Sets a buffer anew in every step."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.steps = self.steps + 1
        return self.head(torch.tanh(self.one(x)) / (1 + self.steps))


def test_a_buffer_that_is_set_anew_is_no_obstacle() -> None:
    module = Counting()
    (layer,) = cut(module, rows(4).float())
    assert "runs whole" in layer.note
    assert not layer.mixes_samples
    assert float(module.steps) == 0.0


class RunningMean(nn.Module):
    """Keeps a mean of what it has seen, as a batch norm does."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return x - self.mean


class CentredInTraining(nn.Module):
    """Takes the mean of the batch away, in training alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0) if self.training else x


@pytest.mark.parametrize("part", [RunningMean(), CentredInTraining(), nn.Sequential(nn.Dropout(), RunningMean())])
def test_samples_that_depend_on_one_another_in_training_alone_are_told(part: nn.Module) -> None:
    layers = cut(nn.Sequential(nn.Linear(4, 4), part, nn.Dropout(), nn.Linear(4, 2)), rows(4).float())
    assert [layer.mixes_samples for layer in layers if list(layer.module.parameters())] == [False, False]
    assert sum(layer.mixes_samples for layer in layers) == 1


class OwnStart(nn.Module):
    """Starts with zeros for each sample, which only ``torch.export`` traces."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(x.shape[0], 4, dtype=x.dtype)
        for k in range(x.shape[1]):
            state = self.cell(x[:, k], state)
        return self.head(state)


class Normed(nn.Module):
    """Weights that are computed from others; a buffer of the orthogonal one is not contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.one = parametrizations.weight_norm(nn.Linear(4, 4))
        self.two = parametrizations.spectral_norm(nn.Linear(4, 4))
        self.three = parametrizations.orthogonal(nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.three(torch.tanh(self.two(torch.tanh(self.one(x)))))


@pytest.mark.parametrize(("kind", "shape"), [(OwnStart, (3, 4)), (Normed, (4,))])
def test_layers_can_be_sent_to_another_process(kind: type[nn.Module], shape: tuple[int, ...]) -> None:
    module = kind().double()
    layers = cut(module, rows(*shape))
    assert len(layers) > 1
    twin, expected = pickle.loads(pickle.dumps([layer.module for layer in layers])), copy.deepcopy(module)
    assert torch.allclose(LayerChain(twin)(rows(*shape)), expected(rows(*shape)), rtol=0, atol=1e-12)


def test_threads_cut_modules_side_by_side() -> None:
    """Tracing changes ``nn.Module`` for all threads."""
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: len(cut(Rotated(), rows(4).float())), range(8)))
    assert len(set(found)) == 1


def test_a_module_that_cannot_be_copied_is_refused_in_one_line() -> None:
    class Cached(nn.Module):
        input_shape = (4,)

        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 2)
            self.kept = self.head.weight * 2

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x)

    with pytest.raises(InputError, match=r"cannot be copied: RuntimeError.*expected a function that returns it"):
        load_network(Cached())
