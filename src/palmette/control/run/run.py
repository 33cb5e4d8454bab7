"""From a plan and options to a run: network and data are found, the ground is chosen, ``run.json`` is written."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch

from palmette.compress.channels import PruningOrigin
from palmette.compress.networks import network_origin
from palmette.control.adapt.online import director
from palmette.control.adapt.replanning import can_ask_again
from palmette.control.run.data import common_name, find_data, refuse_few
from palmette.control.run.engines import default_testbed, engine_of, refuse_strange_hub
from palmette.control.weights import initial, load, save_network, shrunk
from palmette.cost.check import check
from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.errors import Fault, InputError, RunError
from palmette.measure.layer_sizes import batch_norm_channels
from palmette.runtime.options import Options
from palmette.runtime.training import checkpoint
from palmette.runtime.training.job import Job, Outcome, Update
from palmette.runtime.training.loop import Training
from palmette.spec.cluster import Cluster
from palmette.spec.files import make_folder, read, validated, write_text
from palmette.spec.plan import Inputs, Phase, Plan, inputs_of
from palmette.spec.profile import Profile
from palmette.zoo.freezing import matching_weights, refuse_all_frozen
from palmette.zoo.models import Network, load_network

FORMAT = "palmette.run/1"
MODELLED = "modelled: declared power of the nodes on the measured trace"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asks of a run beside the plan; the testbed is ``paced``, and ``none`` where the hosts are real.

    ``data`` is what sources that name no data draw from, the digits if not given; where sources name data, it is only
    what the network is judged by, by default the held-out part of all their data. A run that may ``replan`` goes on
    without a node that is lost; one that is the source of data only if it may lose data. It looks into ``cluster_file``
    for nodes that have joined or left, and plans again when a link's speed is off by more than the fraction ``drift``.
    """

    data: str | None = None
    iterations: int | None = None
    epochs: int | None = None
    engine: str = "local"
    testbed: str = ""
    transport: str = "gloo"
    keys: str | None = None
    hub: str | None = None
    dilation: float | None = None
    input_shape: tuple[int, ...] | None = None
    init: str | None = None
    cluster_file: str | None = None
    replan: bool = True
    allow_data_loss: bool = False
    compress: Literal["prune", "distill"] | None = None
    drift: float = 0.5
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        if not self.testbed:
            object.__setattr__(self, "testbed", default_testbed(self.engine))


def start(plan: Plan, profile: Profile, cluster: Cluster, request: Request, folder: Path) -> Running:
    """Make ready to run a plan from its beginning.

    Raises:
        InputError: the plan cannot be carried out, or network, data or options do not fit.
    """
    if request.iterations is not None and request.epochs is not None:
        raise InputError(Fault("--epochs", request.epochs, "expected either --epochs or --iterations, not both"))
    plan = _compressed(plan, request.compress)
    refuse_strange_hub(request, plan)
    whole = plan.model_copy(update={"inputs": Inputs(cluster=cluster, profile=profile)})
    return Running(whole, request, folder, None)


def _compressed(plan: Plan, way: Literal["prune", "distill"] | None) -> Plan:
    """The plan with smaller models made this way, where one is asked for."""
    if way is None:
        return plan
    return plan.model_copy(update={"phases": tuple(p.model_copy(update={"compress": way}) for p in plan.phases)})


def resume(folder: Path) -> Running:
    """Make ready to go on with a run that was stopped.

    Raises:
        InputError: there is no such run, or nothing to go on from.
    """
    written = read(folder / "run.json")
    plan = validated(Plan, written.get("plan"), str(folder / "run.json"))
    request = _request(written.get("options"), str(folder / "run.json"))
    found = checkpoint.last(folder / "checkpoints")
    if found.progress.phases:  # its course took a turn
        plan = plan.model_copy(update={"phases": _phases(found.progress.phases, str(folder / "checkpoints"))})
    changes = [Change(**each) for each in written.get("changes", ())]
    return Running(plan, request, folder, found, finished=written.get("ended") == "done", changes=changes)


def _phases(written: Sequence[Any], file: str) -> tuple[Phase, ...]:
    return tuple(validated(Phase, each, file) for each in written)


