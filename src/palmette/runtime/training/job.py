"""What is to be run, news of it while it runs, and what it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palmette.compress.channels import Origin
from palmette.cost.evaluate import Evaluator
from palmette.runtime.data.epoch_length import EpochData
from palmette.runtime.engines.registry import CrewMaker
from palmette.runtime.engines.testbed import Ground
from palmette.runtime.options import Options
from palmette.runtime.sync.base import MeasuredTimes
from palmette.runtime.training.checkpoint import Checkpoint
from palmette.runtime.training.evaluation import Judgement
from palmette.spec.plan import Phase, Plan
from palmette.zoo.data import DataSet
from palmette.zoo.models import Network


@dataclass(frozen=True)
class Standing:
    """Where a run stands at the end of an epoch: in which segment, with which losses of all epochs so far.

    Losses are means over the epoch's batches, the last ``segment_epochs`` of them since the model or the nodes changed.
    Time is that in which nodes worked, on the emulated clock; ``epoch_s`` is how long an epoch takes in this segment.
    """

    number: int
    phase: Phase
    losses: Sequence[float]
    judgement: Judgement
    time_s: float
    energy_j: float | None
    segment_epochs: int
    epoch_s: float


Director = Callable[[Standing], Sequence[Phase] | None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be run, with what, for how long, and where to write.

    ``data`` is what the network is judged by and, where no source names data, what all draw from; ``own_data`` are the
    data sets, by name, of nodes that have data of their own. ``pruning`` is what the network has lost of ``origin``,
    which only a plan with smaller models needs. ``direct`` is asked at the end of every epoch which phases are to
    follow; None lets the run go on as it would. A job that ``keeps`` lets its workers go back to the iteration before
    when one of them is lost.
    """

    plan: Plan
    evaluator: Evaluator
    network: Network
    data: DataSet
    options: Options
    folder: Path
    ground: Ground
    hire: CrewMaker
    own_data: Mapping[str, DataSet] = field(default_factory=dict)
    iterations: int | None = None
    epochs: int | None = None
    resumed: Checkpoint | None = None
    origin: Origin | None = None
    pruning: float = 0.0
    direct: Director | None = None
    keeps: bool = False

    @property
    def workers_keep(self) -> bool:
        """Whether workers can go back to the iteration before; on a testbed, where iterations may be long, all can."""
        return self.keeps or self.ground.emulates

    @property
    def epoch_data(self) -> EpochData:
        """The data's name and sizes, as they decide over the length of an epoch."""
        known = {**self.own_data, self.data.name: self.data}
        return EpochData(self.data.name, {name: len(each.train) for name, each in known.items()})


@dataclass(frozen=True)
class Update:
    """News of a run, for whoever watches: an iteration is done, or the network was judged.

    ``iteration_s`` is how long the iteration took on the emulated clock.
    """

    iteration: int
    iterations: int
    epoch: int
    loss: float
    samples: int
    wall_s: float
    judgement: Judgement | None = None
    iteration_s: float = 0.0


@dataclass(frozen=True)
class Outlook:
    """What is left of a run before its next iteration: ``expected_s`` is how long that takes on this machine.

    It is told before the first iteration, and anew when the dilation was ``widened``.
    """

    iterations: int
    expected_s: float
    dilation: float
    widened: bool


@dataclass(frozen=True)
class Widened:
    """A dilation that was made larger before an iteration, since this machine did not keep up."""

    iteration: int
    dilation: float


@dataclass
class Outcome:
    """What a run came to; seconds are those of the emulated clock. ``measured`` is by the phase's number.

    ``time_s`` is how long nodes worked, pauses between their stretches of work left out.
    """

    iterations: int = 0
    measured: dict[int, MeasuredTimes] = field(default_factory=dict)
    energy_j: float | None = 0.0
    time_s: float = 0.0
    ended: str = "done"
    dilation: float = 1.0
    widened: list[Widened] = field(default_factory=list)
    expected_wall_s: float | None = None
    node_seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    judgement: Judgement | None = None

    @property
    def phase(self) -> int:
        """The first phase that was measured."""
        return min(self.measured, default=0)

    @property
    def iteration_s(self) -> float | None:
        """An iteration of that phase."""
        return self.measured[self.phase].iteration_s if self.measured else None
