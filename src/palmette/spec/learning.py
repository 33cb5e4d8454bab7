"""The learning curve: the loss after so many epochs, with so much of the data, in so many replicas and windows.

    loss = floor + scale · φ^(−data_exponent) · g^(replica_exponent) · h^(window_exponent) · c · k^(−epoch_exponent)

k epochs, φ the fraction of all data in use, g the number of instances of the first layer, h the steps that replicas
take before they average their weights: 1 under ``step``, and for one replica; c the product of the factors of what
travels coded. Where sources differ in worth
(the classes that they hold, noise of their labels), ``weights`` says what a sample of each counts, 1 where it does not:
φ = Σ w(d)·x(d) / Σ w(d)·Δ(d) for x(d) samples used of the Δ(d) that d owns.

A training begins at the loss of a network that knows nothing, stays near it for a while, and only then falls like a
power of the epochs. Where the curve knows that loss, its ``start``, what is above the floor is
a/(1 + (a/m)^knee)^(1/knee) instead of the product a above, m = start − floor, which is the same where a is small.
With a ``margin``, losses are that part higher than the curve's own: a plan may count on them although runs differ from
the curve. Everything is worked out in logarithms, so that no exponent is too large for a float.

With a ``schedule`` of the learning rate that is stretched over the run, the loss is that at the end of a run of k
epochs.

``fitted_on`` says which values the runs had that a curve was fitted to. What all of them had in common is unknown: its
exponent reads 0, but nobody has tried anything else. A curve that does not say is taken as it is. The exponent of the
window is None where it is unknown, and belongs to the ``outer`` optimizer that the runs had. A codec without a factor
of its own is unknown. **Data beyond the most that a run had counts as more epochs would**, where the exponent says that
it counts for more: nobody has tried that either.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from palmette.errors import ArgumentFault, InputError
from palmette.spec.codec_term import CodecTerm, Coding
from palmette.spec.document import Count, LocatedFault, Number, OpenDocument, Positive, refuse
from palmette.spec.learning_rate import LearningRateSchedule
from palmette.spec.sync import OuterOptimizer

Exponent = Annotated[float, Field(strict=True, ge=0, le=1000)]
SignedExponent = Annotated[float, Field(strict=True, ge=-1000, le=1000)]
Knee = Annotated[float, Field(strict=True, ge=0.01, le=1000)]
Factor = Literal["epochs", "data", "replicas"]
"""What the loss depends on: k, φ and g."""
FittedValue = Literal["epochs", "data", "replicas", "window", "batch"]
"""What the runs of a curve are described by: the factors, their longest steps apart, and the samples of a batch."""
FACTORS: tuple[Factor, ...] = get_args(Factor)
Range = tuple[Positive, Positive]
_LARGEST_LOG = math.log(1e300)
_SAME = 1e-3
"""Values whose ratio is nearer to 1 are the same."""


class Learning(OpenDocument):
    """How the loss falls with epochs and data; ``floor`` is never reached."""

    format: Literal["palmette.learning/1"] = "palmette.learning/1"
    floor: Number
    scale: Positive
    epoch_exponent: Exponent
    data_exponent: Exponent
    replica_exponent: SignedExponent
    window_exponent: Exponent | None = None
    outer: OuterOptimizer | None = None
    """The outer optimizer of runs whose replicas train apart; without meaning where none do."""
    codecs: tuple[CodecTerm, ...] = ()
    """What codecs cost that runs have tried; that of any other is unknown."""
    weights: dict[str, Positive] = Field(default_factory=dict)
    """What a sample of each source counts; 1 for sources that are not named."""
    fitted_on: dict[FittedValue, Range] = Field(default_factory=dict)
    """The least and the largest value that the runs had, by factor, and of their batches; empty if it is not known."""
    schedule: LearningRateSchedule | None = None
    """How the learning rate changed in the runs; None where it is not known."""
    start: Positive | None = None
    """The loss before training; None where the curve falls from the first epoch on."""
    knee: Knee = 1.0
    """How sharply it leaves that loss: 1 slowly, 2 and more as where two lines meet."""
    margin: Number = 0.0
    """How much higher losses are taken than the curve's own, as a part of them."""
    runs: Count | None = None
    fit_error: Number | None = None
    """The root of the mean squared error of the loss over the runs that it was fitted to."""
    left_out_error: Number | None = None
    """The same over runs that were each left out of the fit; None where the others were too few."""
    left_out_runs: Count | None = None
    """Over how many runs that is: the only one with a codec, or that trained apart, cannot be predicted by others."""
    left_out_above: Number | None = None
    """The part by which nine of ten losses of these runs are above the curve at most."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        wrong = [
            LocatedFault(("fitted_on", name), f"[{low:g}, {high:g}]", "expected the least value before the largest")
            for name, (low, high) in self.fitted_on.items()
            if low > high
        ]
        codings = [term.coding for term in self.codecs]
        wrong += [
            LocatedFault(("codecs", k), str(coding), "stands there twice; expected it once")
            for k, coding in enumerate(codings)
            if coding in codings[:k]
        ]
        if self.start is not None and self.start <= self.floor:
            wrong.append(LocatedFault(("start",), f"{self.start:g}", f"expected more than the floor, {self.floor:g}"))
        if wrong:
            refuse("Learning", wrong)
        return self

    def unvaried(self) -> dict[Factor, float]:
        """The factors that no run varied, with the value that all runs had: what they change is not known."""
        known = {name: self.fitted_on[name] for name in FACTORS if name in self.fitted_on}
        return {name: high for name, (low, high) in known.items() if high - low <= _SAME * high}

    def refuse_unknown(self, model: str, fixed: Mapping[Factor, float] | None = None) -> None:
        """Refuse to plan for ``model`` with factors that no run varied, unless all plans have the runs' own value.

        Raises:
            InputError: names them, and the command that would vary them.
        """
        fixed = fixed or {}
        unknown = [
            name for name, value in self.unvaried().items() if abs(fixed.get(name, math.inf) - value) > _SAME * value
        ]
        if unknown:
            command = f"palmette pilot {model} --cluster CLUSTER --data DATA"
            expected = f"no run of this curve varied that; expected a curve of runs that do, as {command} makes them"
            raise InputError(ArgumentFault("learning", " and ".join(unknown), expected))

    def refuse_window(self, model: str, window: float, outer: OuterOptimizer | None) -> None:
        """Refuse to say what replicas of ``model`` learn that take so many steps apart, where no run tells.

        Raises:
            InputError: names the command that would.
        """
        if window <= 1:
            return
        if self.window_exponent is None:
            expected = "no run of this curve varied the number of local steps; expected a curve of runs that do"
        elif self.outer != outer:
            told = "no outer optimizer" if self.outer is None else f"the outer optimizer {self.outer.shown}"
            expected = (
                f"runs of this curve whose replicas train apart have {told}; expected a curve of runs like the plan"
            )
        else:
            return
        command = f"palmette pilot {model} --cluster CLUSTER --data DATA --windows 1,{window:g}"
        command += "" if outer is None else " --outer"
        raise InputError(
            ArgumentFault("learning", f"windows of {window:g} steps", f"{expected}, as {command} makes them")
        )

    def coded(self, model: str, codings: Iterable[Coding], window: float = 1.0) -> Learning:
        """The curve of trainings of ``model`` in which so much travels coded, and so many steps are taken apart.

        Raises:
            InputError: no run tells what one of these costs; names the command that would.
        """
        known, power = {term.coding: term for term in self.codecs}, 0.0
        for coding in codings:
            if coding not in known:
                command = f"palmette pilot {model} --cluster CLUSTER --data DATA {coding.options(window)}"
                expected = (
                    f"no run of this curve varied that; expected a curve of runs that do, as {command} makes them"
                )
                raise InputError(ArgumentFault("learning", str(coding), expected))
            power += math.log(known[coding].factor)
        return self if power == 0 else self.model_copy(update={"scale": self.scale * _exp(power)})

    def terms_of(self, codings: Iterable[Coding]) -> list[CodecTerm]:
        """What is known of the cost of some codings."""
        wanted = set(codings)
        return [term for term in self.codecs if term.coding in wanted]

    def refuse_parts(self, clients: int | None, fragments: int | None) -> None:
        """Refuse to say what is learnt where clients are drawn, or parts of the network have turns: it has no term.

        Raises:
            InputError: says so.
        """
        given = {"clients in a round": clients, "parts of the network in turns": fragments}
        for name, many in given.items():
            if many is not None:
                expected = "a learning curve does not know what that changes; expected a plan without"
                raise InputError(ArgumentFault("learning", f"{many} {name}", expected))

    def beyond(self, **values: float) -> list[str]:
        """What is outside of the runs that the curve was fitted to, by factor or ``batch``: one sentence each."""
        found = []
        for name, (low, high) in self.fitted_on.items():
            if name in values and not low * (1 - _SAME) <= values[name] <= high * (1 + _SAME):
                runs = f"{low:g}" if low == high else f"{low:g} to {high:g}"
                found.append(f"{name} {values[name]:g}: the runs of the learning curve have {runs}")
        return found

    @property
    def least_fraction_tried(self) -> float:
        """The least fraction of the data that a run used; 0 where it is not known."""
        return self.fitted_on.get("data", (0.0, 1.0))[0]

    def weight(self, source: str) -> float:
        """What a sample of a source counts."""
        return self.weights.get(source, 1.0)

    def fraction(self, used: Mapping[str, float], owned: Mapping[str, float]) -> float:
        """φ: the worth of the samples in use of each source, as a fraction of all that the sources own."""
        return sum(self.weight(name) * many for name, many in used.items()) / sum(
            self.weight(name) * many for name, many in owned.items()
        )

    def loss(self, epochs: float, fraction: float, replicas: int, window: float = 1.0) -> float:
        """The loss after so many epochs over a fraction of the data, in so many replicas, windows of so many steps."""
        return (1 + self.margin) * self.loss_from(self.log_product(epochs, fraction, replicas, window))

    def log_product(self, epochs: float, fraction: float, replicas: int, window: float = 1.0) -> float:
        """The logarithm of the product of all factors, which is what is left above the floor far from the start."""
        power = self._apart(replicas, window) - self._of_data(fraction) - self.epoch_exponent * math.log(epochs)
        return math.log(self.scale) + power

    def loss_from(self, log_product: float) -> float:
        """The loss, without the margin, where the product of all factors has this logarithm."""
        product = _exp(log_product)
        if self.start is None:
            return self.floor + product
        most = self.start - self.floor
        least, ratio = (product, product / most) if product < most else (most, most / product)
        return self.floor + least * math.exp(-math.log1p(ratio**self.knee) / self.knee)

    def log_product_for(self, loss: float) -> float:
        """The other way round: infinite for losses as before training or higher, minus infinite for the floor."""
        above = loss - self.floor
        if above <= 0:
            return -math.inf
        if self.start is None:
            return math.log(above)
        most = self.start - self.floor
        if above >= most:
            return math.inf
        ratio = max(above / most, math.ulp(0.0))  # which would be 0 for the least floats
        return math.log(above) - math.log(-math.expm1(self.knee * math.log(ratio))) / self.knee

    def least_fraction(self, loss: float, epochs: float, replicas: int) -> float:
        """The least fraction of the data that reaches a loss, above 1 where all of it does not; 0 if any does."""
        missing = self._missing(loss, replicas) - self.epoch_exponent * math.log(epochs)
        most = self.most_data
        beyond = missing - self._of_data(most)
        if beyond <= 0 or math.isinf(most):
            if self.data_exponent == 0:
                return 0.0 if missing <= 0 else math.inf
            return _exp(missing / self.data_exponent)
        exponent = min(self.data_exponent, self.epoch_exponent)
        return math.inf if exponent == 0 else most * _exp(beyond / exponent)

    def least_epochs(self, loss: float, fraction: float, replicas: int, window: float = 1.0) -> float:
        """The least epochs, not rounded, that reach a loss with a fraction of the data; infinite if none do."""
        missing = self._missing(loss, replicas, window) - self._of_data(fraction)
        if self.epoch_exponent == 0:
            return 1.0 if missing <= 0 else math.inf
        return max(1.0, _exp(missing / self.epoch_exponent))

    def log_epochs(self, loss: float, replicas: int) -> tuple[float, float]:
        """The a and b of log k = a − b·log φ, the epochs k that reach a loss, for φ up to ``most_data``.

        Beyond, b is 1 at most. Needs an ``epoch_exponent``.
        """
        return self._missing(loss, replicas) / self.epoch_exponent, self.data_exponent / self.epoch_exponent

    @property
    def most_data(self) -> float:
        """The largest fraction of the data that a run used; infinite where it is not known, or all used the same."""
        low, high = self.fitted_on.get("data", (0.0, math.inf))
        return high if high - low > _SAME * high else math.inf

    @property
    def most_replicas(self) -> float:
        """The most replicas that a run had; infinite where it is not known."""
        return self.fitted_on.get("replicas", (1.0, math.inf))[1]

    def _of_data(self, fraction: float) -> float:
        """What a fraction of the data adds to the logarithm of what is learnt."""
        known = min(fraction, self.most_data)
        beyond = min(self.data_exponent, self.epoch_exponent) * math.log(fraction / known)
        return self.data_exponent * math.log(known) + beyond

    def _missing(self, loss: float, replicas: int, window: float = 1.0) -> float:
        """The logarithm of what epochs and data have to make up for."""
        allowed = self.log_product_for(loss / (1 + self.margin)) - math.log(self.scale)
        return self._apart(replicas, window) - min(allowed, _LARGEST_LOG)

    @property
    def least_loss(self) -> float:
        """The loss that is never reached, margin included."""
        return (1 + self.margin) * self.floor

    def counted_on(self, loss: float) -> str | None:
        """What a plan for a loss is really for, in a sentence; None without a margin."""
        if not self.margin:
            return None
        aimed = f"planned for a loss of {loss / (1 + self.margin):.4g}, so that {loss:g} is kept where a run is above"
        ends = f"palmette run --stop-at loss:{loss:g} ends once it is reached"
        return f"{aimed} the learning curve by {self.margin:.0%}: {ends}, palmette learn --margin 0 plans without"

    def told_of_schedule(self, trained: LearningRateSchedule | None) -> str | None:
        """What a plan says whose training has another schedule of the learning rate than the runs, in a sentence.

        ``trained`` is that of its recipe; None where nobody says which it is.
        """
        own = self.schedule
        if own is None or own == trained or (trained is None and own.is_usual):
            return None
        runs = f"the runs of the learning curve had the learning rate {own.shown}"
        if trained is None:
            return (
                f"{runs}; the epochs of this plan count on that: palmette run {own.options}, or a recipe that says so"
            )
        return f"{runs}, and the recipe says {trained.shown}: another loss may be reached; palmette pilot with it tells"

    def _apart(self, replicas: int, window: float) -> float:
        """The logarithm of what replicas and windows cost; ``refuse_window`` refuses windows that nobody tried."""
        known = min(replicas, self.most_replicas) if self.replica_exponent < 0 else replicas
        return self.replica_exponent * math.log(known) + (self.window_exponent or 0.0) * math.log(window)

    def to_json(self) -> str:
        """The curve as the text of a file."""
        return json.dumps(self.model_dump(mode="json"), indent=1) + "\n"


def _exp(power: float) -> float:
    return math.exp(power) if power < 700 else math.inf
