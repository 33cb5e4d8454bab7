"""Points of a learning curve from runs: the loss after each epoch, the data of each source and the replicas in use."""

from __future__ import annotations

from pathlib import Path

from palmette.cost.estimate import evaluator
from palmette.errors import Fault, InputError
from palmette.predict.learning_curve import LossPoint
from palmette.predict.source_weights import SourceRun
from palmette.report.run_files import MetricsRow, read_metrics
from palmette.spec.files import load
from palmette.spec.plan import Phase, inputs_of
from palmette.spec.run import RunRecord


def source_run(folder: Path) -> SourceRun:
    """The data that a run took, and a point for each whole epoch.

    The loss is that on held-out data where it was evaluated, else in training.

    Raises:
        InputError: there is no such run, it has several phases, or not one whole epoch.
    """
    record = load(RunRecord, folder / "run.json")
    if len(record.plan.phases) != 1:
        many = f"{len(record.plan.phases)} phases"
        raise InputError(Fault("phases", many, "expected one, with the same model throughout", str(folder)))
    (phase,) = record.plan.phases
    (used, owned), replicas = _data(record, phase), sum(1 for i in phase.instances if i.layers[0] == 1)
    losses = _losses(list(read_metrics(folder / "metrics.jsonl")))
    if not losses:
        raise InputError(Fault("metrics.jsonl", "no whole epoch", "expected a run of at least one", str(folder)))
    fraction = sum(used.values()) / sum(owned.values())
    return SourceRun([LossPoint(k, fraction, replicas, loss) for k, loss in enumerate(losses, 1)], used, owned)


def _data(record: RunRecord, phase: Phase) -> tuple[dict[str, int], dict[str, int]]:
    """The samples that an epoch takes from each source, and those that it owns."""
    profile, cluster = inputs_of(record.plan, None, None)
    owned = {name: node.source.samples for name, node in cluster.nodes.items() if node.source is not None}
    return evaluator(profile, cluster).epoch_samples(phase), owned


def _losses(lines: list[MetricsRow]) -> list[float]:
    """The loss of each whole epoch, in order."""
    training: dict[int, list[float]] = {}
    held_out: dict[int, float] = {}
    for line in lines:
        if line.epoch is None or line.loss is None:
            continue
        if line.evaluated:
            held_out[line.epoch] = line.loss
        else:
            training.setdefault(line.epoch, []).append(line.loss)
    whole = max((len(each) for each in training.values()), default=0)
    everywhere = all(epoch in held_out for epoch, each in training.items() if len(each) == whole)
    return [
        held_out[epoch] if everywhere else sum(each) / len(each)
        for epoch, each in sorted(training.items())
        if len(each) == whole
    ]
