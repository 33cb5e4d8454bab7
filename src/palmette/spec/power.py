"""A power model: watts as a linear function of counters, equation (1) of Gu et al."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from palmette.errors import expected_name
from palmette.spec.document import Count, LocatedFault, Name, Number, OpenDocument, refuse

COUNTERS: dict[str, str] = {
    "f_cpu": "clock of the CPU, Hz",
    "f_gpu": "clock of the GPU, Hz",
    "f_emc": "clock of the memory controller, Hz",
    "f_cp": "clock of the co-processor, Hz",
    "u_cpu": "utilisation of the CPU, from 0 to 1",
    "u_gpu": "utilisation of the GPU, from 0 to 1",
    "u_cp": "utilisation of the co-processor, from 0 to 1",
    "u_mem": "memory in use, from 0 to 1",
    "m_gpu": "memory in use on the GPU, bytes",
    "m_swap": "swap in use, bytes",
    "c_cp": "active cores of the co-processor",
}
Signed = Annotated[float, Field(strict=True)]


class PowerModel(OpenDocument):
    """Watts = intercept + Σ coefficient · counter, fitted on ``samples``; ``left_out`` counters say nothing.

    ``mean_error`` is the mean of |predicted − metered| / metered over samples that the fit had not seen.
    """

    format: Literal["palmette.power/1"] = "palmette.power/1"
    intercept_w: Signed
    coefficients: dict[Name, Signed]
    left_out: tuple[Name, ...] = ()
    mean_error: Number
    samples: Count
    meter: Name = "unknown"

    @model_validator(mode="after")
    def _known_counters(self) -> Self:
        known = list(COUNTERS)
        wrong = [
            LocatedFault(("coefficients", name), name, expected_name(name, "counter", known))
            for name in self.coefficients
            if name not in COUNTERS
        ]
        if wrong:
            refuse("PowerModel", wrong)
        return self

    def watts(self, counters: Mapping[str, float]) -> float:
        """What a machine with these counters draws; never less than nothing."""
        total = self.intercept_w + sum(weight * counters[name] for name, weight in self.coefficients.items())
        return max(0.0, total)

    def to_json(self) -> str:
        """The model as the text of its file."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
