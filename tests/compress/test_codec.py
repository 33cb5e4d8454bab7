"""Messages: as long as announced, exact without a codec, and off by at most half a step with ``int8``."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palmette.compress.codec import CODERS
from palmette.compress.coders.int8 import LEVELS
from palmette.spec.codec import SMALLEST, Codec, returning_codec

SHAPES = [(7,), (1, 1), (5, 3), (4, 3, 6), (3, 5, 4, 2), (2, 1, 8, 8)]
TYPES = [torch.float32, torch.float64]


def there_and_back(values: torch.Tensor, codec: Codec) -> torch.Tensor:
    message = CODERS[codec].compress(values, {})
    assert message.dtype == torch.uint8
    assert message.dim() == 1
    assert message.numel() == CODERS[codec].bytes_of(tuple(values.shape), values.dtype)
    return CODERS[codec].extract(message, tuple(values.shape), values.dtype)


def half_steps(values: torch.Tensor) -> torch.Tensor:
    """Half of each channel's step, spread over the channel."""
    rest = [k for k in range(values.dim()) if k != 1]
    return (values.abs().amax(dim=rest, keepdim=True) / LEVELS / 2).expand_as(values)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_without_a_codec_nothing_changes(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    values = torch.randn(shape, dtype=dtype)
    assert torch.equal(there_and_back(values, "none"), values)
    assert CODERS["none"].bytes_of(shape, dtype) == values.numel() * dtype.itemsize


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_int8_is_off_by_at_most_half_a_step_of_the_channel(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    values = torch.randn(shape, dtype=dtype) * torch.logspace(-6, 6, shape[0], dtype=dtype).view(
        -1, *[1] * (len(shape) - 1)
    )
    error = (there_and_back(values, "int8") - values).abs()
    assert (error <= half_steps(values) * (1 + 1e-4)).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_sends_a_byte_a_number_and_a_scale_a_channel(shape: tuple[int, ...]) -> None:
    channels = shape[1] if len(shape) > 1 else 1
    numbers = torch.Size(shape).numel()
    assert (
        CODERS["int8"].bytes_of(shape, torch.float32) == numbers + 4 * channels
    )  # ceil(4 · numbers / 4) and the scales
    assert CODERS["int8"].compress(torch.randn(shape), {}).numel() == numbers + 4 * channels


@given(
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=24),
    st.integers(1, 4),
    st.sampled_from(TYPES),
)
@settings(max_examples=200, deadline=None)
def test_int8_bounds_the_error_of_any_numbers(numbers: list[float], channels: int, dtype: torch.dtype) -> None:
    rows = -(-len(numbers) // channels)
    values = torch.zeros(rows * channels, dtype=dtype)
    values[: len(numbers)] = torch.tensor(numbers, dtype=dtype)
    values = values.view(rows, channels)
    error = (there_and_back(values, "int8") - values).abs()
    assert (error <= half_steps(values) * (1 + 1e-4) + torch.finfo(dtype).tiny).all()


def test_each_channel_has_a_scale_of_its_own() -> None:
    values = torch.stack([torch.linspace(-1e-3, 1e-3, 9), torch.linspace(-1e3, 1e3, 9)], 1)
    found = there_and_back(values, "int8")
    assert (found[:, 0] - values[:, 0]).abs().max() < 1e-5


def test_zeros_stay_zero_beside_others() -> None:
    values = torch.randn(4, 3, 2, 2)
    values[:, 1] = 0
    found = there_and_back(values, "int8")
    assert not found[:, 1].any()
    assert torch.isfinite(found).all()


def test_the_largest_number_of_a_channel_arrives_as_it_is() -> None:
    values = torch.tensor([[2.54, -0.5], [-1.0, 1.27]])
    assert there_and_back(values, "int8")[0, 0] == pytest.approx(2.54)
    assert there_and_back(values, "int8")[1, 1] == pytest.approx(1.27)


def test_numbers_too_small_for_a_step_become_zero() -> None:
    values = torch.full((3, 2), 1e-45)
    assert torch.isfinite(there_and_back(values, "int8")).all()


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_a_number_does_not_arrive_as_one(odd: float) -> None:
    values = torch.ones(3, 2)
    values[1, 0] = odd
    found = there_and_back(values, "int8")
    assert not torch.isfinite(found[:, 0]).all()
    assert torch.equal(found[:, 1], values[:, 1])


def test_a_tensor_that_is_not_contiguous_arrives_in_order() -> None:
    values = torch.randn(4, 6).T
    assert torch.equal(there_and_back(values, "none"), values)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (3, 67), (2, 64)])
def test_int4_is_off_by_at_most_half_a_step_of_the_block(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    values = torch.randn(shape, dtype=dtype)
    found, flat = there_and_back(values, "int4").flatten(), values.flatten()
    for begin in range(0, flat.numel(), 64):
        block = flat[begin : begin + 64]
        assert ((found[begin : begin + 64] - block).abs() <= block.abs().max() / 7 / 2 * (1 + 1e-4)).all()
    assert CODERS["int4"].bytes_of(shape, dtype) == -(-flat.numel() // 2) + -(-flat.numel() // 64) * dtype.itemsize


def test_int4_has_fifteen_levels_and_keeps_zeros_and_nan() -> None:
    values = torch.linspace(-1, 1, 64)
    assert len(set(there_and_back(values, "int4").tolist())) == 15
    assert not there_and_back(torch.zeros(3, 5), "int4").any()
    values[3] = torch.nan
    assert there_and_back(values, "int4").isnan().any()


def test_strategies_do_not_choose_a_codec_that_only_plans_name() -> None:
    assert SMALLEST == "int8"
    assert returning_codec("int4") == "int8"
