"""Reads a training file, and the files that it refers to; torch is not needed to say what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from palmette.errors import Fault, InputError, expected_name
from palmette.plan.core.registry import strategies
from palmette.plan.core.strategy import refuse_unpriced
from palmette.runtime.engines.registry import ENGINES
from palmette.spec.cluster import Cluster
from palmette.spec.files import load, validated
from palmette.spec.learning import Learning
from palmette.spec.training import TrainingFile
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.training_names import refuse_unknown_names


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """Where to train, and to put results, instead of where the file says; None leaves it to the file."""

    engine: str | None = None
    keys: Path | None = None
    listen: str | None = None
    insecure: bool = False
    output: Path | None = None

    def instead(self, training: TrainingFile) -> TrainingFile:
        """The training, there."""
        found = {
            "keys": None if self.keys is None else str(self.keys.absolute()),
            "listen": self.listen,
            "insecure": self.insecure or None,
        }
        run = training.run.model_copy(update={name: value for name, value in found.items() if value is not None})
        output = training.output if self.output is None else str(self.output.absolute())
        return training.model_copy(update={"engine": self.engine or training.engine, "output": output, "run": run})

    def words(self) -> list[str]:
        """As options of ``palmette up``."""
        given = {"--engine": self.engine, "--keys": self.keys, "--listen": self.listen, "--output": self.output}
        options = [text for name, value in given.items() if value is not None for text in (name, str(value))]
        return options + (["--insecure"] if self.insecure else [])


AS_WRITTEN = Elsewhere()


@dataclass(frozen=True)
class TrainingInputs:
    """A training file as it was read: its cluster, its learning curve, and where to train instead."""

    file: Path
    training: TrainingFile
    cluster: Cluster
    cluster_file: Path | None
    learning: Learning | None
    elsewhere: Elsewhere


def read_inputs(file: Path, elsewhere: Elsewhere = AS_WRITTEN) -> TrainingInputs:
    """Read a training file, and what it refers to.

    Raises:
        InputError: something cannot be read or used; names the file.
    """
    training = elsewhere.instead(load(TrainingFile, file))
    with _naming(file):
        goal = training.planned_for()
        _refuse_unusable(training)
        refuse_unknown_names(training.model, training.data)
    path = None if isinstance(training.cluster, dict) else file.parent / training.cluster
    if path is not None:
        found = load(Cluster, path)
    else:
        found = validated(Cluster, training.cluster, f"{file}: cluster", file.parent)
    with _naming(path or file):
        refuse_unpriced(goal, found)
    learning = None if training.learning is None else load(Learning, file.parent / training.learning)
    return TrainingInputs(file, training, fill_hardware_defaults(found, str(path or file)), path, learning, elsewhere)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Add the file's name to faults that were found after it was read."""
    try:
        yield
    except InputError as error:
        raise InputError(Fault(fault.field, fault.value, fault.expected, str(file)) for fault in error.faults) from None


def _refuse_unusable(training: TrainingFile) -> None:
    for field, name, known in (
        ("strategy", training.strategy, list(strategies())),
        ("engine", training.engine, list(ENGINES)),
    ):
        if name not in known:
            raise InputError(Fault(field, name, expected_name(name, field, known)))
    if training.loss is not None and training.learning is None:
        raise InputError(Fault("loss", training.loss, "a loss does not say how long to train; expected learning, too"))
