"""What is to be run, updates while it runs, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palmette.compress.channels import PruningOrigin
from palmette.cost.evaluate import Evaluator
from palmette.runtime.data.epoch_length import EpochData
from palmette.runtime.engines.base import CrewMaker
from palmette.runtime.engines.testbed import Testbed
from palmette.runtime.options import Options
from palmette.runtime.sync.base import MeasuredTimes
from palmette.runtime.training.checkpoint import Checkpoint
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.worker.setup import SetupNames
from palmette.spec.display import Displayed
from palmette.spec.plan import Phase, Plan
from palmette.spec.reading import energy, time
from palmette.zoo.data import DataSet
from palmette.zoo.models import UNNAMED, Network
from palmette.zoo.recipes.objective import TrainingObjective


@dataclass(frozen=True)
class EpochStatus:
    """The status of a run at the end of an epoch: its segment, and the losses of all epochs so far.

    Losses are means over the epoch's batches, the last ``segment_epochs`` of them since the model or the nodes changed.
    ``time_s`` is how long nodes were active, ``epoch_s`` the time of an epoch in this segment, both on the emulated
    clock.
    """

    number: int
    phase: Phase
    losses: Sequence[float]
    evaluation: Evaluation
    time_s: float
    energy_j: float | None
    segment_epochs: int
    epoch_s: float


EpochCallback = Callable[[EpochStatus], Sequence[Phase] | None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be run, with what, for how long, and where to write.

    The network is evaluated on ``data`` and, where no source names data, trained on it; ``own_data`` are the data sets,
    by name, of nodes that have data of their own. ``pruning`` is the fraction of ``origin`` that the network has lost;
    only a plan with smaller models needs ``origin``. ``on_epoch_end`` is called at the end of every epoch and returns
    the phases to continue with, None for no change. With ``rollback``, workers can roll back to the previous iteration
    when one of them is lost. Nodes keep samples of others in ``samples_folder``, each in a folder of its own; with
    ``keep_samples`` also beyond the end of the run. With ``real_hosts`` every node is a machine of its own;
    ``names`` are those by which it finds network and recipe. For ``patience_s`` workers keep their state where the
    engine is gone. With ``full_trace``, every operation of the run is in its trace. With ``evaluates_at_owners``,
    sources that own data evaluate on the part of it that is held out, and report sums alone.
    """

    plan: Plan
    evaluator: Evaluator
    network: Network
    data: DataSet
    objective: TrainingObjective
    options: Options
    folder: Path
    samples_folder: Path
    testbed: Testbed
    start_crew: CrewMaker
    own_data: Mapping[str, DataSet] = field(default_factory=dict)
    iterations: int | None = None
    epochs: int | None = None
    resumed: Checkpoint | None = None
    origin: PruningOrigin | None = None
    pruning: float = 0.0
    on_epoch_end: EpochCallback | None = None
    rollback: bool = False
    keep_samples: bool = False
    real_hosts: bool = False
    workers_outlive: bool = True
    names: SetupNames = field(default_factory=lambda: SetupNames(model=UNNAMED))
    patience_s: float = 0.0
    full_trace: bool = False
    evaluates_at_owners: bool = False

    @property
    def can_roll_back(self) -> bool:
        """Whether workers can roll back an iteration; on a testbed, where iterations may be long, all can."""
        return self.rollback or self.testbed.emulates

    @property
    def keeps_state(self) -> bool:
        """Whether workers keep their state where the engine is gone."""
        return self.patience_s > 0 and self.workers_outlive

    @property
    def epoch_data(self) -> EpochData:
        """The data's name and sizes, which determine the length of an epoch."""
        known = {**self.own_data, self.data.name: self.data}
        return EpochData(self.data.name, {name: len(each.train) for name, each in known.items()})


@dataclass(frozen=True)
class ProgressUpdate:
    """An update on a run: an iteration is done, or the network was evaluated.

    ``iteration_s`` is how long the iteration took on the emulated clock.
    """

    iteration: int
    iterations: int
    epoch: int
    loss: float
    samples: int
    wall_s: float
    evaluation: Evaluation | None = None
    iteration_s: float = 0.0


@dataclass(frozen=True)
class RemainingTime:
    """What is left of a run: ``expected_s`` is how long its remaining iterations take on this machine.

    It is reported before the first iteration of a segment, and again when the dilation was increased (``increased``).
    """

    iterations: int
    expected_s: float
    dilation: float
    increased: bool


@dataclass(frozen=True)
class DilationIncrease:
    """A dilation that was increased before an iteration, because this machine did not keep up."""

    iteration: int
    dilation: float


@dataclass
class RunOutcome(Displayed):
    """The outcome of a run; seconds are those of the emulated clock. ``measured`` is by the phase's number.

    ``time_s`` is how long nodes were active, without the pauses between. With ``stopped_early``, a metric was
    reached, or did not become better any more.
    """

    iterations: int = 0
    measured: dict[int, MeasuredTimes] = field(default_factory=dict)
    energy_j: float | None = 0.0
    time_s: float = 0.0
    ended: str = "done"
    dilation: float = 1.0
    dilation_increases: list[DilationIncrease] = field(default_factory=list)
    expected_wall_s: float | None = None
    node_seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    stopped_early: bool = False

    @property
    def phase(self) -> int:
        """The first phase that was measured."""
        return min(self.measured, default=0)

    @property
    def iteration_s(self) -> float | None:
        """Time of an iteration of that phase."""
        return self.measured[self.phase].iteration_s if self.measured else None

    def facts(self) -> dict[str, str]:
        """How it ended, what it took, and what was measured on held-out data."""
        early = " (early)" if self.stopped_early else ""
        found = {"ended": f"{self.ended}{early}", "iterations": str(self.iterations)}
        if self.iteration_s is not None:
            found["an iteration"] = time(self.iteration_s)
        if self.iterations:
            found["time"] = time(self.time_s)
            found |= {} if self.energy_j is None else {"energy": f"{energy(self.energy_j)} (modelled)"}
        if self.evaluation is not None:
            found["held-out loss"] = f"{self.evaluation.loss:.4f}"
            found |= {} if self.evaluation.accuracy is None else {"accuracy": f"{self.evaluation.accuracy:.1%}"}
            found |= {name: f"{value:.4g}" for name, value in self.evaluation.metrics.items()}
        return found

    def __repr__(self) -> str:
        return f"RunOutcome({'; '.join(f'{name}: {value}' for name, value in self.facts().items())})"
