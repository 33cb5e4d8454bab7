"""Losses that can be summed over parts of a batch, so that a batch spread over nodes has the mean of one process.

What a user writes is a module or a function of outputs and targets. It gives one value per sample (or per token, per
pixel: more dimensions), or a sum with the count that it is divided by, or it is one of torch's own losses, whose
``reduction`` is changed so that it does. A loss that returns one number for a batch cannot be split, and is refused.

    one process          mean = sum / count
    two nodes            mean = (sum₁ + sum₂) / (count₁ + count₂)
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from palmette.errors import Fault, InputError
from palmette.zoo.data.base import LabelTree
from palmette.zoo.recipes.recipe import UserLoss
from palmette.zoo.user_code import user_error

# A label that no data can have: PyTorch's default would ignore samples labelled -100.
_NONE_IGNORED = torch.iinfo(torch.int64).min
_CROSS_ENTROPIES = (nn.CrossEntropyLoss, nn.NLLLoss)
Loss = TypeVar("Loss", bound=nn.Module)


class LossTotal(NamedTuple):
    """The sum of the losses of some samples, and what the sum over a whole batch is divided by."""

    total: Tensor
    divisor: Tensor


class LossFunction(Protocol):
    """The loss of some samples; picklable, as it goes to the workers.

    ``per_sample`` is what one sample adds to the divisor, where that is the same for all; None where it varies.
    """

    @property
    def per_sample(self) -> float | None:
        """What one sample adds to the divisor."""
        ...

    def __call__(self, outputs: Any, targets: LabelTree) -> LossTotal:
        """Sum and divisor over the samples."""
        ...

    def to(self, device: torch.device, dtype: torch.dtype) -> LossFunction:
        """The loss with its own numbers, such as weights of classes, on a device and in a dtype."""
        ...


@dataclass(frozen=True)
class ClassificationLoss:
    """Cross-entropy of class numbers."""

    per_sample: float | None = 1.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> LossTotal:
        """Sum and count over the samples."""
        total = nn.functional.cross_entropy(outputs, targets, reduction="sum", ignore_index=_NONE_IGNORED)
        return LossTotal(total, torch.tensor(float(len(targets))))

    def to(self, device: torch.device, dtype: torch.dtype) -> ClassificationLoss:
        """The same: it has no numbers."""
        return self


@dataclass(frozen=True)
class SplittableLoss:
    """A user's loss, called so that it gives a value per sample, or a sum with a count.

    One of a recipe that has a name is found by that on other nodes, which ``find`` does: no code travels.
    """

    name: str
    function: UserLoss
    per_sample: float | None
    find: Callable[[], UserLoss] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.find is None:
            return SplittableLoss, (self.name, self.function, self.per_sample)
        return found_loss, (self.name, self.find, self.per_sample)

    def __call__(self, outputs: Any, targets: LabelTree) -> LossTotal:
        """Sum and count over the samples.

        Raises:
            InputError: it returns something that cannot be summed over parts of a batch.
        """
        return _total(self.function(_with_attributes(outputs), targets), self.name)

    def to(self, device: torch.device, dtype: torch.dtype) -> SplittableLoss:
        """The loss with its own numbers on a device and in a dtype."""
        if not isinstance(self.function, nn.Module | _WeightedMean):
            return self
        return replace(self, function=copy.deepcopy(self.function).to(device, dtype))


def found_loss(name: str, find: Callable[[], UserLoss], per_sample: float | None) -> SplittableLoss:
    """A loss that was tried elsewhere, found on this node."""
    return SplittableLoss(name, _unreduced(find()), per_sample, find)


def splittable(
    loss: UserLoss, outputs: Any, targets: LabelTree, name: str, find: Callable[[], UserLoss] | None = None
) -> SplittableLoss:
    """A user's loss as one that can be split, tried on the outputs and targets of some samples.

    ``name`` is what errors call it; ``find`` finds it on another node.

    Raises:
        InputError: it fails, or returns what cannot be summed over parts of a batch.
    """
    made = SplittableLoss(name, _unreduced(loss), None, find)
    here = made.to(torch.device("cpu"), _dtype(outputs))
    try:
        found = here(outputs, targets)
        halves = [here(*_part(part, outputs, targets)) for part in (slice(0, 1), slice(1, None))]
    except InputError:
        raise
    except Exception as error:
        raise InputError(Fault("loss", name, f"it fails: {user_error(error)}")) from error
    whole, parts = found.total, sum(half.total for half in halves)
    if bool(whole.isnan()):
        expected = "it is NaN for the first samples; expected a number, so that there is something to learn"
        raise InputError(Fault("loss", name, expected))
    if not torch.allclose(whole, torch.as_tensor(parts, dtype=whole.dtype), rtol=1e-3, atol=1e-5):
        expected = "the losses of a batch's parts do not add up to that of the batch; expected a value per sample"
        raise InputError(Fault("loss", name, expected))
    counts = [float(each.divisor) for each in (found, *halves)]
    if not math.isclose(counts[0], sum(counts[1:]), rel_tol=1e-4, abs_tol=1e-6):
        wrong = f"a batch counts {counts[0]:g}, its parts {counts[1]:g} and {counts[2]:g}"
        raise InputError(Fault("loss", name, f"{wrong}; expected counts that add up, as the number of samples"))
    varies = isinstance(here.function(_with_attributes(outputs), targets), tuple | list)
    return made if varies else replace(made, per_sample=float(found.divisor) / _samples(outputs))


def refuse_without_gradient(loss: SplittableLoss, outputs: Any, targets: LabelTree) -> None:
    """Refuse a loss from which nothing would be learned, tried on the outputs and targets of some samples.

    Raises:
        InputError: no gradient flows back to the outputs.
    """
    with torch.enable_grad():
        given = pytree.tree_map(lambda t: t.clone().requires_grad_() if t.is_floating_point() else t, outputs)
        total = loss.to(torch.device("cpu"), _dtype(outputs))(given, targets).total
    if not total.requires_grad:
        expected = "no gradient flows back from it; expected a function of the outputs that torch differentiates"
        raise InputError(Fault("loss", loss.name, expected))


class OutputDict(dict[str, Any]):
    """What a network returns by name, as a ``ModelOutput`` of transformers has it: also by attribute and by place."""

    def __getitem__(self, key: str | int | slice) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no output {name!r}; the network returns {', '.join(self)}") from None


def _with_attributes(outputs: Any) -> Any:
    return OutputDict(outputs) if type(outputs) is dict else outputs


def takes_classes(loss: UserLoss) -> bool:
    """Whether a loss is torch's cross-entropy of class numbers."""
    function = loss.func if isinstance(loss, partial) else loss
    return isinstance(loss, _CROSS_ENTROPIES) or function in (nn.functional.cross_entropy, nn.functional.nll_loss)


