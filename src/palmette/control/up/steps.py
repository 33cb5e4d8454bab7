"""The steps before the run: read the file, and compare and plan for it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palmette.control.run.recipes import requested_recipe
from palmette.control.run.request import training_options
from palmette.control.run.trust import cluster_code, refuse_untrusted
from palmette.control.up.folder import UpFolder, digest
from palmette.errors import ArgumentFault, Fault, InputError, expected_name
from palmette.plan.core.comparison import Comparison, compare, planned
from palmette.plan.core.registry import strategies
from palmette.plan.core.strategy import Task, refuse_unpriced
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.optimizer_choice import optimizer_cost
from palmette.runtime.options import Options
from palmette.spec.cluster import Cluster
from palmette.spec.files import load, validated
from palmette.spec.learning import Learning
from palmette.spec.plan import Inputs, Plan
from palmette.spec.profile import Profile
from palmette.spec.training import TrainingFile
from palmette.zoo.data.registry import find_entry
from palmette.zoo.hardware_defaults import fill_hardware_defaults

RUN = "run"


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
class UpRequest:
    """A training file as it was read: its cluster, its learning curve, and the folder of its results."""

    file: Path
    training: TrainingFile
    cluster: Cluster
    cluster_file: Path | None
    learning: Learning | None
    folder: UpFolder
    elsewhere: Elsewhere

    @property
    def again(self) -> str:
        """The command that continues."""
        return shlex.join(["palmette", "up", str(self.file), *self.elsewhere.words()])

    @property
    def keys(self) -> Path | None:
        """The folder of keys, as seen from the file."""
        return None if self.training.run.keys is None else self.file.parent / self.training.run.keys

    @property
    def has_run(self) -> bool:
        """Whether its run has begun."""
        return (self.folder.file(RUN) / "run.json").exists()

    @property
    def options(self) -> Options:
        """How to train: what the file says, else what its recipe does."""
        run = self.training.run
        recipe = requested_recipe(self.training.network, self.training.recipe)
        return training_options(recipe, optimizer=run.optimizer, lr=run.lr, seed=self.training.seed)


def read_training(file: Path, *, trust_code: bool, elsewhere: Elsewhere = AS_WRITTEN) -> UpRequest:
    """Read a training file, and what it refers to; code that they name has to be trusted.

    Raises:
        InputError: something cannot be read or used; names the file.
    """
    training = elsewhere.instead(load(TrainingFile, file))
    with _naming(file):
        goal = training.planned_for()
        _refuse_unknown_names(training)
    path = None if isinstance(training.cluster, dict) else file.parent / training.cluster
    named = str(file) if path is None else str(path)
    found = load(Cluster, path) if path is not None else validated(Cluster, training.cluster, f"{file}: cluster")
    with _naming(path or file):
        refuse_unpriced(goal, found)
    learning = None if training.learning is None else load(Learning, file.parent / training.learning)
    code = {str(file): _code(training)}
    code.setdefault(named, set()).update(cluster_code(found))
    refuse_untrusted(code, trust=trust_code)
    folder = UpFolder(file.parent / training.output)
    return UpRequest(file, training, fill_hardware_defaults(found, named), path, learning, folder, elsewhere)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Add the file's name to faults that were found after it was read."""
    try:
        yield
    except InputError as error:
        raise InputError(Fault(fault.field, fault.value, fault.expected, str(file)) for fault in error.faults) from None


def _refuse_unknown_names(training: TrainingFile) -> None:
    for field, name, known in (
        ("strategy", training.strategy, list(strategies())),
        ("engine", training.engine, list(ENGINES)),
    ):
        if name not in known:
            raise InputError(Fault(field, name, expected_name(name, field, known)))
    if training.loss is not None and training.learning is None:
        raise InputError(Fault("loss", training.loss, "a loss does not say how long to train; expected learning, too"))


def _code(training: TrainingFile) -> set[str]:
    """The code that a training file names."""
    network = training.network.partition("?")[0]
    data, optimizer = training.data, training.run.optimizer
    found = {network} if ":" in network else set()
    found |= {data} if data is not None and ":" in data and find_entry(data)[0] is None else set()
    return found | ({optimizer} if optimizer is not None and ":" in optimizer else set())


def plan_inputs(asked: UpRequest, profile: Profile) -> dict[str, Any]:
    """All that the comparison and the plan depend on."""
    apart = {"run", "output", "engine", "cluster"}
    return {
        "training": asked.training.model_dump(mode="json", exclude=apart),
        "optimizer": [asked.training.run.optimizer, asked.training.run.lr],
        "cluster": digest(asked.cluster.model_dump(mode="json")),
        "profile": digest(profile.model_dump(mode="json")),
        "learning": None if asked.learning is None else asked.learning.model_dump(mode="json"),
    }


def decide(
    asked: UpRequest, profile: Profile, progress: Callable[[str, float], None] | None = None
) -> tuple[Comparison, Plan]:
    """All plans side by side, and the one to run; ``progress`` as of ``compare``.

    Raises:
        InputError: the cluster lacks something that the goal needs.
        Infeasible: no plan meets the goal.
    """
    training = asked.training
    task = Task(
        profile=profile,
        cluster=asked.cluster,
        batch=training.batch,
        goal=training.planned_for(),
        optimizer=optimizer_cost(asked.options),
        seed=training.seed,
        epochs=training.epochs if training.loss is None else None,
    )
    options: dict[str, Any] = {"lossy": training.lossy}
    options |= {} if asked.learning is None else {"learning": asked.learning}
    found = compare(task, options, progress=progress)
    if not found.plans:
        found.refuse()
    plan = planned(training.strategy, task, options)
    return found, plan.model_copy(update={"inputs": Inputs(cluster=task.cluster, profile=task.profile)})


def run_inputs(asked: UpRequest) -> dict[str, Any]:
    """All of a training file that its run depends on; a run that has begun keeps its profile and its plan."""
    return {
        "training": asked.training.model_dump(mode="json", exclude={"output", "cluster"}),
        "cluster": digest(asked.cluster.model_dump(mode="json")),
        "learning": None if asked.learning is None else asked.learning.model_dump(mode="json"),
    }


def refuse_changed(asked: UpRequest) -> None:
    """Refuse to go on with a run that was started for something else.

    Raises:
        InputError: says what to do.
    """
    if asked.has_run and asked.folder.differs(RUN, run_inputs(asked)):
        expected = "its run was started before the training file or the cluster changed; expected another output"
        raise InputError(Fault("output", asked.training.output, expected, str(asked.file)))


def refuse_unanswered(answers: bool) -> None:
    """Refuse to wait for an answer where nobody can give one.

    Raises:
        InputError: says how to do without.
    """
    if not answers:
        raise InputError(
            ArgumentFault("yes", False, "there is no terminal to ask at; expected it, to train without asking")
        )
