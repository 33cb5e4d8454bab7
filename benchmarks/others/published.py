"""What was published with the plans: layer times and sizes, and bandwidths by the size of a message.

Layer times are given for some sizes of a microbatch and some tensor-parallel degrees. As everywhere in Palmette, a line
is fitted to them: a fixed part of a call and seconds a sample (``measure.call_time_fit``). A bandwidth in GB/s is a
polynomial of the logarithm (to base 2) of the megabytes of a message.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from palmette.measure.call_time_fit import fit_call_time

FOLDER = Path("../shared/data/sailor")
MODEL = "OPT-350"
_SIZES_MB = [2.0 ** (k / 2) for k in range(-4, 25)]


class Machine(NamedTuple):
    """A kind of machine in a zone, with as many GPUs as share each layer."""

    kind: str
    gpus: int
    zone: str


class Published:
    """The folder with profiles, sizes and network coefficients."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._layers = self._read("opt-350-layers.json")[MODEL]
        self._between = self._read("network/multizone_bandwidths_het.json")
        self._alike = self._read("network/network_coeffs_all_homo.json")["inter"]
        self._within = self._read("network/intra_node_bandwidths.json")

    def _read(self, name: str) -> Any:
        return json.loads((self._folder / name).read_text())

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self._layers["1"])

    def times(self, machine: Machine) -> dict[str, list[float]]:
        """The times of all layers on a machine, as fields of a profile."""
        tables = self._read(f"profiles/{MODEL}-{machine.kind}.json")
        known = {int(many): table[str(machine.gpus)] for many, table in tables.items() if str(machine.gpus) in table}
        if not known:
            raise SystemExit(f"no times of {machine.kind} with {machine.gpus} GPUs are published")
        sizes = sorted(known)

        def lines(what: int) -> list[tuple[float, float]]:
            made = [fit_call_time(sizes, [known[m][str(k)][what] for m in sizes]) for k in range(self.depth)]
            return [(line.call_s, line.sample_s) for line in made]

        forward, backward = lines(0), lines(1)
        return {
            "forward_s": [sample_s for _, sample_s in forward],
            "forward_call_s": [call_s for call_s, _ in forward],
            "backward_s": [sample_s for _, sample_s in backward],
            "backward_call_s": [call_s for call_s, _ in backward],
            "update_s": [median(known[m][str(k)][2] for m in sizes) for k in range(self.depth)],
        }

    def layer(self, number: int, gpus: int) -> dict[str, float]:
        """The sizes of a layer, over all GPUs that share it, as fields of a profile."""
        own, whole = self._layers[str(gpus)][str(number)], self._layers["1"][str(number)]
        return {
            "parameter_bytes": gpus * own["params_bytes"],
            "output_bytes": whole["act_output_bytes"],
            "activation_bytes": gpus * own["act_mem_bytes"],
        }

    def embedding_bytes(self, gpus: int) -> float:
        """The weight that the first and the last layer share: what the first has beside a vector for each position."""
        first = self._layers[str(gpus)]["0"]
        return 4.0 * gpus * (first["params_floats"] - first["act_output_floats"])

    @cache  # noqa: B019 -- lives as long as the program
    def rates(self, a: Machine, b: Machine) -> list[tuple[float, float]]:
        """Bytes of a message, and bit/s that it reaches from one machine to the other."""
        coefficients = self._coefficients(a, b)
        found = [(1e6 * size, 8e9 * _polynomial(coefficients, math.log2(size))) for size in _SIZES_MB]
        return [(size, rate) for size, rate in found if rate > 0]

    @cache  # noqa: B019 -- lives as long as the program
    def gathered_rates(self, a: Machine, b: Machine) -> list[tuple[float, float]]:
        """The same for what each GPU sends a part of: those of the receiver then gather the others' parts."""
        return [
            (size, 1 / (1 / rate + max(self._gather(each, size) for each in (a, b)))) for size, rate in self.rates(a, b)
        ]

    def _gather(self, machine: Machine, size_bytes: float) -> float:
        """Seconds a bit until all GPUs of a machine have all parts of a message."""
        known = self._within.get(machine.kind, {}).get(str(machine.gpus))
        rate = 8e9 * _polynomial(known[0], math.log2(size_bytes / 1e6)) if known else 0.0
        return (machine.gpus - 1) / machine.gpus / rate if rate > 0 else 0.0

    def _coefficients(self, a: Machine, b: Machine) -> list[float]:
        """Those published for the pair, either way round; else those of the slower kind among its own."""
        for one, other in ((a, b), (b, a)):
            table = self._between.get(one.zone, {}).get(one.kind, {}).get(str(one.gpus), {})
            table = table.get(other.zone, {}).get(other.kind, {})
            if str(other.gpus) in table:
                return list(table[str(other.gpus)][0])
        alike = [self._alike[each.kind][str(min(a.gpus, b.gpus))] for each in (a, b)]
        return list(min(alike, key=lambda each: float(each[1]))[0])


def _polynomial(coefficients: list[float], x: float) -> float:
    value = 0.0
    for each in coefficients:
        value = value * x + each
    return value
