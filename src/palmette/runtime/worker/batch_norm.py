"""Batch norm over the whole batch where several instances hold its layer.

Every batch norm that is called inside ``SharedNorms`` asks for the totals over all its replicas, in the forward and in
the backward pass; with them it computes what one process computes with the whole batch (Ioffe and Szegedy, 2015):

    forward    n, Σx, Σx²                        y = γ x̂ + β,   x̂ = (x − μ) / √(σ² + ε)
    backward   Σdy, Σ dy·x̂                       dx = γ / √(σ² + ε) · (dy − Σdy / n − x̂ · Σ dy·x̂ / n)

Sums are float64, so that adding them up loses no precision; nothing else is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from palmette.spec.plan import Phase
from palmette.zoo.batch_norms import BatchNormCall, batch_norm_call

AskTotals = Callable[[int, int, Tensor], Tensor]
"""From a layer, the index of its batch norm and one replica's sums to the totals over all replicas."""

SUMS = torch.float64


def alone(_layer: int, _number: int, sums: Tensor) -> Tensor:
    """The totals where there is only one replica: its own sums."""
    return sums


class SharedNorms(TorchFunctionMode):
    """Makes the batch norms of a layer ask for totals, at every call; in the forward pass with ``ask_forward``."""

    def __init__(self, layer: int, ask: AskTotals, ask_forward: AskTotals | None = None) -> None:
        super().__init__()
        self._layer, self._ask, self._ask_forward = layer, ask, ask_forward or ask
        self._called = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function; a batch norm that uses batch statistics gets those of all replicas."""
        norm = batch_norm_call(func, args, kwargs or {})
        if norm is None:
            return func(*args, **(kwargs or {}))
        number, self._called = self._called, self._called + 1
        if not norm.uses_batch:
            return func(*args, **(kwargs or {}))
        ask_forward, ask = (partial(each, self._layer, number) for each in (self._ask_forward, self._ask))
        return _normalised(norm, ask_forward, ask)


def _normalised(
    norm: BatchNormCall, ask_forward: Callable[[Tensor], Tensor], ask: Callable[[Tensor], Tensor]
) -> Tensor:
    """The output of a batch norm with the statistics of all replicas; updates its running statistics."""
    with torch.no_grad():
        rest = [axis for axis in range(norm.values.dim()) if axis != 1]
        values = norm.values.detach().to(SUMS)
        count = values.new_tensor([values.numel() // norm.channels])
        totals = ask_forward(torch.cat((count, values.sum(rest), values.square().sum(rest))))
        many, mean = float(totals[0]), totals[1 : 1 + norm.channels] / totals[0]
        variance = (totals[1 + norm.channels :] / many - mean.square()).clamp_(min=0)
        _keep(norm, mean, variance * many / max(1.0, many - 1))
        scale = torch.rsqrt(variance + norm.eps)
    whole = _WholeBatchNorm(mean, scale, many, ask)
    normalised: Tensor = _Normalise.apply(norm.values, norm.weight, norm.bias, whole)  # type: ignore[no-untyped-call]
    return normalised


def _keep(norm: BatchNormCall, mean: Tensor, variance: Tensor) -> None:
    """Move the running statistics towards those of this batch."""
    for kept, now in ((norm.running_mean, mean), (norm.running_var, variance)):
        if kept is not None and norm.training:
            kept.mul_(1 - norm.momentum).add_(now.to(kept.dtype), alpha=norm.momentum)


class _WholeBatchNorm(NamedTuple):
    """The whole batch: mean and 1 / √(σ² + ε) per channel, the number of values, and how to get totals."""

    mean: Tensor
    scale: Tensor
    many: float
    ask: Callable[[Tensor], Tensor]


class _Normalise(torch.autograd.Function):
    """γ (x − μ) / √(σ² + ε) + β, with the gradient that μ and σ² of the whole batch give."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor | None, bias: Tensor | None, whole: _WholeBatchNorm) -> Tensor:
        """The normalised values."""
        spread = [-1 if axis == 1 else 1 for axis in range(values.dim())]
        mean, scale = (each.to(values.dtype).view(spread) for each in (whole.mean, whole.scale))
        ctx.unit = (values - mean) * scale
        ctx.scale = scale if weight is None else scale * weight.to(values.dtype).view(spread)
        ctx.whole = whole
        ctx.types = [None if each is None else each.dtype for each in (weight, bias)]
        made: Tensor = ctx.unit.clone() if weight is None else ctx.unit * weight.to(values.dtype).view(spread)
        return made if bias is None else made + bias.to(values.dtype).view(spread)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradients of values, weight and bias; those of weight and bias are for this replica's samples."""
        (gradient,) = gradients
        rest = [axis for axis in range(gradient.dim()) if axis != 1]
        spread = [-1 if axis == 1 else 1 for axis in range(gradient.dim())]
        sums = torch.cat([each.to(SUMS).sum(rest) for each in (gradient, gradient * ctx.unit)])
        whole: _WholeBatchNorm = ctx.whole
        totals = whole.ask(torch.cat((sums.new_tensor([whole.many]), sums)))[1:] / whole.many
        shift, slope = (each.to(gradient.dtype).view(spread) for each in totals.chunk(2))
        passed = ctx.scale * (gradient - shift - ctx.unit * slope)
        own = sums.chunk(2)[::-1]  # of weight and bias
        weights = [None if kind is None else each.to(kind) for kind, each in zip(ctx.types, own, strict=True)]
        return passed, *weights, None


def shared_norm_layers(phase: Phase) -> set[int]:
    """The replicated layers whose batch norm uses the statistics of the whole batch."""
    if phase.batch_norm == "parts" or not phase.sync_kind.one_model:
        return set()
    held = Counter(n for i in phase.instances for n in range(i.layers[0], i.layers[1] + 1))
    return {number for number, many in held.items() if many > 1}
