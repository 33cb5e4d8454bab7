"""A trained predictor: both networks, as one file of weights that says which curves it has learnt from.

    predictor = learn(curves)                       # minutes, on one core
    save(predictor, "predictor.safetensors")
    predictor = load("predictor.safetensors")       # or shipped()
    predictor.run(past, epochs=5).robust

λ_run is asked for five epochs at a time. For more, the expected losses are taken as seen, and the next five are
asked for. The networks are so small that one thread is the fastest, above all where others want the cores.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from palmette.errors import Fault, InputError
from palmette.predict.examples import changes, runs, split
from palmette.predict.forecast import Forecast, Past, Setting
from palmette.predict.network import ChangeNetwork, RunNetwork, change_inputs, run_inputs
from palmette.predict.training import CHANGE_LESSONS, RUN_LESSONS, learn_change, learn_run
from palmette.spec.curves import Curve, Curves

FORMAT = "palmette.predictor/1"
SHIPPED = "predictor.safetensors"
Told = Callable[[int, int], None]  # epochs of learning done, epochs in all


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread, and as many as before afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True, eq=False)
class LearnedPredictor:
    """Foretells the loss by what other trainings taught; ``origin`` says which, and which seeds it has not seen."""

    run_network: RunNetwork
    change_network: ChangeNetwork
    origin: dict[str, Any]

    def run(self, past: Past, epochs: int) -> Forecast:
        """The change of the loss in each of the next ``epochs``; the expected loss never falls below 0.

        Beyond the networks' horizon the jitter of totals adds up as that of independent errors does.
        """
        start, jitter = past.loss, 0.0
        rows: list[tuple[float, float, float, float]] = []
        while len(rows) < epochs:
            expected_sum = 0.0
            for expected, low, robust, total in self._next(past)[: epochs - len(rows)]:
                expected_sum += expected
                width = math.hypot(jitter, total - expected_sum)
                step = max(expected, -past.loss)
                past = past.trained(past.loss + step)
                rows.append((step, min(low, step), max(robust, step), past.loss - start + width))
            jitter = width
        expected_, low_, robust_, total_ = zip(*rows, strict=True) if rows else ((), (), (), ())
        return Forecast(expected=expected_, low=low_, robust=robust_, total_robust=total_)

    def change(self, past: Past, to: Setting) -> Forecast:
        """The one change of the loss when the setting becomes ``to``."""
        with one_thread(), torch.no_grad():
            expected, low, robust = self.change_network(change_inputs([(past, to)]))[0, 0].tolist()
        return Forecast(expected=(expected,), low=(low,), robust=(robust,), total_robust=(robust,))

    def _next(self, past: Past) -> list[list[float]]:
        with one_thread(), torch.no_grad():
            rows: list[list[float]] = self.run_network(*run_inputs([past]))[0].tolist()
        return rows


def learn(curves: Curves, *, seed: int = 0, told: Told = lambda *_: None) -> tuple[LearnedPredictor, list[Curve]]:
    """A predictor, and the curves that it was not taught: those of a quarter of the seeds.

    Raises:
        InputError: the curves are of fewer than two seeds, or none changes its setting.
    """
    taught, left_out = split(curves.curves)
    moments, switches = runs(taught), changes(taught)
    if not taught or not left_out:
        raise InputError(Fault("curves", f"{len({c.seed for c in curves.curves})} seeds", "expected at least two"))
    if not switches:
        raise InputError(Fault("curves", "no change of setting", "expected curves with two phases or more"))
    run, change = replace(RUN_LESSONS, seed=seed), replace(CHANGE_LESSONS, seed=seed)
    every = run.epochs + change.epochs
    with one_thread():
        run_network = learn_run(moments, run, lambda done: told(done, every))
        change_network = learn_change(switches, change, lambda done: told(run.epochs + done, every))
    origin = {
        "model": curves.model,
        "data": curves.data,
        "curves": len(taught),
        "moments": len(moments),
        "changes": len(switches),
        "left_out_seeds": sorted({curve.seed for curve in left_out}),
    }
    return LearnedPredictor(run_network, change_network, origin), left_out


def save(predictor: LearnedPredictor, path: str | os.PathLike[str]) -> None:
    """Write a predictor to a file.

    Raises:
        InputError: the file cannot be written.
    """
    parts = {"run": predictor.run_network, "change": predictor.change_network}
    weights = {f"{part}.{name}": value for part, net in parts.items() for name, value in net.state_dict().items()}
    try:
        save_file(weights, path, metadata={"format": FORMAT, "origin": json.dumps(predictor.origin)})
    except (OSError, SafetensorError) as error:
        raise InputError(Fault("", "the file", f"cannot be written: {_reason(error)}", str(path))) from None


def load(path: str | os.PathLike[str]) -> LearnedPredictor:
    """Read a predictor from a file.

    Raises:
        InputError: the file cannot be read, or holds no predictor.
    """
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
    except (OSError, SafetensorError) as error:
        raise InputError(Fault("", "the file", f"cannot be read: {_reason(error)}", str(path))) from None
    if about.get("format") != FORMAT:
        raise InputError(Fault("format", about.get("format", "missing"), f"expected {FORMAT!r}", str(path)))
    networks = RunNetwork(), ChangeNetwork()
    try:
        for part, network in zip(("run", "change"), networks, strict=True):
            network.load_state_dict(
                {name.partition(".")[2]: value for name, value in weights.items() if name.startswith(f"{part}.")}
            )
            network.requires_grad_(requires_grad=False)
        origin = json.loads(about["origin"])
    except (RuntimeError, KeyError, ValueError) as error:
        raise InputError(Fault("", "the file", f"holds no such predictor: {_reason(error)}", str(path))) from None
    return LearnedPredictor(*networks, origin)


def shipped() -> LearnedPredictor:
    """The predictor that ships, taught by the curves that ship."""
    with resources.as_file(resources.files(__package__) / SHIPPED) as path:
        return load(Path(path))


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())
