"""Cluster choice: which of several unequal devices should train, by time, power, energy or energy × time.

A short pre-training has measured each device alone (``palmette pretrain``); equations (2) to (7) of the paper give the
time and power of any cluster of them (``fleet``), and ``search`` finds the best one. The chosen devices each train the
whole network under ``async``, with the parameter server on the fastest of them.

    Bontak Gu, Joonho Kong, Arslan Munir, Young Geun Kim: A Framework for Distributed Deep Neural Network Training with
    Heterogeneous Computing Platforms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from palmette.cost.check import forbidden, missing
from palmette.errors import Argument, ArgumentFault, Fault, Infeasible, InputError, Message, expected_name, too_late
from palmette.plan.core.choice import over_energy
from palmette.plan.core.strategy import Decision, PlanRequest, Strategy, Task
from palmette.spec.goal import Goal
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance

if TYPE_CHECKING:
    from palmette.plan.cluster.search import ClusterCandidate

MAX_TRIED = 2000  # clusters that are tried for one that may train, where the best may not
Faults = Callable[[list[str], str], list[Fault]]
Row = tuple["ClusterCandidate", dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ClusterChoice(Strategy):
    """The best cluster of the measured devices for the goal; exact up to 16 devices, and for time, power and energy."""

    name: ClassVar[str] = "cluster"
    summary: ClassVar[str] = "the devices that train best together, chosen by measurements of each"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = True
    needs_profile: ClassVar[bool] = False

    measurements: Measurements = field(metadata={"help": "Measurements of the devices, from palmette pretrain (JSON)."})
    pareto: bool = field(default=False, metadata={"help": "Add the Pareto front of time and energy."})

    def __post_init__(self) -> None:
        from palmette.plan.cluster import search  # noqa: F401 -- imports are no part of plan_s

    def decide(self, task: PlanRequest) -> Decision:
        """Find the best cluster, and its forest of whole chains where profile and cluster are known."""
        self._refuse_other_goals(task)
        batch = self.measurements.batch or task.batch
        if not isinstance(task, Task):
            return Decision((), self._decided(self.measurements, task.goal), self.measurements.model, batch)
        table = trainable_devices(self.measurements, task, batch)
        variables = self._decided(table, task.goal, lambda members, server: faults(members, server, task, batch))
        phase = forest(variables["devices"], variables["parameter_server"], task, batch)
        return Decision((phase,), variables, self.measurements.model, batch)

    def _refuse_other_goals(self, task: PlanRequest) -> None:
        options = {"loss": task.goal.loss, "iteration_deadline_s": task.goal.iteration_deadline_s}
        steps = "cluster trains for the steps of the measurements; expected "
        expected: str = Message(steps, Argument("deadline_s"), " or neither")
        wrong: list[Fault] = [
            ArgumentFault(option, value, expected) for option, value in options.items() if value is not None
        ]
        from palmette.plan.cluster.objective import KNOWN

        unknown = [name for name in task.goal.weights if name not in KNOWN]
        if unknown:
            expected = f"measurements have no {unknown[0]}; expected time, energy, power or edp"
            wrong.append(ArgumentFault("goal", str(task.goal), expected))
        known = None if task.profile is None else task.profile.model
        if known is not None and self.measurements.model not in (None, known):
            expected = f"the profile is of {known}; expected measurements of the same model"
            wrong.append(Fault("measurements.model", self.measurements.model, expected))
        if wrong:
            raise InputError(wrong)

    def _decided(self, table: Measurements, goal: Goal, faults: Faults | None = None) -> dict[str, Any]:
        """The variables of the decision: the best clusters, from the first without ``faults`` on.

        Raises:
            Infeasible: no cluster meets the deadline, or may train.
        """
        from palmette.plan.cluster.fleet import fleet_of
        from palmette.plan.cluster.pareto_front import pareto_front
        from palmette.plan.cluster.search import RANKED, search_clusters
        from palmette.plan.cluster.subsets import MAX_DEVICES

        devices = fleet_of(table)
        found = search_clusters(devices, goal, RANKED if faults is None else MAX_TRIED)
        if isinstance(found, float):
            raise too_late("deadline_s", goal.deadline_s or 0.0, found)
        rows = [(cluster, describe(cluster, table)) for cluster in found.ranking]
        rows = rows if faults is None else skip_faulty(rows, faults)[:RANKED]
        variables = rows[0][1] | {"goal": str(goal), "lead": lead([cluster for cluster, _ in rows])}
        variables |= continuation(table, variables["parameter_server"])
        variables |= {"ranking": [row for _, row in rows], "exact": found.gap is None}
        if found.gap is not None:
            variables["gap"] = found.gap
        if self.pareto:
            variables["pareto"] = [describe(cluster, table) for cluster in pareto_front(devices, goal.deadline_s)]
            variables["pareto_exact"] = len(devices) <= MAX_DEVICES
        return variables


STRATEGIES = (ClusterChoice,)


def describe(cluster: ClusterCandidate, table: Measurements) -> dict[str, Any]:
    """A cluster's fields in a decision. The parameter server is the member with the least time per step."""
    names = list(table.devices)
    members = [names[k] for k in cluster.devices]
    return {
        "devices": members,
        "parameter_server": min(members, key=lambda name: table.devices[name].step_s),
        "time_s": cluster.time_s,
        "power_w": cluster.power_w,
        "energy_j": cluster.power_w * cluster.time_s,
        "edp_js": cluster.power_w * cluster.time_s * cluster.time_s,
    }


