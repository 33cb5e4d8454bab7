"""One network on one cluster: every contender by the event clock, and, in turns, for real."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.peers.clocked import MICROBATCHES, all_pipelines, ddp_s, pipeline_s, streamed_s
from benchmarks.peers.crew import Crew
from benchmarks.peers.plans import described, planned, three_way
from benchmarks.peers.tasks import Ddp, Lesson, Pipeline, Way
from benchmarks.peers.trainers import reference_losses
from benchmarks.peers.turns import Contender, PalmetteTurns, PeerTurns, ddp_turns
from palmette.cost.evaluate import Evaluator
from palmette.plan.core.samples import apportion
from palmette.spec.plan import Phase, Plan
from palmette.spec.tree import Feed, Instance

TRIALS = 2  # pipelines of three stages, and of two, the best by the clock, that are tried for real
LONG_STEP_S = 30.0  # wall seconds: of what takes longer only the better way is run, and twice
LONGEST_STEP_S = 200.0  # what the clock expects to take longer is not run
QUICK_STEP_S = 2.0  # of what is faster, a turn has several steps
STEPS_A_TURN = 3
LOSS_TOLERANCE = 1e-3


def said(text: str) -> None:
    """Tell how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Case:
    """All contenders for a lesson; ``rows`` tell of each, simulated until it has been measured."""

    def __init__(self, lesson: Lesson, evaluator: Evaluator, dilation: float) -> None:
        self.lesson, self.evaluator, self.dilation = lesson, evaluator, dilation
        self.nodes = tuple(evaluator.cluster.nodes)
        self.rows: dict[str, dict[str, Any]] = {}
        self.trials: list[dict[str, Any]] = []
        self.losses: dict[str, list[float]] = {}
        self._plan()

    def _plan(self) -> None:
        """Find everybody's plan, and what the clock says of it."""
        prices, batch = self.evaluator, self.lesson.batch
        self.plans = plans(prices, batch)
        for name, plan in self.plans.items():
            self._note(name, prices.price(plan.phases[0]).iteration_s, described(plan.phases[0]))
        ranked = ranking(prices, self.nodes, batch)
        self.pipelines = {
            f"pipeline-{stages}": [pair for pair in ranked if len(pair[1].nodes) == stages] for stages in (3, 2)
        }
        for name, ways in self.pipelines.items():
            self._note(name, ways[0][0], str(ways[0][1]))
        self.splits = splits(prices, self.nodes, batch)
        for name, split, data in self._ddp_ways():
            self._note(name, ddp_s(prices, self.nodes, split, send_data=data), f"samples {split}")

    def _ddp_ways(self) -> Iterator[tuple[str, tuple[int, ...], bool]]:
        for data, suffix in ((True, ""), (False, "-data-in-place")):
            for name, split in self.splits.items():
                yield f"ddp-{name}{suffix}", split, data

    def _note(self, name: str, simulated_s: float, what: str) -> None:
        self.rows[name] = {"how": "simulated", "step_s": simulated_s, "simulated_s": simulated_s, "what": what}

    def measure(self, rounds: int) -> None:
        """Let the contenders train, in turns."""
        if rounds == 0:
            return
        for name in self.pipelines:
            self._choose(name)
        with contextlib.ExitStack() as stack:
            contenders = self._ready(stack, rounds)
            for number in range(rounds):
                for name, contender in contenders.items():
                    if number < 2 or not self._is_long(name):
                        contender.turn()
                seen = {name: statistics.median(each.spans_s) for name, each in contenders.items()}
                said(f"  round {number + 1}: " + ", ".join(f"{name} {s:.3g} s" for name, s in seen.items()))
            for name, contender in contenders.items():
                self.rows[name] |= {"how": "measured", **spread(contender.spans_s)}

    def _is_long(self, name: str) -> bool:
        return self.rows[name]["simulated_s"] * self.dilation > LONG_STEP_S

    def _steps(self, name: str) -> int:
        return STEPS_A_TURN if self.rows[name]["simulated_s"] * self.dilation < QUICK_STEP_S else 1

    def _choose(self, name: str) -> None:
        """Try the best pipelines by the clock for real, two steps each of which the first warms up; keep the best."""
        tried = []
        for simulated_s, way in self.pipelines[name][:TRIALS]:
            crew = self._crew(way.nodes, way)
            try:
                tried_s = [crew.step() for _ in range(2)][-1]
            finally:
                crew.close()
            tried.append((tried_s, simulated_s, way))
            self.trials.append({"way": str(way), "simulated_s": simulated_s, "tried_s": tried_s})
            said(f"  trial: {way}: {tried_s:.3g} s, simulated {simulated_s:.3g} s")
        _, simulated_s, way = min(tried, key=lambda row: row[0])
        self.pipelines[name] = [(simulated_s, way)]
        self._note(name, simulated_s, str(way))

    def _crew(self, nodes: Sequence[str], way: Way) -> Crew:
        return Crew(self.evaluator, nodes, self.lesson, way, self.dilation)

    def _ready(self, stack: contextlib.ExitStack, rounds: int) -> dict[str, Contender]:
        """Start all contenders; each has made a first step, which does not count, unless its steps are long."""
        found: dict[str, Contender] = {}
        for name, plan in self.plans.items():
            turns = PalmetteTurns(
                plan, self.evaluator, self.lesson, dilation=self.dilation, rounds=rounds, steps=self._steps(name)
            )
            stack.callback(turns.close)
            found[name], self.losses[name] = turns, turns.losses
        for name, ((_, way),) in self.pipelines.items():
            crew = self._crew(way.nodes, way)
            stack.callback(crew.close)
            crew.step()
            found[name], self.losses[name] = PeerTurns(crew.step, self._steps(name)), crew.losses
        return found | self._ready_ddp(stack)

    def _ready_ddp(self, stack: contextlib.ExitStack) -> dict[str, Contender]:
        ways = list(self._ddp_ways())
        if self._is_long(ways[0][0]):
            ways = [min(ways[: len(self.splits)], key=lambda way: self.rows[way[0]]["simulated_s"])]
        if self.rows[ways[0][0]]["simulated_s"] * self.dilation > LONGEST_STEP_S:
            return {}
        crew = self._crew(self.nodes, Ddp(tuple(self.splits.values())))
        stack.callback(crew.close)
        self.losses["ddp"] = crew.losses
        if len(ways) > 1:
            crew.step(self.splits["even"], send_data=False)
        return {name: ddp_turns(crew, split, 1, send_data=data) for name, split, data in ways}

    def record(self) -> dict[str, Any]:
        """All that is known."""
        return {
            "contenders": self.rows,
            **comparison(self.rows),
            "pipeline_trials": self.trials,
            "single_node_simulated_s": singles(self.evaluator, self.nodes, self.lesson.batch),
            "streamed_to_one_node_simulated_s": streamed(self.evaluator, self.nodes, self.lesson.batch),
            "loss_checks": self._checks(),
        }

    def _checks(self) -> dict[str, Any]:
        """How far the losses of each contender are from those of one process with the same batches."""
        if not self.losses:
            return {}
        expected = reference_losses(self.lesson, max(map(len, self.losses.values())))
        checks = {}
        for name, losses in self.losses.items():
            worst = max(abs(a / b - 1) for a, b in zip(losses, expected, strict=False))
            equal = worst <= LOSS_TOLERANCE
            checks[name] = {"steps": len(losses), "worst_relative_error": worst, "equal": equal, "last": losses[-1]}
        return checks


