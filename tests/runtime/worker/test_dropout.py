"""The mask of a sample is the same whoever computes it, and is as random as dropout has to be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from palmette.runtime.worker.dropout import Draw, Drawing, SampleDropout, replace_dropout


def kept(
    layer: nn.Module, places: Sequence[int], shape: Sequence[int] = (500,), seed: int = 0, iteration: int = 0
) -> Tensor:
    """What is left of ones."""
    with Drawing(Draw(seed, iteration, places)):
        result: Tensor = layer(torch.ones(len(places), *shape, dtype=torch.float64))
    return result


def dropout(probability: float = 0.3, layer: str = "1") -> nn.Module:
    return replace_dropout(nn.Dropout(probability), layer)


def test_a_sample_has_the_same_mask_in_any_group() -> None:
    layer = dropout()
    whole = kept(layer, range(12))
    assert torch.equal(kept(layer, [7, 2, 11]), whole[[7, 2, 11]])
    assert torch.equal(torch.cat([kept(layer, range(5)), kept(layer, range(5, 12))]), whole)


def test_seed_iteration_layer_and_sample_each_give_another_mask() -> None:
    first = kept(dropout(), [0])
    others = [
        kept(dropout(), [0], seed=1),
        kept(dropout(), [0], iteration=1),
        kept(dropout(layer="2"), [0]),
        kept(dropout(), [1]),
    ]
    for other in others:
        alike = (other == first).double().mean()
        assert alike == pytest.approx(0.7**2 + 0.3**2, abs=0.1)  # as alike as two independent masks are


def test_the_same_again_is_the_same() -> None:
    assert torch.equal(kept(dropout(), range(4)), kept(dropout(), range(4)))


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_as_many_are_dropped_as_asked_for_and_the_mean_stays(probability: float) -> None:
    values = kept(dropout(probability), range(40), shape=(5, 20, 10))
    many = values.numel()
    spread = (probability * (1 - probability) / many) ** 0.5
    assert (values == 0).double().mean() == pytest.approx(probability, abs=5 * spread)
    assert values.mean() == pytest.approx(1, abs=5 * spread / (1 - probability))
    assert values.unique().tolist() == pytest.approx([0, 1 / (1 - probability)])


def test_no_place_in_the_sample_is_favoured() -> None:
    dropped = (kept(dropout(0.5), range(4000), shape=(16,)) == 0).double()
    assert dropped.mean(0).sub(0.5).abs().max() < 5 * 0.5 / 4000**0.5
    correlations = torch.corrcoef(dropped.T) - torch.eye(16)
    assert correlations.abs().max() < 5 / 4000**0.5


def test_nothing_is_dropped_in_evaluation() -> None:
    layer = dropout().eval()
    values = torch.randn(3, 4)
    assert torch.equal(layer(values), values)


@pytest.mark.parametrize(("probability", "expected"), [(0.0, 1.0), (1.0, 0.0)])
def test_none_and_all(probability: float, expected: float) -> None:
    assert kept(dropout(probability), range(3)).unique().tolist() == [expected]


@pytest.mark.parametrize(
    ("kind", "shape"), [(nn.Dropout1d, (64, 9)), (nn.Dropout2d, (64, 5, 4)), (nn.Dropout3d, (64, 2, 3, 2))]
)
def test_whole_channels_are_dropped(kind: type[nn.Module], shape: tuple[int, ...]) -> None:
    values = kept(replace_dropout(kind(0.5), "1"), range(10), shape).flatten(2)
    assert ((values == 0).all(2) | (values == 2).all(2)).all()
    assert (values[:, :, 0] == 0).double().mean() == pytest.approx(0.5, abs=5 * 0.5 / 640**0.5)


def test_gradients_pass_where_values_do() -> None:
    layer = dropout()
    values = torch.ones(2, 50, requires_grad=True)
    with Drawing(Draw(0, 0, [0, 1])):
        out = layer(values)
    out.sum().backward()
    assert values.grad is not None
    assert torch.equal(values.grad, out.detach())


def test_a_module_that_is_called_twice_draws_twice() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, values: Tensor) -> Tensor:
            return torch.stack([self.drop(values), self.drop(values)], 1)

    first, second = kept(replace_dropout(Twice(), "1"), range(3)).unbind(1)
    assert not torch.equal(first, second)
    assert torch.equal(kept(replace_dropout(Twice(), "1"), [2])[:, 1], second[2:])


def test_every_dropout_of_a_module_is_replaced_and_keeps_its_mode() -> None:
    inner = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.2))
    made = replace_dropout(nn.Sequential(nn.Dropout(0.1), inner, nn.Dropout2d(0.3)).eval(), "4")
    found = [part for part in made.modules() if isinstance(part, SampleDropout)]
    assert [(part.probability, part.whole_channels) for part in found] == [(0.1, False), (0.2, False), (0.3, True)]
    assert len({part.key for part in found}) == 3
    assert not any(part.training for part in found)
    assert not any(type(part) in (nn.Dropout, nn.Dropout2d) for part in made.modules())
