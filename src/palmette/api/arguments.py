"""What several functions take: a file, a network, data, and who is told of progress."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.data import Dataset

    from palmette.zoo.recipes.recipe import Recipe

    Data = str | Dataset[Any] | tuple[Dataset[Any], Dataset[Any]]
    Model = str | nn.Module | Recipe

File = str | PathLike[str]
Progress = Callable[[str, float], None]
