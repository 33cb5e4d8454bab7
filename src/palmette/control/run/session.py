"""From a plan and a request to a training: network, data and engine are found, ``run.json`` is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from palmette.compress.channels import PruningOrigin
from palmette.compress.networks import network_origin
from palmette.control.adapt.online import online_controller
from palmette.control.adapt.replanning import can_replan
from palmette.control.adapters import save_adapters
from palmette.control.prune import Compression
from palmette.control.run.callbacks import RunStart
from palmette.control.run.data import (
    common_name,
    find_data,
    refuse_exhausted,
    refuse_few,
    refuse_overfull,
    with_sample_bytes,
)
from palmette.control.run.engines import engine_of, fetch_kept, passes_no_hub, refuse_strange_hub, samples_folder
from palmette.control.run.folder import refuse_owned, refuse_taken, remove_results, remove_samples, written
from palmette.control.run.metering import RunMeters
from palmette.control.run.owner_limits import within_owner_limits
from palmette.control.run.recipes import find_training, refuse_metric
from palmette.control.run.record import PlanChange, write_record
from palmette.control.run.request import FULL_TRACE, Request, from_record, named_in_recipe, to_record
from palmette.control.run.trust import cluster_code, options_code, plan_code, refuse_untrusted, remember
from palmette.control.run.validation import (
    load_checked_network,
    other_learning_rate,
    other_precision,
    outputs_not_kept,
    refuse_no_update,
    refuse_norm_of_branches,
    refuse_unknown_norms,
    refuse_unprunable,
    refuse_unrunnable,
)
from palmette.control.weights import load, save_best, save_network, shrunk, with_initial_weights
from palmette.cost.delivery import kept_pairs, upload_pairs
from palmette.cost.estimate import evaluator
from palmette.cost.moments import successive_s
from palmette.cost.number_width import in_float_type
from palmette.errors import RunError
from palmette.measure.frozen_profile import with_frozen
from palmette.measure.host_power import HostMeter
from palmette.measure.hosts import prober_of
from palmette.measure.meters.base import Meter
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.optimizer_choice import optimizer_cost, refuse_unfit_weights
from palmette.runtime.training import checkpoint
from palmette.runtime.training.base_weights import refuse_other_base
from palmette.runtime.training.engine_loss import kept_after
from palmette.runtime.training.job import Job, ProgressUpdate, RunOutcome
from palmette.runtime.training.loop import Training
from palmette.runtime.training.phase_length import epoch_iterations
from palmette.runtime.worker.setup import SetupNames
from palmette.spec.cluster import Cluster
from palmette.spec.files import make_folder, read, validated
from palmette.spec.plan import Inputs, Phase, Plan, inputs_of
from palmette.spec.profile import Profile
from palmette.zoo.adapters import split_adapters
from palmette.zoo.capture import parameters, state
from palmette.zoo.freezing import matching_weights, refuse_all_frozen
from palmette.zoo.models import Network
from palmette.zoo.recipes.objective import objective_for

_MOST_REPLAYED = 500
"""Iterations whose times over traces are worked out, of a run that has more."""


def prepare(
    plan: Plan, profile: Profile, cluster: Cluster, request: Request, folder: Path, *, force: bool = False
) -> TrainingSession:
    """Prepare to run a plan from its beginning; with ``force``, in the place of a run that the folder holds.

    Raises:
        InputError: the plan cannot be executed, network, data or options do not fit, or the folder is taken.
    """
    refuse_owned(folder)
    if not force:
        refuse_taken(folder)
    plan = _with_compression(plan, request.compress)
    refuse_strange_hub(request, plan)
    whole = plan.model_copy(update={"inputs": Inputs(cluster=cluster, profile=profile)})
    return _within_limits(TrainingSession(whole, request, folder, None))


def _with_compression(plan: Plan, compression: Compression | None) -> Plan:
    """The plan with smaller models made like this, if given."""
    if compression is None:
        return plan
    return plan.model_copy(
        update={"phases": tuple(p.model_copy(update={"compress": compression}) for p in plan.phases)}
    )


def resume(
    folder: Path,
    *,
    insecure: bool = False,
    trust_code: bool = False,
    typed: Collection[str | None] = (),
    announce: Callable[[Request, Plan], None] | None = None,
) -> TrainingSession:
    """Prepare to continue a run that was stopped; its user allows what no file can, and has ``typed`` names of code.

    ``announce`` is told what is continued before workers are waited for.

    Raises:
        InputError: there is no such run, it is running, there is no checkpoint to continue from, or it names code that
            is not trusted.
    """
    refuse_owned(folder)
    written = read(folder / "run.json")
    plan = validated(Plan, written.get("plan"), f"{folder / 'run.json'}: plan")
    found = checkpoint.last(folder / "checkpoints")
    profile, cluster = inputs_of(plan, None, None)
    refuse_unrunnable(plan, evaluator(profile, cluster))
    options = written.get("options")
    named = plan_code(plan) | cluster_code(cluster) | (options_code(options) if isinstance(options, dict) else set())
    refuse_untrusted({str(folder / "run.json"): named}, trust=trust_code, typed=typed)
    request = from_record(options, str(folder / "run.json"), insecure=insecure)
    finished, metered = written.get("ended") == "done", written.get("metered")
    if announce is not None and not finished:
        announce(request, plan)
    fetch_kept(request, plan, folder / "checkpoints")
    kept = kept_after(found.checkpoint, folder / "checkpoints", request.patience_s)
    begin = kept or found.checkpoint
    progress = begin.progress
    if progress.phases:  # it left the plan
        plan = plan.model_copy(update={"phases": _phases(progress.phases, str(folder / "checkpoints"))})
    changes = [PlanChange(**each) for each in written.get("changes", ())]
    keepers = [str(each) for each in written.get("keepers", ())]
    session = TrainingSession(plan, request, folder, begin, finished=finished, changes=changes, keepers=keepers)
    session = session if finished else _within_limits(session)
    session.meters.restore(metered if isinstance(metered, dict) else {})
    if not finished:
        from_where = "what workers have kept" if kept else "the one before"
        told = f"continuing after {progress.iteration} iterations, from {from_where}"
        session.warnings += [f"{damage}; {told}" for damage in found.damaged]
        if kept and not found.damaged:
            session.warnings.append(f"the engine of this run has died; {told}")
    return session


def _within_limits(session: TrainingSession) -> TrainingSession:
    """The session, or one with another plan, for the cluster that the owners of its machines allow."""
    found = within_owner_limits(session.plan, session.request)
    if found.plan == session.plan:
        return session
    begin, changes = session.resumed, session.changes
    if found.reason is not None:
        done = begin.progress.iteration if begin else 0
        changes = (*changes, PlanChange(done, found.reason, tuple(found.plan.phases[0].nodes())))
    keepers = session.keepers if begin else ()
    made = TrainingSession(
        found.plan, session.request, session.folder, begin, changes=changes, keepers=keepers, meters=session.meters
    )
    if found.reason is not None:
        made.warnings.append(f"{found.reason}; planned again by {found.plan.strategy}")
    return made


def _phases(written: Sequence[Any], file: str) -> tuple[Phase, ...]:
    return tuple(validated(Phase, each, file) for each in written)


class TrainingSession:
    """A run that is ready to start, runs, and writes its files; unless it is ``finished`` already.

    ``warnings`` are what a user should know of its estimate and its training, and of checkpoints that were damaged;
    ``keepers`` the nodes that keep samples of others, also by the plans before.
    """

    def __init__(
        self,
        plan: Plan,
        request: Request,
        folder: Path,
        resumed: checkpoint.Checkpoint | None,
        *,
        finished: bool = False,
        changes: Sequence[PlanChange] = (),
        keepers: Collection[str] = (),
        meters: RunMeters | None = None,
    ) -> None:
        self.plan, self.request, self.folder, self.finished = plan, request, folder, finished
        self.resumed, self.changes = resumed, changes
        sent = {pair for phase in plan.phases for pair in kept_pairs(phase) | upload_pairs(phase)}
        self.keepers = {*keepers, *(node for _, node in sent)}
        profile, cluster = inputs_of(plan, None, None)
        told = other_precision(profile, request.options), other_learning_rate(plan, request.options)
        self.warnings = [each for each in told if each is not None]
        refuse_norm_of_branches(plan, request.options)
        self.evaluator = evaluator(profile, cluster, optimizer_cost(request.options))
        around = passes_no_hub(request, plan, self.evaluator)
        self.warnings += [] if around is None else [around]
        refuse_unrunnable(plan, self.evaluator)
        training = find_training(plan.model, request)
        self.network = load_checked_network(training.model, request, profile, split_adapters(plan.model)[1])
        profile = in_float_type(with_frozen(profile, self.network), request.options.dtype)
        self.evaluator = evaluator(profile, cluster, self.evaluator.optimizer)
        self.testbed, self._engine = engine_of(request, plan, self.evaluator)
        open_ended = request.iterations is None and request.epochs is None
        controller = online_controller(plan, self.evaluator) if open_ended else None
        phases = [*plan.phases, *(controller.phases.values() if controller else ())]
        origin = network_origin(self.network) if any(phase.pruning for phase in phases) else None
        refuse_unprunable(plan, origin)
        refuse_unknown_norms(plan, self.network, profile)
        self.warnings += [told for told in [outputs_not_kept(plan, self.network)] if told is not None]
        self.request = replace(request, data=common_name(phases, cluster, training.data))
        data = find_data(phases, cluster, self.request.data, self.network, training.recipe)
        objective = objective_for(training.recipe, training.name, self.network, data.evaluated)
        refuse_metric(request.options, objective)
        refuse_few(plan.phases, cluster, data)
        cost = replace(self.evaluator.optimizer, divisor_varies=objective.loss.per_sample is None)
        self.evaluator = evaluator(*with_sample_bytes(profile, cluster, data), cost)
        refuse_overfull(plan, self.evaluator, data, objective.labels.stored_bytes)
        if resumed is None:
            refuse_exhausted(plan, self.evaluator, data, request)
        pruning = plan.phases[0].pruning
        self.network = self._with_weights(resumed, pruning, origin)
        frozen_names = matching_weights(self.network.layers, request.options.freeze)
        refuse_all_frozen(plan.model, self.network.layers, frozen_names)
        trained = {
            n: w for n, w in parameters(self.network.layers).items() if w.requires_grad and n not in frozen_names
        }
        with named_in_recipe(training.recipe, request.options):
            refuse_unfit_weights(trained, request.options)
        self._job = Job(
            plan=plan,
            evaluator=self.evaluator,
            network=self.network,
            data=data.evaluated,
            own_data=data.own,
            objective=objective,
            options=replace(request.options, freeze=frozen_names),
            folder=folder,
            samples_folder=samples_folder(request, folder),
            testbed=self.testbed,
            start_crew=self._engine.start,
            iterations=request.iterations,
            epochs=request.epochs,
            resumed=resumed,
            origin=origin,
            pruning=pruning,
            rollback=request.replan and can_replan(plan),
            keep_samples=request.keep_samples is not None,
            real_hosts=ENGINES[request.engine].real_hosts,
            workers_outlive=ENGINES[request.engine].workers_outlive,
            on_epoch_end=controller,
            names=SetupNames(
                model=plan.model,
                recipe=training.name if training.recipe is not None else None,
                input_shape=request.input_shape,
            ),
            patience_s=request.patience_s,
            full_trace=request.trace == FULL_TRACE,
            # No code travels to a hub's workers, so that they know no metrics.
            evaluates_at_owners=self.request.data is None and not (request.engine == "hub" and objective.metrics),
        )
        refuse_no_update(self._job)
        self.meters = meters or self._opened_meters()
        if request.keep_samples is not None and not self._job.real_hosts:
            make_folder(self._job.samples_folder)
        make_folder(folder)

    def _opened_meters(self) -> RunMeters:
        """The meters that the user asks for."""
        alone = len({node for phase in self.plan.phases for node in phase.nodes()}) == 1
        here = alone and not self.request.emulated and not ENGINES[self.request.engine].real_hosts
        of_worker = self._worker_meter if ENGINES[self.request.engine].listens else None
        return RunMeters(self.request.meter, self.evaluator.cluster, here=here, of_worker=of_worker)

    def _worker_meter(self, node: str) -> Meter:
        request, cluster = self.request, self.evaluator.cluster
        keys = None if request.keys is None else Path(request.keys)
        others = [name for name in cluster.nodes if name != node]
        prober = prober_of(request.engine, cluster, others, listen=request.listen, keys=keys)
        assert prober is not None, "an engine that listens has workers on machines of their own"
        return HostMeter(prober, node)

    def _with_weights(
        self, resumed: checkpoint.Checkpoint | None, pruning: float, origin: PruningOrigin | None
    ) -> Network:
        """The network as the run begins: with the weights of a checkpoint or of a file, or fresh."""
        if resumed is not None:
            return self._continued(resumed, origin)
        if self.request.init is not None:
            return with_initial_weights(self.network, self.request.init, pruning, origin)
        return shrunk(self.network, pruning, origin)

    def _continued(self, resumed: checkpoint.Checkpoint, origin: PruningOrigin | None) -> Network:
        """The network of a checkpoint; what that leaves out is what the run began with."""
        if not resumed.progress.base:
            network = shrunk(self.network, resumed.progress.pruning, origin)
            load(network, resumed.weights, str(self.folder))
            return network
        network = self.network
        if self.request.init is not None:
            network = with_initial_weights(network, self.request.init, 0.0, origin)
        refuse_other_base(network.layers, resumed.progress.base, str(self.folder))
        load(network, state(network.layers) | dict(resumed.weights), str(self.folder))
        return network

    def run(self, on_update: Callable[[ProgressUpdate], None], ready: Callable[[Training], None]) -> RunOutcome:
        """Run; ``ready`` gets the training before it starts, to be able to stop it.

        Raises:
            RunError: it stopped before its end; the last checkpoint remains.
        """
        training = Training(self._job, on_update)
        if self._job.resumed is None:
            remove_results(self.folder)
        self._write(training, "running")
        training.on_time_estimate.append(lambda _: self._write(training, "running"))
        ready(training)
        try:
            outcome = training.run()
        except BaseException as error:
            with suppress(RunError):  # what ended the run comes first
                self._write(training, str(error) or type(error).__name__)
            raise
        if outcome.ended == "done" and not self._job.keep_samples:
            self._delete_samples()
        self.network = training.network
        save_network(self.network, training.pruning, self.folder / "model.safetensors")
        save_best(self.network, self.folder)
        save_adapters(self.network, self.folder / "adapters")
        self._write(training, outcome.ended)
        return outcome

    def _delete_samples(self) -> None:
        """Delete what nodes keep, also on nodes that another plan has left out; those of the last plan have done so."""
        delete, using = self._engine.delete_samples, {node for phase in self.plan.phases for node in phase.nodes()}
        left_out = self.keepers - using
        if delete is not None and left_out:
            delete(self._job.samples_folder, left_out)
        remove_samples(self._job.samples_folder)

    def start(self, training: Training) -> RunStart:
        """What a run starts with."""
        done, options = training.outcome.iterations, to_record(self.request)
        return RunStart(self.folder, self.plan, options, done, training.iterations)

    def estimate_s(self, outcome: RunOutcome) -> float:
        """The estimate of the iteration that was measured: of the first epoch, if most of them were in it.

        Over traces of links, which testbeds replay from their beginning, that of a mean link would be another one.
        """
        phase = self.plan.phases[outcome.phase]
        if self.request.emulated and self.evaluator.cluster.varies and outcome.iterations:
            return median(successive_s(phase, self.evaluator, min(outcome.iterations, _MOST_REPLAYED)))
        price, epoch = self.evaluator.price(phase), epoch_iterations(phase, self._job)
        return price.first_epoch_iteration_s if outcome.iterations < 2 * epoch else price.iteration_s

    def _write(self, training: Training, ended: str) -> None:
        if training.segments.turned:
            self.plan = self.plan.model_copy(update={"phases": tuple(training.segments.phases())})
        outcome = training.outcome
        write_record(
            self.folder,
            outcome,
            ended=ended,
            epoch_iterations=epoch_iterations(self.plan.phases[outcome.phase], self._job),
            estimate_s=self.estimate_s(outcome),
            plan=self.plan,
            request=self.request,
            changes=self.changes,
            keepers=sorted(self.keepers),
            metered=self.meters.record(),
        )
        if plan_code(self.plan) | cluster_code(self.evaluator.cluster) | options_code(to_record(self.request)):
            for file in written(self.folder):  # what they name was trusted, or typed, when the run began
                remember(file)
