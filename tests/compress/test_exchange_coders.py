"""Codecs of exchanges against independent references, and what error feedback promises."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import _orthogonalize

from palmette.compress.codec import exchange_coder
from palmette.compress.coders.base import Memory
from palmette.compress.coders.lowrank import BASIS, first_basis
from palmette.compress.error_feedback import ErrorFeedback
from palmette.compress.kept_indices import KeptIndices, carried
from palmette.spec.exchange import BLOCK, Exchange, known_exchange

ALL = ["none", "bf16", "int8", "topk:0.1", "topk:1", "lowrank:1", "lowrank:3"]
SHAPES = [(), (1,), (7,), (300,), (16, 24), (6, 3, 5, 5), (1, 9), (40, 1)]
TYPES = [torch.float32, torch.float64]


def numbers(shape: tuple[int, ...], dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def there_and_back(values: Tensor, exchange: Exchange, memory: Memory | None = None) -> Tensor:
    coder, shape = exchange_coder(exchange), tuple(values.shape)
    message = coder.compress(values, {} if memory is None else memory)
    assert (message.dtype, message.dim()) == (torch.uint8, 1)
    assert message.numel() == coder.bytes_of(shape, values.dtype) == exchange.bytes_of(shape, values.dtype.itemsize)
    unaligned = torch.cat((torch.zeros(1, dtype=torch.uint8), message))[1:]  # as a part of a longer message
    found = coder.extract(unaligned if exchange.codec != "none" else message, shape, values.dtype)
    assert (found.shape, found.dtype) == (values.shape, values.dtype)
    return found


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("dtype", TYPES)
def test_messages_are_as_long_as_announced_whatever_the_shape(text: str, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        there_and_back(numbers(shape, dtype), known_exchange(text))


def test_bf16_rounds_as_torch_does() -> None:
    values = numbers((50, 7), torch.float32)
    assert torch.equal(there_and_back(values, known_exchange("bf16")), values.bfloat16().float())


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=3 * BLOCK), st.sampled_from(TYPES))
@settings(max_examples=60, deadline=None)
def test_int8_is_off_by_at_most_half_a_step_of_its_block(given_numbers: list[float], dtype: torch.dtype) -> None:
    values = torch.tensor(given_numbers, dtype=dtype)
    found = there_and_back(values, known_exchange("int8"))
    for begin in range(0, len(values), BLOCK):
        block = values[begin : begin + BLOCK]
        half = block.abs().max() / 127 / 2
        assert ((found[begin : begin + BLOCK] - block).abs() <= half * (1 + 1e-4) + torch.finfo(dtype).tiny).all()


def test_a_block_of_int8_has_a_scale_of_its_own() -> None:
    values = torch.cat((torch.full((BLOCK,), 1e-6), torch.full((BLOCK,), 1e6)))
    assert torch.allclose(there_and_back(values, known_exchange("int8")), values, rtol=1e-6)


@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.5, 1.0])
def test_topk_sends_what_sorting_finds(ratio: float) -> None:
    values = numbers((12, 25))
    many = math.ceil(ratio * 300)
    expected = torch.zeros(300, dtype=torch.float64)
    places = values.flatten().abs().argsort(descending=True)[:many]
    expected[places] = values.flatten()[places]
    assert torch.equal(there_and_back(values, Exchange(codec="topk", ratio=ratio)).flatten(), expected)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_lowrank_is_the_algebra_of_torchs_powersgd(rank: int) -> None:
    """Three steps of PyTorch's own hook's P and Q for one worker, with its orthogonalization and warm start."""
    exchange, memory = Exchange(codec="lowrank", rank=rank), Memory()
    right = first_basis(45, rank)
    for step in range(3):
        matrix = numbers((20, 45), seed=step)
        left = matrix @ right
        _orthogonalize(left.unsqueeze(0))
        right = matrix.T @ left
        found = there_and_back(matrix, exchange, memory)
        assert torch.allclose(found, left @ right.T, rtol=1e-10, atol=1e-10)
        # PyTorch may choose the other sign of a column: of P and of Q, so that the product is the same.
        assert torch.allclose(memory[BASIS].abs(), right.abs(), rtol=1e-9, atol=1e-10)


def test_lowrank_finds_a_matrix_of_that_rank_at_once_and_follows_others() -> None:
    thin = numbers((30, 2)) @ numbers((2, 40), seed=1)
    assert torch.allclose(there_and_back(thin, known_exchange("lowrank:2")), thin, atol=1e-10)
    slowly, memory = numbers((30, 40)), Memory()
    errors = [float((there_and_back(slowly, known_exchange("lowrank:4"), memory) - slowly).norm()) for _ in range(12)]
    best = torch.linalg.svdvals(slowly)[4:].norm()
    assert errors[-1] < errors[0]
    assert errors[-1] == pytest.approx(float(best), rel=0.02)


@pytest.mark.parametrize("first", ["zeros", "one row", "one column"])
def test_lowrank_finds_its_rank_after_matrices_of_less(first: str) -> None:
    """An embedding whose first rows no sample uses: gradients that were zero say nothing about later ones."""
    thin, memory = numbers((30, 2)) @ numbers((2, 40), seed=1), Memory()
    thin[:4] = 0
    less = torch.zeros_like(thin)
    if first == "one row":
        less[20] = thin[20]
    if first == "one column":
        less[:, 7] = thin[:, 7]
    for _ in range(2):
        there_and_back(less, known_exchange("lowrank:2"), memory)
    for _ in range(2):
        found = there_and_back(thin, known_exchange("lowrank:2"), memory)
    assert torch.allclose(found, thin, atol=1e-9)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_lowrank_takes_numbers_of_any_size(size: float) -> None:
    thin, memory = size * (numbers((30, 2)) @ numbers((2, 40), seed=1)).float(), Memory()
    for _ in range(3):
        assert torch.allclose(there_and_back(thin, known_exchange("lowrank:2"), memory), thin, atol=1e-5 * size)


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0)])
def test_a_weight_without_numbers_takes_no_bytes(text: str, shape: tuple[int, ...]) -> None:
    there_and_back(torch.zeros(shape), known_exchange(text))


@pytest.mark.parametrize("text", ALL)
def test_zeros_arrive_as_zeros(text: str) -> None:
    assert not there_and_back(torch.zeros(9, 300), known_exchange(text)).any()


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_training_that_has_diverged_shows_it(text: str, value: float) -> None:
    values = torch.ones(20, 30)
    values[3, 4] = value
    assert not there_and_back(values, known_exchange(text)).isfinite().all()


@given(st.sampled_from(ALL), st.integers(1, 8), st.sampled_from([(7,), (300,), (16, 24)]))
@settings(max_examples=60, deadline=None)
def test_what_was_sent_and_the_residual_make_up_all_gradients(text: str, steps: int, shape: tuple[int, ...]) -> None:
    feedback, sent = ErrorFeedback(exchange_coder(known_exchange(text))), torch.zeros(shape, dtype=torch.float64)
    for step in range(steps):
        values = numbers(shape, seed=step)
        late = feedback.take_residual("w")
        message, arriving = feedback.compress("w", values if late is None else values + late)
        assert torch.equal(arriving, feedback.coder.extract(message, shape, torch.float64))
        sent += arriving
    residual = feedback.take_residual("w")
    assert residual is not None
    assert torch.allclose(sent + residual, sum(numbers(shape, seed=k) for k in range(steps)), atol=1e-12)


def test_pruning_shrinks_residuals_with_their_weight_and_forgets_a_basis() -> None:
    places = {"w": KeptIndices(torch.Size((4, 3)), torch.Size((2, 3)), torch.tensor([0, 1, 2, 6, 7, 8]))}
    residual = torch.arange(12.0).view(4, 3)
    state = {"w/exchange:a:residual": residual, "w/exchange:a:basis": torch.ones(3, 1), "w/momentum_buffer": residual}
    found = carried(state, places)
    assert found.keys() == {"w/exchange:a:residual", "w/momentum_buffer"}
    assert torch.equal(found["w/exchange:a:residual"], residual[[0, 2]])