def _written(request: Request) -> dict[str, Any]:
    """The options of a run as they stand in ``run.json``, those of the training beside the others."""
    given = asdict(request)
    options: dict[str, Any] = given.pop("options")
    return given | options


def _request(data: Any, file: str) -> Request:
    try:
        given: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in data.items()}
        options = Options(**{each.name: given.pop(each.name) for each in fields(Options)})
        return Request(**given, options=options)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InputError(Fault("options", data, f"cannot be read: {error}", file)) from None


@dataclass(frozen=True)
class Change:
    """A change of plan: after how many iterations, why, and which nodes take part now."""

    iteration: int
    reason: str
    nodes: tuple[str, ...]


class Running:
    """A run that is ready to go, goes, and leaves its files behind; unless it is ``finished`` already."""

    def __init__(
        self,
        plan: Plan,
        request: Request,
        folder: Path,
        resumed: checkpoint.Checkpoint | None,
        *,
        finished: bool = False,
        changes: Sequence[Change] = (),
    ) -> None:
        self.plan, self.request, self.folder, self.finished = plan, request, folder, finished
        self.changes = changes
        profile, cluster = inputs_of(plan, None, None)
        self.evaluator = evaluator(profile, cluster, request.options.optimizer)
        refuse_unrunnable(plan, self.evaluator)
        ground, hire = engine_of(request, plan, self.evaluator)
        self.network = _network(plan.model, request, profile)
        direct = director(plan, self.evaluator) if request.iterations is None and request.epochs is None else None
        to_come = [*plan.phases, *(direct.phases.values() if direct else ())]
        origin = network_origin(self.network) if any(phase.pruning for phase in to_come) else None
        refuse_unprunable(plan, origin)
        refuse_unknown_norms(plan, self.network, profile)
        self.request = replace(request, data=common_name(to_come, cluster, request.data))
        data = find_data(to_come, cluster, self.request.data, self.network)
        refuse_few(plan.phases, cluster, data)
        start = plan.phases[0].pruning
        if resumed is not None:
            self.network = shrunk(self.network, resumed.progress.pruning, origin)
            load(self.network, resumed.weights, str(folder))
        elif request.init is not None:
            self.network = initial(self.network, request.init, start, origin)
        else:
            self.network = shrunk(self.network, start, origin)
        stays = matching_weights(self.network.layers, request.options.freeze)
        refuse_all_frozen(plan.model, self.network.layers, stays)
        make_folder(folder)
        self._job = Job(
            plan=plan,
            evaluator=self.evaluator,
            network=self.network,
            data=data.judged,
            own_data=data.own,
            options=replace(request.options, freeze=stays),
            folder=folder,
            ground=ground,
            hire=hire,
            iterations=request.iterations,
            epochs=request.epochs,
            resumed=resumed,
            origin=origin,
            pruning=start,
            keeps=request.replan and can_ask_again(plan),
            direct=direct,
        )

    def run(self, watch: Callable[[Update], None], ready: Callable[[Training], None]) -> Outcome:
        """Run; ``ready`` gets the training before it starts, so that it can be stopped.

        Raises:
            RunError: it stopped before its end; the last checkpoint remains.
        """
        training = Training(self._job, watch)
        self._write(training, "running")
        training.foretold.append(lambda _: self._write(training, "running"))
        ready(training)
        try:
            outcome = training.run()
        except BaseException as error:
            self._write(training, str(error) or type(error).__name__)
            raise
        self.network = training.network
        save_network(self.network, training.pruning, self.folder / "model.safetensors")
        self._write(training, outcome.ended)
        return outcome

    def estimate_s(self, outcome: Outcome) -> float:
        """What the evaluator says of the iteration that was measured."""
        return self.evaluator.price(self.plan.phases[outcome.phase]).iteration_s

    def _write(self, training: Training, ended: str) -> None:
        outcome = training.outcome
        if training.course.turned:
            self.plan = self.plan.model_copy(update={"phases": tuple(training.course.phases())})
        written = {
            "format": FORMAT,
            "ended": ended,
            "iterations": outcome.iterations,
            "iteration_s": outcome.iteration_s,
            "estimate_s": self.estimate_s(outcome),
            **_epoch_times(outcome),
            "energy_j": outcome.energy_j if outcome.iterations else None,
            "time_s": outcome.time_s if outcome.iterations else None,
            "energy_source": MODELLED if outcome.energy_j is not None else None,
            "accuracy": outcome.judgement.accuracy if outcome.judgement else None,
            "dilation": outcome.dilation,
            "expected_wall_s": outcome.expected_wall_s,
            "widened": [asdict(each) for each in outcome.widened],
            "engine": self.request.engine,
            "testbed": self.request.testbed,
            "transport": self.request.transport,
            "seed": self.request.options.seed,
            "nodes": outcome.node_seconds,
            "changes": [asdict(change) for change in self.changes],
            "options": _written(self.request),
            "versions": {
                "palmette": version("palmette"),
                "torch": str(torch.__version__),
                "python": platform.python_version(),
            },
            "plan": self.plan.model_dump(mode="json"),
        }
        try:
            write_text(self.folder / "run.json", json.dumps(written, indent=1) + "\n")
        except InputError as error:
            raise RunError(str(error)) from None


