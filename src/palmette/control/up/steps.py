"""The steps before the run: trust what the file names, compare and plan for it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palmette.control.run.recipes import requested_recipe
from palmette.control.run.request import training_options
from palmette.control.run.trust import cluster_code, refuse_untrusted
from palmette.control.up.folder import UpFolder, digest
from palmette.control.up.inputs import TrainingInputs
from palmette.errors import ArgumentFault, Fault, InputError
from palmette.plan.core.comparison import Comparison, compare, planned
from palmette.plan.core.strategy import Task
from palmette.runtime.optimizer_choice import optimizer_cost
from palmette.runtime.options import Options
from palmette.spec.plan import Inputs, Plan
from palmette.spec.profile import Profile
from palmette.spec.training import TrainingFile
from palmette.zoo.data.registry import find_entry

RUN = "run"
# Of the time of a decision, as auto takes it, which compares once more and then tries other nodes and links.
_COMPARING_SHARE = 0.2


@dataclass(frozen=True)
class UpRequest(TrainingInputs):
    """A training whose code is trusted, and the folder of its results."""

    folder: UpFolder

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


def trusted_request(read: TrainingInputs, *, trust_code: bool) -> UpRequest:
    """What was read, once the code that it names is trusted.

    Raises:
        InputError: names code that is not; says what to type.
    """
    code = {str(read.file): _code(read.training)}
    code.setdefault(str(read.cluster_file or read.file), set()).update(cluster_code(read.cluster))
    refuse_untrusted(code, trust=trust_code)
    return UpRequest(**vars(read), folder=UpFolder(read.file.parent / read.training.output))


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
    found = compare(task, options, progress=_part(progress, 0.0, _COMPARING_SHARE))
    if not found.plans:
        found.refuse()
    task = replace(task, progress=_part(progress, _COMPARING_SHARE, 1.0))
    plan = planned(training.strategy, task, options)
    return found, plan.model_copy(update={"inputs": Inputs(cluster=task.cluster, profile=task.profile)})


def _part(progress: Callable[[str, float], None] | None, first: float, last: float) -> Callable[[str, float], None]:
    """Tells ``progress`` of a part of the whole, from ``first`` to ``last``."""

    def tell(what: str, done: float) -> None:
        if progress is not None:
            progress(what, first + (last - first) * done)

    return tell


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
