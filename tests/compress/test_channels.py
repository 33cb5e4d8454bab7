"""How many channels are left at a fraction: as near to it as one channel allows, whatever the way there."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from palmette.compress.channels import PruningOrigin, pruning_origin
from palmette.errors import InputError
from tests.zoo.odd_networks import Residual

EXAMPLE = torch.rand(2, 3, 8, 8)


def small() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 3, 3), nn.Flatten(), nn.Linear(48, 4))


def parameters(a: int, b: int) -> int:
    """Of ``small`` with so many channels."""
    return (27 * a + a) + (9 * a * b + b) + (16 * b * 4 + 4)


def test_the_classes_are_never_pruned_and_every_other_channel_may_be() -> None:
    found = pruning_origin(small(), EXAMPLE)

    assert {group.layer: group.width for group in found.groups} == {"0": 5, "2": 3}
    assert found.parameters == parameters(5, 3)
    assert found.most == pytest.approx(1 - parameters(1, 1) / parameters(5, 3))


def test_channels_go_from_the_group_that_has_lost_the_smallest_part() -> None:
    # 1/5 | 1/3 | 2/5 | 3/5 | 2/3 | 4/5: the row of cuts, and so of widths.
    row = [(5, 3), (4, 3), (4, 2), (3, 2), (2, 2), (2, 1), (1, 1)]
    origin = pruning_origin(small(), EXAMPLE)
    removed = [1 - parameters(*widths) / parameters(5, 3) for widths in row]
    for k, fraction in itertools.product(range(1000), [0.001]):
        asked = k * fraction
        if asked <= removed[-1]:
            nearest = min(range(len(row)), key=lambda place: (abs(removed[place] - asked), place))
            assert tuple(origin.widths(asked)[name] for name in ("0", "2")) == row[nearest]


def test_of_two_cuts_as_near_the_smaller_is_taken() -> None:
    origin = PruningOrigin({"w": (4,)}, [])
    assert origin.cuts(0.0) == 0
    even = pruning_origin(nn.Sequential(nn.Linear(1, 4, bias=False), nn.Linear(4, 1, bias=False)), torch.rand(2, 1))
    assert even.widths(0.125) == {"0": 4}
    assert even.widths(0.375) == {"0": 3}


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 1.5, float("nan"), float("inf")])
def test_what_is_no_fraction_is_refused(fraction: float) -> None:
    with pytest.raises(InputError, match=r"expected a fraction from 0 to below 1"):
        pruning_origin(small(), EXAMPLE).widths(fraction)


def test_no_network_is_pruned_further_than_one_channel_of_each_group() -> None:
    origin = pruning_origin(small(), EXAMPLE)
    assert set(origin.widths(origin.most).values()) == {1}
    with pytest.raises(InputError, match=r"pruning: 0\.99: the network cannot be pruned further than 0\.7763"):
        origin.widths(0.99)


def test_a_network_without_hidden_channels_cannot_be_pruned_at_all() -> None:
    origin = pruning_origin(nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), EXAMPLE)
    assert origin.widths(0.0) == {}
    with pytest.raises(InputError, match="cannot be pruned further than 0 of its parameters"):
        origin.widths(0.25)


def test_both_ends_of_a_shortcut_are_one_group() -> None:
    found = pruning_origin(Residual(), EXAMPLE)
    assert [group.width for group in found.groups] == [4, 4]


class FixedView(nn.Module):
    """Its view says how many channels there are, so that they cannot go."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 5, 3), nn.Linear(80, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(x)).view(-1, 80))


def test_channels_that_the_network_counts_on_stay() -> None:
    assert [group.layer for group in pruning_origin(FixedView(), EXAMPLE).groups] == ["first"]


def test_channels_in_cohorts_go_together() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Conv2d(8, 6, 3, groups=2), nn.Flatten())
    found = pruning_origin(nn.Sequential(*module, nn.Linear(96, 4)), EXAMPLE)
    assert [(group.width, group.cohorts) for group in found.groups] == [(3, 2), (4, 2)]


def test_the_module_stays_as_it_is() -> None:
    module = small()
    module[0].weight.requires_grad_(False)
    module[1].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    pruning_origin(module, EXAMPLE)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not module[0].weight.requires_grad
    assert module.training
    assert not module[1].training
