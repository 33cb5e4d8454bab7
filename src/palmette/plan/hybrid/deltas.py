"""Coded outputs as deltas to those that both ends keep: half the bytes from the second epoch on, for memory."""

from __future__ import annotations

from palmette.spec.codec import CODEC_KINDS, DELTAS
from palmette.spec.plan import Phase


def with_deltas(phase: Phase) -> Phase | None:
    """The phase with its coded outputs as deltas; None where none are coded."""
    coded = [each.into is not None and CODEC_KINDS[each.codec].lossy for each in phase.instances]
    if not any(coded):
        return None
    instances = [
        each.model_copy(update={"codec": DELTAS}) if lossy else each
        for each, lossy in zip(phase.instances, coded, strict=True)
    ]
    return phase.model_copy(update={"instances": tuple(instances)})