def _part(chosen: slice, outputs: Any, targets: LabelTree) -> tuple[Any, LabelTree]:
    """The outputs and targets of some samples."""
    return pytree.tree_map(lambda t: t[chosen], outputs), pytree.tree_map(lambda t: t[chosen], targets)


def _samples(outputs: Any) -> int:
    return len(pytree.tree_leaves(outputs)[0])


def _dtype(outputs: Any) -> torch.dtype:
    floats = [each.dtype for each in pytree.tree_leaves(outputs) if each.is_floating_point()]
    return floats[0] if floats else torch.get_default_dtype()


def _total(found: Any, name: str) -> LossTotal:
    """Sum and divisor of what a loss returned.

    Raises:
        InputError: it is neither values nor a sum with a count.
    """
    if isinstance(found, tuple | list) and len(found) == 2:
        total, count = found
        if isinstance(total, Tensor) and total.dim() == 0:
            return LossTotal(total, _checked_count(count, name))
    if isinstance(found, Tensor) and found.dim() > 0:
        return LossTotal(found.sum(), torch.tensor(float(found.numel())))
    kind = "one number for all samples" if isinstance(found, Tensor) else f"a {type(found).__name__}"
    expected = "expected a value per sample (reduction='none'), or (sum, count)"
    raise InputError(Fault("loss", name, f"it returns {kind}, which cannot be split over nodes; {expected}"))


def _checked_count(count: Any, name: str) -> Tensor:
    """What a loss says that its samples count.

    Raises:
        InputError: it is not one number, or none that a sum can be divided by.
    """
    found = torch.as_tensor(count, dtype=torch.float64).detach()
    if found.numel() != 1 or not 0 <= float(found) < math.inf:
        said = f"{found.numel()} numbers" if found.numel() != 1 else f"{float(found):g}"
        raise InputError(Fault("loss", name, f"its count is {said}; expected one number, 0 or more"))
    return found.reshape(())


def _unreduced(loss: UserLoss) -> UserLoss:
    """The loss with torch's ``reduction`` such that it can be split."""
    if isinstance(loss, _CROSS_ENTROPIES) and loss.reduction == "mean":
        return _WeightedMean(_with_reduction(loss, "sum"))
    if isinstance(loss, nn.Module) and getattr(loss, "reduction", None) == "mean":
        return _with_reduction(loss, "none")
    function = loss.func if isinstance(loss, partial) else loss
    if getattr(function, "__module__", "") == "torch.nn.functional" and "reduction" in _parameters(function):
        if takes_classes(loss):
            return _unreduced(_as_module(loss))
        return partial(cast("Callable[..., Any]", loss), reduction="none")
    return loss


def _as_module(loss: UserLoss) -> nn.Module:
    """Torch's cross-entropy of a function as the module that does the same."""
    function, options = (loss.func, loss.keywords) if isinstance(loss, partial) else (loss, {})
    kind = nn.CrossEntropyLoss if function is nn.functional.cross_entropy else nn.NLLLoss
    return kind(**options)


def _parameters(function: Callable[..., Any]) -> Any:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()


def _with_reduction(loss: Loss, reduction: str) -> Loss:
    changed = copy.copy(loss)
    changed.reduction = reduction  # type: ignore[assignment]
    return changed


@dataclass(frozen=True, eq=False)
class _WeightedMean:
    """Torch's cross-entropy: its mean is over samples that are not ignored, by the weights of their classes."""

    loss: nn.CrossEntropyLoss | nn.NLLLoss

    def to(self, device: torch.device, dtype: torch.dtype) -> _WeightedMean:
        return _WeightedMean(self.loss.to(device, dtype))

    def __call__(self, outputs: Tensor, targets: Tensor) -> Any:
        if targets.is_floating_point():  # probabilities: torch divides by the samples
            samples = targets.numel() // targets.shape[1]
            return self.loss(outputs, targets), samples
        counted = targets != self.loss.ignore_index
        weights: Tensor | None = getattr(self.loss, "weight", None)
        count = counted.sum() if weights is None else weights[targets[counted]].sum()
        return self.loss(outputs, targets), count
