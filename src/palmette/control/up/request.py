"""What a training file asks of the run."""

from __future__ import annotations

from dataclasses import replace

from palmette.control.run.engines import membership_of
from palmette.control.run.request import CommonRequest, Request
from palmette.control.up.steps import UpRequest
from palmette.measure.hosts import prober_of
from palmette.runtime.engines.registry import ENGINES
from palmette.spec.plan import Plan


def meeting_place(asked: UpRequest) -> CommonRequest:
    """Where workers of the nodes are found, as far as a training file says."""
    keys = None if asked.keys is None else str(asked.keys)
    return CommonRequest(engine=asked.training.engine, keys=keys, listen=asked.training.run.listen)


def within_worker_limits(asked: UpRequest) -> UpRequest:
    """The training with its cluster within the limits of the workers, for which it waits where the engine listens.

    Raises:
        InputError: the engine cannot start.
        RunError: a node's worker has not come.
    """
    place = meeting_place(asked)
    if not ENGINES[place.engine].listens:
        return asked
    prober_of(place.engine, asked.cluster, listen=place.listen, keys=asked.keys)
    return replace(asked, cluster=membership_of(place).limited(asked.cluster))


def run_request(asked: UpRequest, plan: Plan) -> Request:
    """The request of a run of the plan; a plan that says how long it trains is obeyed.

    Raises:
        InputError: an option cannot be used.
    """
    training, run = asked.training, asked.training.run
    says_itself = any(phase.epochs is not None for phase in plan.phases)
    return Request(
        recipe=training.recipe,
        data=training.data,
        iterations=training.iterations,
        epochs=None if says_itself else training.epochs,
        engine=training.engine,
        input_shape=training.input_shape,
        testbed=run.testbed,
        dilation=run.dilation,
        transport=run.transport,
        keys=None if asked.keys is None else str(asked.keys),
        hub=run.hub,
        listen=run.listen,
        insecure=run.insecure,
        track=run.track,
        cluster_file=None if asked.cluster_file is None else str(asked.cluster_file.absolute()),
        options=asked.options,
    )