def plans(evaluator: Evaluator, batch: int) -> dict[str, Plan]:
    """Palmette's plans."""
    return {
        "palmette-hiertrain": planned("hiertrain", evaluator, batch),
        "palmette-hybrid": planned("hybrid", evaluator, batch),
        "palmette-three-way": three_way(evaluator, batch),
    }


def ranking(evaluator: Evaluator, nodes: Sequence[str], batch: int) -> list[tuple[float, Pipeline]]:
    """All pipelines with their seconds by the clock, best first."""
    ways = all_pipelines(nodes, len(evaluator.profile.layers), batch)
    return sorted(((pipeline_s(evaluator, way, batch), way) for way in ways), key=lambda pair: pair[0])


def splits(evaluator: Evaluator, nodes: Sequence[str], batch: int) -> dict[str, tuple[int, ...]]:
    """The batch shared evenly, and in proportion to the nodes' speed."""
    depth = len(evaluator.profile.layers)
    speeds = []
    for node in nodes:
        seconds = evaluator.seconds(node)
        speeds.append(round(1e6 / (seconds.forward_s(1, depth, batch) + seconds.backward_s(1, depth, batch))))
    return {"even": tuple(apportion(batch, [1] * len(nodes))), "by-speed": tuple(apportion(batch, speeds))}


def singles(evaluator: Evaluator, nodes: Sequence[str], batch: int) -> dict[str, float]:
    """Seconds of a step on one node alone, by the clock."""
    feed = Feed(node=nodes[0], samples=batch, into="A")
    wholes = {node: Instance(id="A", layers=(1, len(evaluator.profile.layers)), node=node, into=None) for node in nodes}
    return {
        node: evaluator.price(Phase(sources=(feed,), instances=(whole,))).iteration_s for node, whole in wholes.items()
    }


def streamed(evaluator: Evaluator, nodes: Sequence[str], batch: int) -> float:
    """The least seconds of a step on one other node that gets the data in microbatches, by the clock."""
    device, *others = nodes
    return min(
        streamed_s(evaluator, device, node, batch, many)
        for node in others
        for many in MICROBATCHES
        if batch % many == 0
    )


def spread(spans_s: Sequence[float]) -> dict[str, Any]:
    """Median, least and most."""
    return {
        "step_s": statistics.median(spans_s),
        "least_s": min(spans_s),
        "most_s": max(spans_s),
        "steps": len(spans_s),
    }


def comparison(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The better peer, and how much faster Palmette's plans are; DDP with the data in place is no peer, but told of."""
    peers = {name: row["step_s"] for name, row in rows.items() if not name.startswith("palmette")}
    better = min((name for name in peers if not name.endswith("data-in-place")), key=peers.__getitem__)
    return {
        "better_peer": better,
        "times_faster": {
            plan: {"better peer": peers[better] / row["step_s"]}
            | {name: step_s / row["step_s"] for name, step_s in peers.items()}
            for plan, row in rows.items()
            if plan.startswith("palmette")
        },
    }
