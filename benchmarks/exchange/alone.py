"""The operations of an iteration in which every instance sends its gradients by itself, and updates by itself."""

from __future__ import annotations

from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import iteration_steps, with_sizes
from palmette.cost.sizes import Run
from palmette.cost.steps import Iteration, Kind, Step, Steps
from palmette.spec.plan import Phase


def each_alone(phase: Phase, prices: Evaluator) -> Iteration:
    """The same iteration with a push, a pull and an update an instance."""
    sizes = prices.sizes(phase.pruning)
    before = iteration_steps(phase, sizes, prices.routes)
    steps: Steps = []
    became: dict[int, list[int]] = {}
    backward = {step.instance: number for number, step in enumerate(before) if step.kind is Kind.BACKWARD}
    senders: dict[tuple[str, str], list[int]] = {}
    waits: dict[int, list[int]] = {k: [] for k in range(len(phase.instances))}
    for number, step in enumerate(before):
        after = [each for need in step.after for each in became[need]]
        if step.kind is Kind.PUSH:
            own = [before[need].instance for need in step.after]
            senders[step.node, step.to or ""] = own
            made = [_message(Kind.PUSH, phase, k, step, [became[backward[k]][0]]) for k in own]
        elif step.kind is Kind.PULL:
            own = senders[step.to or "", step.node]
            made = [_message(Kind.PULL, phase, k, step, after) for k in own]
            for place, k in enumerate(own):
                waits[k].append(len(steps) + place)
        elif step.kind is Kind.UPDATE:
            continue
        else:
            made = [Step(step.kind, step.instance, step.node, after, step.to, step.source, step.layers)]
            if step.kind is Kind.AVERAGE:
                for k, instance in enumerate(phase.instances):
                    if instance.node == step.node and _common(instance.layers, step.layers):
                        waits[k].append(len(steps))
        became[number] = list(range(len(steps), len(steps) + len(made)))
        steps += made
    for k, instance in enumerate(phase.instances):
        steps.append(Step(Kind.UPDATE, k, instance.node, [became[backward[k]][0], *waits[k]]))
    return with_sizes(steps, phase, sizes)


def _message(kind: Kind, phase: Phase, k: int, step: Step, after: list[int]) -> Step:
    layers = _common(phase.instances[k].layers, step.layers)
    return Step(kind, k, step.node, after, step.to, layers=layers)


def _common(run: Run, others: tuple[Run, ...]) -> tuple[Run, ...]:
    return tuple((max(run[0], a), min(run[1], b)) for a, b in others if run[0] <= b and a <= run[1])
