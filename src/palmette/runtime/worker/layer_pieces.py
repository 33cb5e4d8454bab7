"""Tensors of layers that are taken piece by piece, each made once for all of its pieces.

Pieces are taken by several threads; the last one that is taken lets the whole go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from torch import Tensor

from palmette.cost.steps import Piece


class LayerPieces:
    """The tensors of layers of which some pieces have been taken, and others have not."""

    def __init__(self) -> None:
        self._whole: dict[int, Tensor | None] = {}
        self._left: dict[int, int] = {}
        self._lock = threading.Lock()

    def take(self, number: int, piece: Piece | None, make: Callable[[int], Tensor]) -> Tensor:
        """A piece of a layer's flat tensor, or all of it, which ``make`` makes."""
        if piece is None:
            return make(number)
        found = self.take_known(number, piece, make)
        assert found is not None, "what is made is a tensor"
        return found

    def take_known(self, number: int, piece: Piece, make: Callable[[int], Tensor | None]) -> Tensor | None:
        """The same, where there may be nothing to take from."""
        with self._lock:
            if number not in self._whole:
                self._whole[number], self._left[number] = make(number), piece.of
            whole = self._whole[number]
            self._left[number] -= 1
            if not self._left[number]:
                del self._whole[number], self._left[number]
        if whole is None:
            return None
        begin, end = piece.span(whole.numel())
        return whole[begin:end]
