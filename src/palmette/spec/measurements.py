"""Measurements of a short pre-training on each device: the table that ``cluster`` decides on."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from palmette.spec.document import Count, Name, Number, OpenDocument, Positive

LEAST = 1e-9


def _not_tiny(value: float) -> float:
    """Keep the products and quotients of several figures finite."""
    if 0 < value < LEAST:
        raise ValueError(f"expected at least {LEAST:g}")
    return value


Divisor = Annotated[Positive, AfterValidator(_not_tiny)]
Watts = Annotated[Number, AfterValidator(_not_tiny)]


class ClusterFactors(OpenDocument):
    """What multiplies a step's seconds and watts: alpha for the exchange of weights, beta for the bandwidth."""

    time_alpha: Divisor = 1.0
    time_beta: Divisor = 1.0
    power_alpha: Divisor = 1.0
    power_beta: Divisor = 1.0

    @property
    def time(self) -> float:
        """What multiplies seconds."""
        return self.time_alpha * self.time_beta

    @property
    def power(self) -> float:
        """What multiplies watts."""
        return self.power_alpha * self.power_beta


class MeasuredDevice(ClusterFactors):
    """A device alone: seconds of a step and of building the model, watts while it trains.

    The factors hold in clusters of two or more devices. Other ones, if given, hold where the parameter server is on the
    device itself (``with_server``), or on one of these other devices (``by_server``). ``served_s`` are the seconds for
    which each step of another device takes the way to a parameter server here that others share.
    """

    step_s: Divisor
    build_s: Number
    power_w: Watts
    served_s: Number = 0.0
    with_server: ClusterFactors | None = None
    by_server: dict[Name, ClusterFactors] = Field(default_factory=dict)


class Measurements(OpenDocument):
    """The devices that could train a model for so many steps."""

    format: Literal["palmette.measurements/1"] = "palmette.measurements/1"
    model: Name | None = None
    batch: Count | None = None
    steps: Count
    devices: Annotated[dict[Name, MeasuredDevice], Field(min_length=1)]

    def to_json(self) -> str:
        """The measurements as the text of their file."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
