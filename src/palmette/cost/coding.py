"""What compressing and extracting adds to the time of messages.

Workers code in the threads that send and receive, beside the calls: so it delays a message, and takes no CPU share. A
node that pushes gradients or differences also extracts them, for what it has left out; the average is coded once, where
it is found:

    phone   compress, extract ─▶ push ─▶ extract … average: compress, extract ─▶ pull ─▶ extract

Where both ends keep outputs, the sender extracts what it sends as well, to keep the same; the time of compressing a
difference counts that.
"""

from __future__ import annotations

from collections.abc import Callable

from palmette.cost.sizes import Sizes
from palmette.cost.steps import Iteration, Kind, Step
from palmette.spec.codec import CODEC_KINDS, returning_codec
from palmette.spec.exchange import Exchange
from palmette.spec.plan import Phase
from palmette.spec.profile import CodingSeconds

CodingTimes = Callable[[str], CodingSeconds]
"""By node, seconds per number for compressing and extracting, by codec."""
_NOTHING = (0.0, 0.0)


def coding_seconds(phase: Phase, made: Iteration, sizes: Sizes, times: CodingTimes) -> dict[int, float]:
    """Seconds that coding adds to messages and averages, by number, where they are known."""
    exchange = sizes.exchange_of(phase.exchange)
    exchanges = exchange.kind.lossy and not phase.sync_kind.has_server
    if not exchanges and not any(CODEC_KINDS[instance.codec].lossy for instance in phase.instances):
        return {}
    found = {k: _output_s(phase, made, step, sizes, times) for k, step in enumerate(made.steps) if step.to is not None}
    if exchanges:
        pulled = {need for step in made.steps if step.kind is Kind.PULL for need in step.after}
        for k, step in enumerate(made.steps):
            if step.kind in (Kind.PUSH, Kind.PULL) or k in pulled:
                one_model = phase.sync_kind.one_model
                numbers = sizes.exchanged_numbers(step.layers) if one_model else sizes.trained_numbers(step.layers)
                found[k] = _exchange_s(step, exchange, numbers, times)
    return {k: seconds for k, seconds in found.items() if seconds}


def _output_s(phase: Phase, made: Iteration, step: Step, sizes: Sizes, times: CodingTimes) -> float:
    """Of an output, or the gradient that comes back."""
    if step.kind not in (Kind.OUTPUT, Kind.GRADIENT) or step.to is None:
        return 0.0
    instance = phase.instances[step.instance]
    back = step.kind is Kind.GRADIENT
    codec = returning_codec(instance.codec) if back else instance.codec
    numbers = sizes.coded_numbers(instance.layers[1], made.samples[step.instance], back=back)
    first, sender, receiver = CODEC_KINDS[codec].first, times(step.node), times(step.to)
    if first is None:
        return numbers * (sender.get(codec, _NOTHING)[0] + receiver.get(codec, _NOTHING)[1])
    known = made.known[step.instance] if made.known else 0.0
    first_s = sum(sender.get(first, _NOTHING)) + receiver.get(first, _NOTHING)[1]
    return numbers * (
        (1 - known) * first_s + known * (sender.get(codec, _NOTHING)[0] + receiver.get(codec, _NOTHING)[1])
    )


def _exchange_s(step: Step, exchange: Exchange, numbers: float, times: CodingTimes) -> float:
    """Of gradients or differences: a push, a pull, or their average."""
    numbers *= exchange.work
    there = sum(times(step.node).get(exchange.codec, _NOTHING)) if step.kind is not Kind.PULL else 0.0
    return numbers * (there + (times(step.to).get(exchange.codec, _NOTHING)[1] if step.to is not None else 0.0))