def _epoch_times(outcome: Outcome) -> dict[str, float | None]:
    """An epoch of federated averaging as it was and as the evaluator prices one with as many steps."""
    found = outcome.measured.get(outcome.phase)
    if found is None or found.estimate_epoch_s is None:
        return {}
    return {"epoch_s": found.epoch_s, "estimate_epoch_s": found.estimate_epoch_s}


def refuse_unrunnable(plan: Plan, prices: Evaluator) -> None:
    """Refuse a plan that cannot be carried out.

    Raises:
        InputError: says everything that stands against it.
    """
    wrong = check(plan, prices)
    if wrong:
        raise InputError(wrong)


def refuse_unprunable(plan: Plan, origin: PruningOrigin | None) -> None:
    """Refuse phases whose model cannot be made: too small, or larger than the one before.

    Raises:
        InputError: a line for each.
    """
    wrong = []
    for k, phase in enumerate(plan.phases):
        before = plan.phases[k - 1].pruning if k else 0.0
        if phase.pruning < before:
            expected = f"{before:g} is removed before, and what is gone does not come back; expected at least that"
            wrong.append(Fault(f"phases[{k}].pruning", phase.pruning, expected))
        try:
            if origin is not None:
                origin.cuts(phase.pruning)
        except InputError as error:
            wrong += [Fault(f"phases[{k}].pruning", fault.value, fault.expected) for fault in error.faults]
    if wrong:
        raise InputError(wrong)


def refuse_unknown_norms(plan: Plan, network: Network, profile: Profile) -> None:
    """Refuse to share statistics of batch norms that the profile has otherwise than the network: nobody would wait.

    Raises:
        InputError: names the layers.
    """
    if all(phase.batch_norm == "parts" for phase in plan.phases):
        return
    wrong = [
        Fault(
            f"profile.layers[{k}].batch_norm_channels",
            list(known.batch_norm_channels),
            f"{plan.model}'s layer {layer.name} has {list(found)}; expected a profile of this network",
        )
        for k, (layer, known, found) in enumerate(
            zip(network.layers, profile.layers, batch_norm_channels(network), strict=True)
        )
        if known.batch_norm_channels != found
    ]
    if wrong:
        raise InputError(wrong)


def _network(model: str, request: Request, profile: Profile) -> Network:
    network = load_network(model, request.input_shape, seed=request.options.seed)
    if len(network.layers) != len(profile.layers):
        many = f"it has {len(network.layers)} layers, the profile {len(profile.layers)}"
        raise InputError(Fault("model", model, f"{many}; expected a profile of this network"))
    wrong = [
        Fault(
            f"profile.layers[{k}].parameter_bytes", known.parameter_bytes, f"{model}'s layer {layer.name} has weights"
        )
        for k, (layer, known) in enumerate(zip(network.layers, profile.layers, strict=True))
        if known.parameter_bytes == 0 and any(weight.numel() for weight in layer.module.parameters())
    ]
    if wrong:  # where the profile knows of no weights, no replicas would agree on them
        raise InputError(wrong)
    for layer in network.layers:
        layer.module.to(getattr(torch, request.options.dtype))
    return network
