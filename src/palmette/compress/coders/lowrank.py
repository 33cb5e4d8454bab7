"""Two thin matrices whose product is close to a matrix: a step of the power method, begun where the last one ended.

PowerSGD (Vogels, Karimireddy, Jaggi, 2019): M is a weight's gradient as a matrix, its first dimension against the rest.

    P = orthonormal columns of M Q        Q ← Mᵀ P        M ≈ P Qᵀ

Q is remembered for the next message (warm start), so that it follows the strongest directions of gradients that
change slowly. A column of Q that a matrix of less rank has left at nothing begins anew: the method would never leave
it, however large later gradients are. In the paper, workers add up P, and then Q, so that all need two rounds; here
each sender codes its own matrix, so that one message suffices. A weight whose matrices would take as much as itself
(a bias) travels as it is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from palmette.compress.coders.base import Memory, numbers_in, raw_bytes
from palmette.spec.exchange import Exchange, columns_of, matrix_of

BASIS = "basis"


class LowRankCoder:
    """Sends two thin matrices."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def compress(self, values: Tensor, memory: Memory) -> Tensor:
        """The bytes of P, then of Q, which is remembered."""
        rank = columns_of(self._exchange, values.shape)
        if not rank:
            return raw_bytes(values)
        matrix = values.reshape(matrix_of(values.shape)).to(_exact(values.dtype))
        basis = first_basis(matrix.shape[1], rank).to(matrix.dtype)
        last = memory.get(BASIS)
        if last is not None and last.shape == basis.shape:
            basis = _directions(last.to(matrix.dtype), basis)
        left = torch.linalg.qr(matrix @ basis).Q
        memory[BASIS] = right = (matrix.T @ left).to(values.dtype)
        return torch.cat((raw_bytes(left.to(values.dtype)), raw_bytes(right)))

    def extract(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The product, column by column: multiplied and added apart, so that every machine rounds the same way."""
        rank = columns_of(self._exchange, shape)
        if not rank:
            return numbers_in(message, dtype).view(shape)
        rows, columns = matrix_of(shape)
        both = numbers_in(message, dtype)
        left, right = both[: rows * rank].view(rows, rank), both[rows * rank :].view(columns, rank)
        total = left[:, :1] * right[:, 0]
        for k in range(1, rank):
            total += left[:, k : k + 1] * right[:, k]
        return total.view(shape)

    def bytes_of(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """Those of both matrices."""
        return self._exchange.bytes_of(shape, dtype.itemsize)


def first_basis(columns: int, rank: int) -> Tensor:
    """Where the power method begins: the same random numbers for all matrices with as many columns."""
    chance = torch.Generator().manual_seed(columns)
    return torch.randn(columns, rank, generator=chance, dtype=torch.float64)


def _directions(last: Tensor, anew: Tensor) -> Tensor:
    """The columns that the last message ended with, each as long as others; rounding errors alone begin ``anew``."""
    lengths = last.abs().amax(dim=0)
    spent = lengths <= torch.finfo(last.dtype).eps * lengths.amax()
    return torch.where(spent, anew, last / lengths)


def _exact(dtype: torch.dtype) -> torch.dtype:
    """The type to compute in: at least single precision."""
    return torch.float32 if dtype.itemsize < torch.float32.itemsize else dtype
