"""Pruning in the middle of a training: what is left is what was there, and goes on with the optimizer's state."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from palmette.compress.kept_indices import carried
from palmette.compress.pruning import prune
from palmette.errors import InputError
from palmette.zoo.networks import registry
from tests.runtime.networks import residual
from tests.zoo.odd_networks import Residual, Transformer

SIZES = {"lenet5": 32, "alexnet": 64, "nin": 32, "cifar10": 32}


def made(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    size = SIZES.get(name, 32)
    return registry.build(name, size=size, classes=4), torch.rand(4, 3, size, size)


def trained(module: nn.Module, optimizer: torch.optim.Optimizer, example: Tensor, steps: int = 2) -> float:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = module(example).logsumexp(1).mean()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def held(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


SMALL = ["lenet5", "squeezenet", "nin", "cifar10", "mobilenet"]
LARGE = [name for name in registry.names() if name not in SMALL]


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_every_network_of_the_zoo_trains_on_when_half_is_gone_and_then_more(name: str) -> None:
    module, example = made(name)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)
    trained(module, optimizer, example, 1)
    names, whole = list(module.state_dict()), held(module)

    first = prune(module, example, 0.5, optimizer=optimizer)
    second = prune(module, example, 0.75, origin=first.origin, optimizer=optimizer)

    for pruned, fraction in ((first, 0.5), (second, 0.75)):
        cuts, removed = pruned.origin.cuts(fraction), pruned.origin.removed
        assert pruned.removed == pytest.approx(removed(cuts))
        assert abs(pruned.removed - fraction) <= (removed(cuts + 1) - removed(cuts - 1)) / 2
    assert held(module) == whole - round(second.removed * whole)
    assert list(module.state_dict()) == names
    assert torch.isfinite(torch.tensor(trained(module, optimizer, example)))


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam])
def test_state_follows_its_weights_number_by_number(make: type[torch.optim.Optimizer]) -> None:
    """Weights and what is kept for them are pruned alike: with the weights as the state, it stays the weights."""
    module = Residual()
    options = {"momentum": 0.9} if make is torch.optim.SGD else {}
    optimizer = make(module.parameters(), lr=1e-3, **options)  # type: ignore[call-arg]
    example = torch.rand(2, 3, 8, 8)
    trained(module, optimizer, example)
    for weight in module.parameters():
        for key, value in optimizer.state[weight].items():
            if isinstance(value, Tensor) and value.shape == weight.shape:
                optimizer.state[weight][key] = weight.detach().clone()

    prune(module, example, 0.4, optimizer=optimizer)

    assert [id(w) for group in optimizer.param_groups for w in group["params"]] == [id(w) for w in module.parameters()]
    assert set(optimizer.state) == set(module.parameters())
    for weight in module.parameters():
        kept = [v for v in optimizer.state[weight].values() if isinstance(v, Tensor) and v.dim()]
        assert kept
        assert all(torch.equal(value, weight) for value in kept)
    if make is torch.optim.Adam:
        assert all(float(optimizer.state[weight]["step"]) == 2 for weight in module.parameters())


def test_a_weight_that_is_not_pruned_is_the_very_same_and_so_is_its_state() -> None:
    module, example = made("lenet5")
    optimizer = torch.optim.Adam(module.parameters())
    trained(module, optimizer, example)
    last = list(module.modules())[-1]
    assert isinstance(last, nn.Linear)
    before, state = last.bias, copy.deepcopy(optimizer.state[last.bias])
    bits = before.detach().clone()

    pruned = prune(module, example, 0.3, optimizer=optimizer)

    assert last.bias is before
    assert torch.equal(before, bits)
    assert all(torch.equal(value, state[key]) for key, value in optimizer.state[last.bias].items())
    untouched = [name for name, _ in module.named_parameters() if name not in pruned.places]
    assert [name for name in untouched if name.endswith("bias")][-1:] == [list(module.state_dict())[-1]]


def test_the_channels_that_matter_least_go() -> None:
    module = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Linear(4, 2, bias=False))
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([[3.0] * 3, [1.0] * 3, [4.0] * 3, [2.0] * 3]))
        module[1].weight.fill_(1.0)
    prune(module, torch.rand(2, 3), 0.5)
    assert module[0].weight[:, 0].tolist() == [3.0, 4.0]
    assert module[0].out_features == module[1].in_features == 2


def test_shapes_follow_from_the_fraction_and_not_from_the_way_to_it() -> None:
    at_once, example = made("squeezenet")
    by_steps = copy.deepcopy(at_once)
    origin = prune(by_steps, example, 0.25).origin
    prune(by_steps, example, 0.5, origin=origin)
    prune(at_once, example, 0.5)
    assert [w.shape for w in by_steps.parameters()] == [w.shape for w in at_once.parameters()]


def test_the_same_weights_are_pruned_the_same_way() -> None:
    one, example = made("lenet5")
    other = copy.deepcopy(one)
    prune(one, example, 0.6)
    prune(other, example, 0.6)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize(
    ("module", "example"),
    [
        (Residual(), torch.rand(2, 3, 8, 8)),
        (residual(), torch.rand(2, 1, 8, 8)),
        (Transformer(), torch.randint(0, 2, (2, 6))),
        (Transformer(tied=True), torch.randint(0, 2, (2, 6))),
    ],
    ids=["residual", "users-residual", "transformer", "tied"],
)
def test_networks_of_all_shapes_still_work(module: nn.Module, example: Tensor) -> None:
    module.train()
    shape = module(example).shape
    prune(module, example, 0.3)
    assert module.training
    assert module(example).shape == shape


def test_tied_weights_stay_tied() -> None:
    module = Transformer(tied=True)
    prune(module, torch.randint(0, 2, (2, 6)), 0.2)
    assert module.head.weight is module.tokens.weight


def test_statistics_of_batch_norm_go_with_their_channels() -> None:
    module, example = Residual(), torch.rand(2, 3, 8, 8)
    module.norm.running_mean.copy_(module.norm.weight.detach() * torch.arange(4.0))
    module.norm.weight.data.copy_(torch.arange(4.0))
    prune(module, example, 0.4)
    assert torch.equal(module.norm.running_mean, module.norm.weight)


def test_gradients_and_frozen_weights_are_kept() -> None:
    module, example = Residual(), torch.rand(2, 3, 8, 8)
    module.head.weight.requires_grad_(False)
    module(example).sum().backward()
    for weight in module.parameters():
        weight.grad = None if weight.grad is None else weight.detach().clone()
    prune(module, example, 0.4)
    assert not module.head.weight.requires_grad
    assert module.stem.weight.grad is not None
    assert torch.equal(module.stem.weight.grad, module.stem.weight)


def test_what_is_gone_does_not_come_back() -> None:
    module, example = made("lenet5")
    origin = prune(module, example, 0.5).origin
    assert prune(module, example, 0.5, origin=origin).places == {}
    with pytest.raises(InputError, match=r"removed: more than asked for"):
        prune(module, example, 0.25, origin=origin)


def test_a_state_by_names_is_carried_over() -> None:
    module, example = made("lenet5")
    before = {f"{name}/momentum_buffer": w.detach().clone() for name, w in module.named_parameters()}
    before |= {f"{name}/step": torch.tensor(3.0) for name, _ in module.named_parameters()}
    pruned = prune(module, example, 0.5)
    after = carried(before, pruned.places)
    assert after.keys() == before.keys()
    for name, weight in module.named_parameters():
        assert torch.equal(after[f"{name}/momentum_buffer"], weight)
        assert after[f"{name}/step"] is before[f"{name}/step"]
