"""What a user asks of a run beside the plan, checked where it is defined."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from palmette.control.prune import Compression, known_compression
from palmette.control.run.callables import from_reference, to_reference
from palmette.control.run.known_names import refuse_unknown
from palmette.control.track.registry import refuse_trackers
from palmette.errors import ArgumentFault, Fault, InputError
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.optimizer_choice import optimizer_cost
from palmette.runtime.options import Options
from palmette.spec.limits import MOST_DILATION
from palmette.testbed.registry import TESTBEDS, default_testbed
from palmette.zoo.models import UNNAMED
from palmette.zoo.recipes.recipe import Recipe
from palmette.zoo.user_code import at_line

LEAST_DRIFT = 0.05
USUAL_TRANSPORT = "gloo"
SUMMED_TRACE, FULL_TRACE = "summed", "full"
_CALLABLES = ("optimizer", "schedule")
# What the user of this machine allows is asked of each command, and never taken from a file.
_PERMISSIONS = ("insecure",)
_OF_THE_OPTIMIZER = ("lr", "weight_decay", "momentum", "nesterov", "optimizer_options", "groups")


@dataclass(frozen=True, kw_only=True)
class CommonRequest:
    """What a user asks of a run and of a pre-training alike: which data, where workers run, how to train.

    The testbed is ``paced`` if not given, and ``none`` where the hosts are real. ``listen`` is where an engine waits
    for workers that dial in. ``insecure`` allows messages in the clear between machines.

    Raises:
        InputError: an argument is out of its range; holds every fault.
    """

    data: str | None = None
    engine: str = "local"
    testbed: str = ""
    dilation: float | None = None
    input_shape: tuple[int, ...] | None = None
    keys: str | None = None
    listen: str | None = None
    insecure: bool = False
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        if not self.testbed:
            real_hosts = self.engine in ENGINES and ENGINES[self.engine].real_hosts
            object.__setattr__(self, "testbed", default_testbed(real_hosts=real_hosts))
        faults = list(self._faults())
        if faults:
            raise InputError(faults)
        refuse_unknown("engine", self.engine)
        refuse_unknown("testbed", self.testbed)

    @property
    def emulated(self) -> bool:
        """Whether the testbed emulates the cluster."""
        return TESTBEDS[self.testbed].emulates

    def _faults(self) -> Iterator[ArgumentFault]:
        if self.dilation is not None and not 1 <= self.dilation <= MOST_DILATION:
            yield ArgumentFault("dilation", self.dilation, f"expected a number from 1 to {MOST_DILATION:g}")
        if self.input_shape is not None and (not self.input_shape or min(self.input_shape) < 1):
            yield ArgumentFault("input_shape", self.input_shape, "expected whole numbers of 1 or more")


@dataclass(frozen=True, kw_only=True)
class Request(CommonRequest):
    """What a user asks of a run beside the plan: the fields are the arguments of ``palmette.run``.

    ``recipe`` is given by its name, or, from Python, as an object; ``track`` holds names of trackers,
    ``meter`` a node and its meter each: ``phone=replay:plug.csv``. The transport is ``gloo`` if not given, or the
    engine's own.
    """

    recipe: str | Recipe | None = None
    iterations: int | None = None
    epochs: int | None = None
    transport: str = ""
    hub: str | None = None
    init: str | None = None
    keep_samples: str | None = None
    cluster_file: str | None = None
    replan: bool = True
    allow_data_loss: bool = False
    compress: Compression | None = None
    drift: float = 0.5
    track: tuple[str, ...] = ()
    meter: tuple[str, ...] = ()
    patience_s: float = 86400.0
    trace: str = SUMMED_TRACE

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.transport:
            object.__setattr__(self, "transport", ENGINES[self.engine].transport or USUAL_TRANSPORT)
        refuse_unknown("transport", self.transport)
        refuse_trackers(self.track)
        if self.compress is not None:
            known_compression(self.compress)

    def _faults(self) -> Iterator[ArgumentFault]:
        for name, count in (("iterations", self.iterations), ("epochs", self.epochs)):
            if count is not None and count < 1:
                yield ArgumentFault(name, count, "expected at least 1")
        if self.iterations is not None and self.epochs is not None:
            yield ArgumentFault("epochs", self.epochs, "expected either epochs or iterations, not both")
        yield from super()._faults()
        if not LEAST_DRIFT <= self.drift < math.inf:
            yield ArgumentFault("drift", self.drift, f"expected a number of at least {LEAST_DRIFT:g}")
        if self.trace not in (SUMMED_TRACE, FULL_TRACE):
            yield ArgumentFault("trace", self.trace, f"expected {SUMMED_TRACE} or {FULL_TRACE}")
        if not 0 <= self.patience_s < math.inf:
            yield ArgumentFault("patience_s", self.patience_s, "expected 0 or more")


def training_options(recipe: Recipe | None = None, **given: Any) -> Options:
    """The options of a training: what is given and not None, else what the recipe says, else their defaults.

    An optimizer that is given replaces the recipe's with all its options. Optimizer and schedule may also be named
    ``package.module:callable``.

    Raises:
        InputError: one of them is out of its range, cannot be imported, or does not fit the optimizer. What a recipe
            says wrongly is named ``recipe.lr`` and so on.
    """
    known = {name: value for name, value in given.items() if value is not None}
    own = {each.name: getattr(recipe, each.name, None) for each in fields(Options)}
    hidden = _OF_THE_OPTIMIZER if "optimizer" in known else ()
    options = {name: value for name, value in own.items() if value is not None and name not in hidden} | known
    try:
        named = {name: from_reference(options[name], name) for name in _CALLABLES if isinstance(options.get(name), str)}
        made = Options(**options | named)
        optimizer_cost(made)
    except InputError as error:
        names, where = options.keys() - known.keys(), "" if recipe is None else recipe.made_at
        raise InputError(_in_recipe(fault, names, where) for fault in error.faults) from None
    return made


def options_of_beginning(recipe: Recipe | None, **given: Any) -> Options:
    """The options of a run that is only the beginning of a training.

    A schedule, its warm-up and early stopping are those of the whole training.

    Raises:
        InputError: as ``training_options``.
    """
    if recipe is not None:
        recipe = replace(recipe, schedule=None, warmup=None, early_stop=None)
    return training_options(recipe, **given)


def options_of_pilot(recipe: Recipe | None, **given: Any) -> Options:
    """The options of a run that is a whole training, but a short one, whose end is not to be chosen by its losses.

    Raises:
        InputError: as ``training_options``.
    """
    return training_options(None if recipe is None else replace(recipe, early_stop=None), **given)


@contextmanager
def named_in_recipe(recipe: Recipe | None, options: Options) -> Iterator[None]:
    """Let faults about options that a recipe says be named as such, with the line that made it."""
    try:
        yield
    except InputError as error:
        names = [each.name for each in fields(Options)]
        said = [name for name in names if getattr(recipe, name, None) == getattr(options, name)]
        where = "" if recipe is None else recipe.made_at
        raise InputError(_in_recipe(fault, said, where) for fault in error.faults) from error


def _in_recipe(fault: Fault, names: Collection[str], where: str) -> Fault:
    """A fault about what a recipe says, as such, with the line that made it."""
    if fault.field not in names:
        return fault
    return at_line(Fault(f"recipe.{fault.field}", fault.value, fault.expected), where)


def to_record(request: Request) -> dict[str, Any]:
    """The options of a run as in ``run.json``, those of the training beside the others."""
    written = request if isinstance(request.recipe, str | None) else replace(request, recipe=UNNAMED)
    given = asdict(written)
    options: dict[str, Any] = given.pop("options")
    del options["span"]
    for name in _PERMISSIONS:
        del given[name]
    named = {name: to_reference(getattr(request.options, name)) for name in _CALLABLES}
    return given | options | named


def from_record(data: Any, file: str, **permissions: bool) -> Request:
    """The request in a ``run.json``, with what its user allows.

    Raises:
        InputError: it cannot be read.
    """
    try:
        given: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in data.items()}
        options = {each.name: given.pop(each.name) for each in fields(Options) if each.name in given}
        options |= {name: from_reference(options[name], name) for name in _CALLABLES if name in options}
        return Request(**{**given, **dict.fromkeys(_PERMISSIONS, False), **permissions}, options=Options(**options))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InputError(Fault("options", data, f"cannot be read: {error}", file)) from None
