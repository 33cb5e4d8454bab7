"""What a plan may do to a training that its price does not tell: a sentence for each, for people and scripts alike."""

from __future__ import annotations

from collections.abc import Iterator

from palmette.spec.plan import Phase, Plan


def warnings_of(plan: Plan) -> list[str]:
    """The warnings of all phases of a plan that ``check`` finds nothing wrong with, each once."""
    found = (warning for phase in plan.phases for warning in _of_phase(phase))
    return list(dict.fromkeys(found))


def _of_phase(phase: Phase) -> Iterator[str]:
    yield from _lossy(phase)


def _lossy(phase: Phase) -> Iterator[str]:
    """Outputs that arrive as other numbers than were sent."""
    lossy = [instance.id for instance in phase.instances if instance.codec != "none" and instance.into is not None]
    if lossy:
        named = ", ".join(lossy)
        yield f"outputs of {named} travel as 8-bit integers; what that costs in loss is unknown until it is measured"