def lead(ranking: list[ClusterCandidate]) -> float | None:
    """By which fraction the next cluster's objective exceeds the best's; None if there is no next."""
    if len(ranking) == 1 or not ranking[0].objective:
        return None
    return ranking[1].objective / ranking[0].objective - 1


def continuation(table: Measurements, server: str) -> dict[str, Any]:
    """How training continues after a pre-training: the weights of the parameter server's device, and the steps left."""
    known, own = table.model_extra or {}, table.devices[server].model_extra or {}
    weights, counted, taken = own.get("weights"), known.get("pretrained_steps"), own.get("pretrained_steps")
    if not isinstance(weights, str):
        return {}
    # The steps left are those after the fastest device's pre-training.
    more = counted - taken if isinstance(counted, int) and isinstance(taken, int) else 0
    return {"init": weights, "steps": max(1, table.steps + more)}


def trainable_devices(measurements: Measurements, task: Task, batch: int) -> Measurements:
    """The devices that can train alone on the task's cluster: with data, times and memory.

    Raises:
        InputError: a device is no node of the cluster, or none has what it needs.
        Infeasible: none may train.
    """
    unknown = [name for name in measurements.devices if name not in task.cluster.nodes]
    if unknown:
        nodes = list(task.cluster.nodes)
        raise InputError(Fault(f"measurements.devices.{n}", n, expected_name(n, "node", nodes)) for n in unknown)
    if not task.cluster.sources():
        raise InputError(Fault("nodes", "no source", "expected at least one node with a source of training data"))
    phases = {name: forest([name], name, task, batch) for name in measurements.devices}
    lacking = {name: list(missing(phase, task.evaluator)) for name, phase in phases.items()}
    if all(lacking.values()):
        raise InputError(wrong[0] for wrong in lacking.values())
    refused = {n: [*forbidden(p, task.evaluator), *over_energy(p, task)] for n, p in phases.items() if not lacking[n]}
    if all(refused.values()):
        raise Infeasible(next(iter(refused.values()))[0])
    left = {name: measurements.devices[name] for name, wrong in refused.items() if not wrong}
    return measurements.model_copy(update={"devices": left})


def forest(devices: list[str], server: str, task: Task, batch: int) -> Phase:
    """A whole chain on each device, fed by its own data, or else by that of the server or of any other node."""
    last = len(task.profile.layers)
    nodes = task.cluster.nodes
    return Phase(
        sync="async",
        server=server,
        sources=tuple(Feed(node=_feeder(name, server, task), samples=batch, into=name) for name in devices),
        instances=tuple(
            Instance(id=name, layers=(1, last), node=name, cpu_share=nodes[name].limits.cpu_share) for name in devices
        ),
    )


def _feeder(device: str, server: str, task: Task) -> str:
    """The node whose data a device trains on; the device itself where no node's data can be used."""
    nodes, routes = task.cluster.nodes, task.evaluator.routes
    for name in dict.fromkeys((device, server, *nodes)):
        source = nodes[name].source
        if source is not None and (name == device or not source.private) and routes.between(name, device) is not None:
            return name
    return device


def faults(devices: list[str], server: str, task: Task, batch: int) -> list[Fault]:
    """Why devices that can train alone cannot train together: no path, memory, energy."""
    phase = forest(devices, server, task, batch)
    return list(missing(phase, task.evaluator)) or [*forbidden(phase, task.evaluator), *over_energy(phase, task)]


def skip_faulty(rows: list[Row], faults: Faults) -> list[Row]:
    """The rows from the first without faults on.

    Raises:
        Infeasible: all have faults; names one of the best row's.
    """
    refused: list[Fault] = []
    for k, (_, row) in enumerate(rows):
        wrong = faults(row["devices"], row["parameter_server"])
        if not wrong:
            return rows[k:]
        refused += wrong
    raise Infeasible(refused[0])
