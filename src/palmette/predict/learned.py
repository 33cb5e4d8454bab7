"""A trained predictor: both networks, as one file of weights with the origin of its training curves.

    predictor, held_out = train_predictor(curves)   # minutes, on one core
    save(predictor, "predictor.safetensors")
    predictor = load("predictor.safetensors")       # or load_shipped_predictor()
    predictor.predict_epochs(history, epochs=5).robust

λ_run predicts five epochs at a time. For more, the expected losses are appended to the history, and the next five are
predicted. The networks are so small that one thread is the fastest, above all where others need the cores.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from palmette.errors import Fault, InputError
from palmette.predict.bounds import NO_CONSTANTS, BoundConstants
from palmette.predict.examples import change_examples, run_examples, split_by_seed
from palmette.predict.forecast import Forecast, History, Setting
from palmette.predict.network import ChangeNetwork, RunNetwork, change_inputs, run_inputs
from palmette.predict.taught import TaughtRanges
from palmette.predict.training import CHANGE_TRAINING, RUN_TRAINING, train_change_network, train_run_network
from palmette.spec.curves import Curve, Curves

FORMAT = "palmette.predictor/1"
SHIPPED = "predictor.safetensors"
OnEpoch = Callable[[int, int], None]  # training epochs done, training epochs in all


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit torch to one thread inside the block."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True, eq=False)
class LearnedPredictor:
    """Predicts the loss by networks trained on other trainings; ``origin`` names those, and the seeds held out.

    ``ranges`` are those of what they were taught, if the file says so; ``floor`` is the least loss that is possible;
    ``constants`` are those of bounds.
    """

    run_network: RunNetwork
    change_network: ChangeNetwork
    origin: dict[str, Any]
    ranges: TaughtRanges | None = None
    floor: float = 0.0
    constants: BoundConstants = NO_CONSTANTS

    def predict_epochs(self, history: History, epochs: int) -> Forecast:
        """The change of the loss in each of the next ``epochs``; the expected loss never falls below the floor.

        Beyond the networks' horizon the jitter of totals adds up as that of independent errors does.
        """
        start, jitter = history.loss, 0.0
        rows: list[tuple[float, float, float, float]] = []
        while len(rows) < epochs:
            expected_sum = 0.0
            for expected, low, robust, total in self._next(history)[: epochs - len(rows)]:
                expected_sum += expected
                width = math.hypot(jitter, total - expected_sum)
                step = max(expected, self.floor - history.loss)
                history = history.extended(history.loss + step)
                rows.append((step, min(low, step), max(robust, step), history.loss - start + width))
            jitter = width
        expected_, low_, robust_, total_ = zip(*rows, strict=True) if rows else ((), (), (), ())
        return Forecast(expected=expected_, low=low_, robust=robust_, total_robust=total_)

    def predict_change(self, history: History, to: Setting) -> Forecast:
        """The one change of the loss when the setting becomes ``to``."""
        with single_thread(), torch.no_grad():
            expected, low, robust = self.change_network(change_inputs([(history, to)]))[0, 0].tolist()
        return Forecast(expected=(expected,), low=(low,), robust=(robust,), total_robust=(robust,))

    def _next(self, history: History) -> list[list[float]]:
        with single_thread(), torch.no_grad():
            rows: list[list[float]] = self.run_network(*run_inputs([history]))[0].tolist()
        return rows


def train_predictor(
    curves: Curves, *, seed: int = 0, floor: float = 0.0, on_epoch: OnEpoch = lambda *_: None
) -> tuple[LearnedPredictor, list[Curve]]:
    """A predictor, and the curves that were held out: those of a quarter of the seeds.

    ``floor`` is the least loss that is possible, 0 for cross-entropy.

    Raises:
        InputError: the curves are of fewer than two seeds, or none changes its setting.
    """
    train, held_out = split_by_seed(curves.curves)
    runs, changes = run_examples(train), change_examples(train)
    if not train or not held_out:
        raise InputError(Fault("curves", f"{len({c.seed for c in curves.curves})} seeds", "expected at least two"))
    if not changes:
        raise InputError(Fault("curves", "no change of setting", "expected curves with two phases or more"))
    run, change = replace(RUN_TRAINING, seed=seed), replace(CHANGE_TRAINING, seed=seed)
    total = run.epochs + change.epochs
    with single_thread():
        run_network = train_run_network(runs, run, lambda done: on_epoch(done, total))
        change_network = train_change_network(changes, change, lambda done: on_epoch(run.epochs + done, total))
    origin = {
        "model": curves.model,
        "data": curves.data,
        "curves": len(train),
        "moments": len(runs),
        "changes": len(changes),
        "left_out_seeds": sorted({curve.seed for curve in held_out}),
    }
    ranges, constants = TaughtRanges.of(runs, changes), BoundConstants.of(train, changes, floor)
    return LearnedPredictor(run_network, change_network, origin, ranges, floor, constants), held_out


def save(predictor: LearnedPredictor, path: str | os.PathLike[str]) -> None:
    """Write a predictor to a file.

    Raises:
        InputError: the file cannot be written.
    """
    parts = {"run": predictor.run_network, "change": predictor.change_network}
    weights = {f"{part}.{name}": value for part, net in parts.items() for name, value in net.state_dict().items()}
    metadata = {"format": FORMAT, "origin": json.dumps(predictor.origin), "floor": json.dumps(predictor.floor)}
    metadata["bounds"] = json.dumps(asdict(predictor.constants))
    if predictor.ranges is not None:
        metadata["taught"] = json.dumps(asdict(predictor.ranges))
    try:
        save_file(weights, path, metadata=metadata)
    except (OSError, SafetensorError) as error:
        raise InputError(Fault("", "the file", f"cannot be written: {_reason(error)}", str(path))) from None


def load(path: str | os.PathLike[str]) -> LearnedPredictor:
    """Read a predictor from a file.

    Raises:
        InputError: the file cannot be read, or holds no predictor.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
    except (OSError, SafetensorError) as error:
        raise InputError(Fault("", "the file", f"cannot be read: {_reason(error)}", str(path))) from None
    if metadata.get("format") != FORMAT:
        raise InputError(Fault("format", metadata.get("format", "missing"), f"expected {FORMAT!r}", str(path)))
    networks = RunNetwork(), ChangeNetwork()
    try:
        for part, network in zip(("run", "change"), networks, strict=True):
            network.load_state_dict(
                {name.partition(".")[2]: value for name, value in weights.items() if name.startswith(f"{part}.")}
            )
            network.requires_grad_(requires_grad=False)
        origin = json.loads(metadata["origin"])
        ranges = TaughtRanges.parsed(json.loads(metadata["taught"])) if "taught" in metadata else None
        constants = BoundConstants.parsed(json.loads(metadata["bounds"])) if "bounds" in metadata else NO_CONSTANTS
        floor = float(json.loads(metadata.get("floor", "0")))
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        raise InputError(Fault("", "the file", f"holds no such predictor: {_reason(error)}", str(path))) from None
    return LearnedPredictor(*networks, origin, ranges, floor, constants)


def load_shipped_predictor() -> LearnedPredictor:
    """The predictor that ships, trained on the curves that ship."""
    with resources.as_file(resources.files(__package__) / SHIPPED) as path:
        return load(Path(path))


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())
