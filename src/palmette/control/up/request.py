"""What a training file asks of the run."""

from __future__ import annotations

from palmette.control.run.request import Request
from palmette.control.up.steps import UpRequest
from palmette.spec.plan import Plan


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
