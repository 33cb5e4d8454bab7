"""A learning curve fitted to runs: the loss after each epoch, the data of each source and the replicas in use.

Where the learning rate has a schedule over the whole run, the losses before its end are not those of shorter runs: such
a run tells one loss, at its end.

    constant    ●──●──●──●      a point an epoch
    cosine      ·──·──·──●      a run of 4 epochs
                ·──●            a run of 2
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean as mean
from typing import Any, NamedTuple

from palmette.control.run.callables import schedule_of
from palmette.cost.estimate import evaluator
from palmette.errors import ArgumentFault, Fault, InputError
from palmette.predict.held_out import cross_validation_error
from palmette.predict.joint_fit import rms_error
from palmette.predict.learning_curve import fit_learning_curve
from palmette.predict.loss_points import LossPoint
from palmette.predict.source_weights import SourceRun, fit_source_weights, weighted_points
from palmette.predict.standard_errors import codec_errors
from palmette.report.run_files import MetricsRow, read_metrics
from palmette.runtime.data.shards import own_data
from palmette.spec.codec_term import codings_of
from palmette.spec.files import load
from palmette.spec.learning import Learning
from palmette.spec.learning_rate import CONSTANT, LearningRateSchedule
from palmette.spec.plan import Phase, inputs_of
from palmette.spec.run import RunRecord
from palmette.spec.sync import OuterOptimizer

_SHARED = "all sources"
"""Sources that draw from the same data: a sample of one is worth as much as of any other."""


class LearnedRun(NamedTuple):
    """What a run tells of learning: its points and data, and what it trained in which batches."""

    points: SourceRun
    batch: int
    command: str
    """The command that would vary what runs like this have in common."""
    window: int = 1
    """The steps that its replicas took apart."""
    outer: OuterOptimizer | None = None
    start: float | None = None
    """The loss before training: that of the first batch."""
    seed: int | None = None
    schedule: LearningRateSchedule = LearningRateSchedule()
    """How its learning rate changed."""


def learned_run(folder: Path) -> LearnedRun:
    """What the run in a folder tells.

    Raises:
        InputError: there is no such run, it has several phases, not one whole epoch, or what a curve has no term for.
    """
    record = load(RunRecord, folder / "run.json")
    if len(record.plan.phases) != 1:
        many = f"{len(record.plan.phases)} phases"
        raise InputError(Fault("phases", many, "expected one, with the same model throughout", str(folder)))
    (phase,) = record.plan.phases
    if phase.draws_clients or phase.turns is not None:
        named = "clients" if phase.draws_clients else "turns"
        raise InputError(Fault(named, "given", "a curve has no term for that; expected a run without", str(folder)))
    used, owned = _data(record, phase)
    schedule = _schedule(record)
    if schedule.is_over_the_run:
        _refuse_unfinished(record, schedule, folder)
    noted = list(read_metrics(folder / "metrics.jsonl"))
    losses, iterations = _losses(noted, record.epoch_iterations, at_end=schedule.is_over_the_run)
    if not losses:
        raise InputError(Fault("metrics.jsonl", "no whole epoch", "expected a run of at least one", str(folder)))
    fraction = sum(used.values()) / sum(owned.values())
    window = phase.window(iterations)
    passes = phase.epoch_passes
    seed = _options(record).get("seed")
    in_turn = all(used.get(name, 0) > 0 for name, many in owned.items() if many > 0)
    common = (window, codings_of(phase), seed, in_turn)
    points = [LossPoint(k * passes, fraction, phase.replicas, loss, *common) for k, loss in losses]
    outer = phase.outer if window > 1 else None
    taken = SourceRun(points, used, owned)
    return LearnedRun(taken, phase.batch, _pilot_command(record), window, outer, _first_loss(noted), seed, schedule)


def learn(runs: Sequence[LearnedRun], margin: float | None = None) -> Learning:
    """The curve through the losses of runs, with its error, also on runs that are left out.

    Plans take losses higher than the curve's own by ``margin``, by default as nine of ten losses of runs that are left
    out need.

    Raises:
        InputError: no curve can be fitted, runs had different schedules of the learning rate, or the margin is below 0.
    """
    if margin is not None and not 0 <= margin < math.inf:
        raise InputError(ArgumentFault("margin", margin, "expected 0 or more, as a part of the loss, such as 0.1"))
    schedule = _common_schedule(runs)
    taken = [run.points for run in runs]
    weights = fit_source_weights(taken)
    points = [weighted_points(run, weights) for run in taken]
    every = [point for run in points for point in run]
    start = _common_start(runs)
    curve, batches = fit_learning_curve(every, start), [float(run.batch) for run in runs]
    errors = codec_errors(curve, every)
    held_out = cross_validation_error(points, start, _held_out_together(runs))
    above = None if held_out is None else held_out.above
    terms = [term.model_copy(update={"error": errors.get(term.coding)}) for term in curve.codecs]
    return curve.model_copy(
        update={
            "weights": weights,
            "outer": _common_outer(runs),
            "schedule": schedule,
            "codecs": tuple(terms),
            "fitted_on": curve.fitted_on | {"batch": (min(batches), max(batches))},
            "runs": len(runs),
            "fit_error": rms_error(curve, every),
            "left_out_error": None if held_out is None else held_out.error,
            "left_out_runs": None if held_out is None else held_out.runs,
            "left_out_above": above,
            "margin": (above or 0.0) if margin is None else margin,
        }
    )


def _held_out_together(runs: Sequence[LearnedRun]) -> list[int]:
    """The runs that are left out at once: those of one seed, as they have the same batches; else each by itself."""
    seeds = [run.seed for run in runs]
    several = None not in seeds and len(set(seeds)) > 1
    return [seeds.index(seed) for seed in seeds] if several else list(range(len(runs)))


def _common_start(runs: Sequence[LearnedRun]) -> float | None:
    """The mean loss before training; None where a run does not tell."""
    known = [run.start for run in runs if run.start is not None]
    return sum(known) / len(known) if len(known) == len(runs) else None


def _first_loss(lines: list[MetricsRow]) -> float | None:
    """The loss of the first iteration in training, which is that of weights that nothing has changed."""
    return next((line.loss for line in lines if line.iteration == 0 and not line.evaluated), None)


def _common_outer(runs: Sequence[LearnedRun]) -> OuterOptimizer | None:
    """The outer optimizer of all runs whose replicas train apart.

    Raises:
        InputError: they have different ones, which a curve cannot tell apart.
    """
    found = [run.outer for run in runs if run.window > 1]
    different = [each for each in found if each != found[0]]
    if different:
        named = ["none" if each is None else each.shown for each in (found[0], different[0])]
        expected = "expected the same in all runs whose replicas train apart, as a curve has one term for them"
        raise InputError(Fault("outer", f"{named[0]} and {named[1]}", expected))
    return found[0] if found else None


def _common_schedule(runs: Sequence[LearnedRun]) -> LearningRateSchedule:
    """How the learning rate of all runs changed.

    Raises:
        InputError: in different ways, so that runs of one length end at different losses.
    """
    different = list(dict.fromkeys(run.schedule.shown for run in runs))
    if len(different) > 1:
        expected = "expected the same in all runs, as a curve has no term for it"
        raise InputError(Fault("schedule", f"{different[0]} and {different[1]}", expected))
    return runs[0].schedule


def _schedule(record: RunRecord) -> LearningRateSchedule:
    """How the learning rate of a run changed, as its record says."""
    known = _options(record)
    name, warmup = known.get("schedule") or CONSTANT, known.get("warmup") or 0
    try:
        return schedule_of(name, warmup)
    except (ValueError, AttributeError):
        raise InputError(Fault("options.schedule", f"{name}, warmup {warmup}", "cannot be read")) from None


def _refuse_unfinished(record: RunRecord, schedule: LearningRateSchedule, folder: Path) -> None:
    """Refuse a run whose schedule did not come to its end: no run of any length has such losses.

    Raises:
        InputError: says how it ended.
    """
    early = (record.model_extra or {}).get("stopped_early") is True
    if record.ended != "done" or early:
        ended = "stopped early" if early else record.ended
        expected = f"its learning rate goes down over the whole run ({schedule.shown}), whose end alone tells"
        raise InputError(Fault("ended", ended, f"{expected}; expected one that is done", str(folder)))


def _options(record: RunRecord) -> dict[str, Any]:
    """What the run was asked for."""
    options = (record.model_extra or {}).get("options")
    return options if isinstance(options, dict) else {}


def _pilot_command(record: RunRecord) -> str:
    known = _options(record)
    model, data = record.plan.model, known.get("data")
    recipe = known.get("recipe") or (model if data == model else None)  # a recipe's data has its name
    trained = f"--recipe {recipe}" if recipe is not None else model
    of_data = f" --data {data}" if recipe is None and data is not None else ""
    return f"palmette pilot {trained} --cluster {known.get('cluster_file') or 'CLUSTER'}{of_data}"


def _data(record: RunRecord, phase: Phase) -> tuple[dict[str, int], dict[str, int]]:
    """The samples that an epoch takes from each source, and those that it owns; in one where they share them."""
    profile, cluster = inputs_of(record.plan, None, None)
    owned = {name: node.source.samples for name, node in cluster.nodes.items() if node.source is not None}
    used = evaluator(profile, cluster).epoch_samples(phase)
    if own_data(used, cluster):
        return used, owned
    return {_SHARED: sum(used.values())}, {_SHARED: sum(owned.values())}


def _losses(
    lines: list[MetricsRow], epoch_iterations: int | None, *, at_end: bool
) -> tuple[list[tuple[float, float]], int]:
    """The loss after each whole epoch, in order, or that after all of them; and how many iterations an epoch has.

    On held-out data where it was evaluated, else in training: the mean over an epoch. Of a run whose record does not
    say how long its epochs are, the longest counts as whole.
    """
    training: dict[int, list[float]] = {}
    held_out: dict[int, float] = {}
    for line in lines:
        if line.epoch is None or line.loss is None:
            continue
        if line.evaluated:
            held_out[line.epoch] = line.loss
        else:
            training.setdefault(line.epoch, []).append(line.loss)
    whole = epoch_iterations or max((len(each) for each in training.values()), default=0)
    if at_end and sum(map(len, training.values())) >= whole > 0:
        every = [loss for _, each in sorted(training.items()) for loss in each]
        return [(len(every) / whole, held_out.get(max(training), mean(every[-whole:])))], whole
    ended = {epoch: mean(each) for epoch, each in sorted(training.items()) if len(each) == whole}
    losses = [held_out[epoch] for epoch in ended] if ended.keys() <= held_out.keys() else list(ended.values())
    return [(float(k), loss) for k, loss in enumerate(losses, 1)], whole
