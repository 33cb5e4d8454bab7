"""The training file: all that ``palmette up`` needs, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from palmette.spec.document import Count, Document, Flag, LocatedFault, Name, Number, Positive, refuse
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.units import DURATION


def _path_or_cluster(value: Any) -> str | dict[str, Any]:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, Mapping):
        return dict(value)
    expected = "expected the path of a cluster file, or nodes and links"
    raise PydanticCustomError("expected", "{expected}", {"expected": expected})


ClusterOrPath = Annotated[str | dict[str, Any], PlainValidator(_path_or_cluster)]


class RunSettings(Document):
    """How the run is executed; what is not said is as ``palmette run`` has it."""

    optimizer: Name | None = None
    lr: Positive | None = None
    testbed: str = ""
    dilation: Number | None = None
    transport: str = ""
    keys: Name | None = None
    hub: Name | None = None
    listen: Name | None = None
    insecure: Flag = False
    track: tuple[Name, ...] = ()


class TrainingFile(Document):
    """What to train, on which cluster, towards which goal, and where results go.

    Paths are relative to the file. It names either a ``recipe`` or a ``model``, and at most one of ``epochs`` and
    ``iterations``; ``learning`` is a learning curve, for a ``loss``.
    """

    file_with = "a training file, with cluster, and model or recipe"
    written = {"deadline": ("deadline_s", DURATION), "iteration_deadline": ("iteration_deadline_s", DURATION)}

    cluster: ClusterOrPath
    recipe: Name | None = None
    model: Name | None = None
    data: Name | None = None
    input_shape: tuple[Count, ...] | None = None
    batch: Count = 32
    goal: Name = "time"
    deadline_s: Positive | None = None
    iteration_deadline_s: Positive | None = None
    loss: Positive | None = None
    learning: Name | None = None
    strategy: Name = "auto"
    lossy: Flag = False
    epochs: Count | None = None
    iterations: Count | None = None
    engine: Name = "local"
    seed: Annotated[int, Field(strict=True)] = 0
    output: Name = "training"
    run: RunSettings = RunSettings()

    @model_validator(mode="after")
    def _is_one_training(self) -> Self:
        if (self.recipe is None) == (self.model is None):
            expected = "expected either a model or a recipe"
            refuse("TrainingFile", [LocatedFault(("model",), self.model or "missing", expected)])
        if self.epochs is not None and self.iterations is not None:
            expected = "expected either epochs or iterations, not both"
            refuse("TrainingFile", [LocatedFault(("iterations",), self.iterations, expected)])
        return self

    @property
    def network(self) -> str:
        """The name of the recipe or of the network."""
        found = self.recipe or self.model
        assert found is not None, "one of them is given"
        return found

    def planned_for(self) -> Goal:
        """The goal.

        Raises:
            InputError: it cannot be read.
        """
        return Goal(
            weights=parse_weights(self.goal),
            deadline_s=self.deadline_s,
            iteration_deadline_s=self.iteration_deadline_s,
            loss=self.loss,
        )
