"""``auto`` beside the rivals themselves, in network namespaces: the same shaped links, all nodes padded to their speed.

A rival copies stored samples over the links, once, and then trains by plain PyTorch, DistributedDataParallel or
torch.distributed.pipelining (``benchmarks.peers``). Its whole training is the measured copy and its iterations, each as
long as the median of a few measured steps: they are all alike. ``auto`` is run from beginning to end. Links have no
latency for rivals, whose collectives cannot be delayed here; ``auto`` pays it.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from typing import Any, NamedTuple

from benchmarks.command import progress
from benchmarks.peers.crew import Crew
from benchmarks.peers.tasks import Ddp, Lesson
from benchmarks.upload_first.rivals import Rival, Script, rivals
from benchmarks.upload_first.running import MOST_WALL_S, run, slowdown
from benchmarks.upload_first.worlds import BATCH, World
from palmette.cost.evaluate import Evaluator
from palmette.spec.plan import Plan

STEPS = 3
"""Steps of a rival in each round; one before all rounds warms it up."""


class RunningRival:
    """A rival that was started: its copies and steps so far, in emulated seconds."""

    def __init__(self, script: Script, world: World, evaluator: Evaluator, data: str, dilation: float) -> None:
        lesson = Lesson(world.model, BATCH, lr=0.001, data=data)
        self._crew = Crew(evaluator, script.nodes, lesson, script.way, dilation)
        stored_bytes = world.samples * world.sample_bytes(evaluator.profile)
        self._copied_bytes = [round(share * stored_bytes) for share in script.shares]
        self._split = script.way.splits[0] if isinstance(script.way, Ddp) else ()
        self._iterations = world.iterations
        self.copies_s, self.steps_s = list[float](), list[float]()
        self._step()
        self.close = self._crew.close

    def _step(self) -> float:
        return self._crew.step(self._split, send_data=False)

    def turn(self) -> None:
        """Copy the samples, and train a few steps."""
        if any(self._copied_bytes):
            self.copies_s.append(self._crew.copy(self._copied_bytes))
        self.steps_s += [self._step() for _ in range(STEPS)]

    def total_s(self) -> float:
        """Seconds of the whole training."""
        return statistics.median(self.copies_s or [0.0]) + self._iterations * statistics.median(self.steps_s)


class Machine(NamedTuple):
    """What all contenders are run with: data by its name, seconds of a step here, and how many turns each has."""

    data: str
    step_s: float
    rounds: int


def side_by_side(auto: Plan, world: World, evaluator: Evaluator, machine: Machine) -> dict[str, Any] | None:
    """Seconds of ``auto`` and of every rival, in turns; None where ``auto`` would take too long here."""
    others = rivals(world, evaluator)
    dilation = max(slowdown(evaluator, node, machine.step_s) for node in world.cluster.nodes)
    assert auto.estimate is not None, "made for a number of epochs"
    if (auto.estimate.total_s or 0.0) * dilation > MOST_WALL_S:
        return None
    busy, ran_s = [os.getloadavg()[0]], list[float]()
    with contextlib.ExitStack() as stack:
        started = dict[str, RunningRival]()
        for kind, script in _scripts(others, world, dilation).items():
            started[kind] = RunningRival(script, world, evaluator, machine.data, dilation)
            stack.callback(started[kind].close)
        for _ in range(machine.rounds):
            ran_s.append(run(auto, world.epochs, machine.data, testbed="namespaces", dilation=dilation)[0])
            for each in started.values():
                each.turn()
            progress(f"  auto {ran_s[-1]:.3f} s, " + ", ".join(f"{k} {r.total_s():.3f} s" for k, r in started.items()))
    busy.append(os.getloadavg()[0])
    seconds = {kind: started[kind].total_s() if kind in started else rival.time_s for kind, rival in others.items()}
    auto_s = statistics.median(ran_s)
    return {
        "seconds": {"auto": auto_s, **seconds},
        "all_seconds": {"auto": ran_s} | {k: {"copy": r.copies_s, "step": r.steps_s} for k, r in started.items()},
        "simulated_s": {"auto": auto.estimate.total_s} | {kind: rival.time_s for kind, rival in others.items()},
        "rivals": {kind: "run" if kind in started else "simulated" for kind in others},
        "dilation": dilation,
        "load_average": busy,
        "ratio": auto_s / min(seconds[kind] for kind, rival in others.items() if rival.same_batches),
        "ratio_to_all": auto_s / min(seconds.values()),
    }


def _scripts(others: dict[str, Rival], world: World, dilation: float) -> dict[str, Script]:
    """The rivals that can be run, and whose turn does not take too long here: the copy, and a few steps."""
    found = dict[str, Script]()
    for kind, rival in others.items():
        if rival.script is not None:
            part = 1.0 if any(rival.script.shares) else STEPS / world.iterations
            if rival.time_s * dilation * part < MOST_WALL_S:
                found[kind] = rival.script
    return found
