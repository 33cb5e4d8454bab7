"""Measurements: what a short pre-training found out about each device, the table that ``cluster`` decides on."""

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


class MeasuredDevice(OpenDocument):
    """A device alone: seconds of a step and of building the model, watts while it trains.

    The factors multiply ``step_s`` and ``power_w`` in clusters of two or more devices: alpha for the exchange of
    weights, beta for the bandwidth.
    """

    step_s: Divisor
    build_s: Number
    power_w: Watts
    time_alpha: Divisor = 1.0
    time_beta: Divisor = 1.0
    power_alpha: Divisor = 1.0
    power_beta: Divisor = 1.0


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
