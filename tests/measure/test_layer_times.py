"""Layers are really timed, and nothing is changed by it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from palmette.errors import InputError
from palmette.measure.clocks import choose_clock
from palmette.measure.contexts import no_progress, training_mode
from palmette.measure.layer_sizes import layer_sizes
from palmette.measure.layer_times import fit_layer_times, measure_layer_times
from palmette.measure.pass_timer import BACKWARD, FORWARD, UPDATE, PassTimer, durations
from palmette.spec.profile import Times
from palmette.zoo.models import Network, network_from_module
from tests.measure.networks import network, tiny


def times_of(net: Network) -> Times:
    return measure_layer_times(net, layer_sizes(net, no_progress), no_progress)


def at(times: Times, samples: int) -> list[float]:
    """Seconds of each layer, forward and backward."""
    assert times.forward_call_s is not None
    assert times.backward_call_s is not None
    parts = zip(times.forward_call_s, times.backward_call_s, times.forward_s, times.backward_s, strict=True)
    return [fixed + back + samples * (more + back_more) for fixed, back, more, back_more in parts]


@pytest.mark.slow
def test_times_are_positive_and_a_larger_layer_takes_longer() -> None:
    small, large = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 64, 5, padding=2)
    times = times_of(network(small, nn.ReLU(), large, shape=(3, 16, 16)))

    assert all(time_s > 0 for time_s in at(times, 16))
    assert at(times, 16)[2] > 2 * at(times, 16)[0]
    assert at(times, 64)[2] > 2 * at(times, 8)[2]
    assert times.update_s[0] > 0
    assert times.update_s[1] == 0


def test_measured_times_say_how_they_came_about() -> None:
    times = times_of(tiny())
    assert times.source == "measured"
    said = times.model_extra
    assert said is not None
    assert said["measured_with"]["threads"] == 1
    assert said["measured_with"]["torch"] == torch.__version__
    assert len(said["passes"]) >= 3
    assert 0 <= said["fit_error"] < 1


@pytest.fixture
def two_threads() -> Iterator[int]:
    """More threads than are measured with, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


def test_everything_is_as_it_was_afterwards(two_threads: int) -> None:
    net = network(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2), shape=(4,))
    modules = nn.ModuleList([layer.module for layer in net.layers]).eval()
    weight = next(modules.parameters())
    weight.grad = torch.ones_like(weight)
    before = {name: value.clone() for name, value in modules.state_dict().items()}
    random = torch.get_rng_state()

    times_of(net)

    assert torch.get_num_threads() == two_threads
    assert torch.equal(torch.get_rng_state(), random)
    assert gc.isenabled()
    assert not any(module.training for module in modules.modules())
    assert all(torch.equal(value, before[name]) for name, value in modules.state_dict().items())
    assert torch.equal(weight.grad, torch.ones_like(weight))
    assert all(other.grad is None for other in list(modules.parameters())[1:])


@pytest.mark.parametrize("error", [RuntimeError("enough"), KeyboardInterrupt()])
def test_everything_is_as_it_was_after_an_error(error: BaseException, two_threads: int) -> None:
    class Fragile(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) > 8:
                raise error
            return super().forward(x)

    net = network(Fragile(4, 2), shape=(4,))
    with pytest.raises((InputError, KeyboardInterrupt), match=r"its layer 0 fails on 16 samples|^$"):
        times_of(net)
    assert torch.get_num_threads() == two_threads
    assert gc.isenabled()


def test_measuring_works_where_gradients_are_off() -> None:
    with torch.no_grad():
        times = times_of(tiny())
        assert not torch.is_grad_enabled()
    assert sum(times.backward_s) + sum(times.backward_call_s or ()) > 0


def test_progress_names_the_layers_and_goes_on() -> None:
    seen: list[tuple[str, float]] = []
    net = tiny()
    measure_layer_times(net, layer_sizes(net, no_progress), lambda layer, done: seen.append((layer, done)))
    assert {layer for layer, _ in seen} == {layer.name for layer in net.layers}
    shares = [done for _, done in seen]
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1


class Ticks(torch.autograd.Function):
    """Moves a clock by so many ticks forward, and by others backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, _: torch.Tensor, clock: list[float], ticks: int, back: int) -> torch.Tensor:
        ctx.clock, ctx.back = clock, back
        clock[0] += ticks
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        ctx.clock[0] += ctx.back
        return gradient, gradient.sum(), None, None, None


class Ticking(nn.Module):
    """A layer that takes so many ticks."""

    def __init__(self, clock: list[float], forward: int, backward: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.clock, self.ticks, self.back = clock, forward, backward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Ticks.apply(x, self.weight, self.clock, self.ticks, self.back)


def test_each_layer_gets_its_own_time() -> None:
    clock = [0.0]
    net = network(Ticking(clock, 1, 20), Ticking(clock, 3, 40), Ticking(clock, 5, 60), shape=(2,))
    with training_mode(net):
        seconds = PassTimer(net, lambda _: None, lambda: clock[0]).run(4)
    assert seconds[FORWARD].tolist() == [1, 3, 5]
    assert seconds[UPDATE].tolist() == [0, 0, 0]
    assert seconds[BACKWARD].tolist() == [20, 40, 60]


def test_gradients_that_never_came_took_no_time() -> None:
    assert durations(1.0, [9.0, None, 4.0]) == [5.0, 0.0, 3.0]


def test_medians_are_fitted_layer_by_layer() -> None:
    def reading(samples: int, slow: float = 1.0) -> np.ndarray:
        return slow * np.array([[1.0 + samples, 2.0], [3.0 * samples, 4.0 + samples], [0.5, 0.0]])

    times = fit_layer_times({many: [reading(many), reading(many, 9.0), reading(many)] for many in (2, 4, 8)})
    assert times.forward_s == pytest.approx((1.0, 0.0), abs=1e-9)
    assert times.forward_call_s == pytest.approx((1.0, 2.0))
    assert times.backward_s == pytest.approx((3.0, 1.0))
    assert times.backward_call_s == pytest.approx((0.0, 4.0), abs=1e-9)
    assert times.update_s == (0.5, 0.0)
    assert times.model_extra is not None
    assert times.model_extra["fit_error"] == pytest.approx(0.0, abs=1e-9)


def test_the_wall_clock_stays_where_other_threads_help() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def alone() -> None:
        end = thread_time() + 0.02
        while thread_time() < end:
            pass

    def helped() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(alone).result()

    assert choose_clock(alone) is thread_time
    assert choose_clock(helped) is perf_counter


def test_the_gradient_of_the_input_is_a_part_of_backward() -> None:
    net = network_from_module("plain", nn.Sequential(*(nn.Linear(64, 64) for _ in range(3))), torch.rand(2, 64))
    times = times_of(net)
    assert times.backward_input_s is not None
    assert times.backward_input_s[0] == 0.0  # nobody needs that of the data
    pairs = list(zip(times.backward_input_s, times.backward_s, strict=True))
    assert all(0.0 <= part_s <= whole_s for part_s, whole_s in pairs)
    assert any(part_s > 0 for part_s, _ in pairs)
