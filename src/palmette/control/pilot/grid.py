"""Which runs a pilot makes: settings that differ in what the loss depends on.

Fractions of the data and numbers of replicas are combined, each with each, since the learning curve multiplies what
they do; epochs come along, as every run has a loss after each. What is varied beside them gets runs of its own about
the usual setting: one for each value, not for each combination.

    data        1     0.5   0.25   1     0.5   0.25     1       1         1     1
    replicas    1     1     1      2     2     2        1       1         2     2
    source      all   all   all    all   all   all      phone   tablet    all   all
    window      1     1     1      1     1     1        1       1         8     32
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from urllib.parse import quote

from palmette.errors import ArgumentFault, InputError
from palmette.spec.cluster import Cluster
from palmette.spec.sync import OuterOptimizer

_MOST_REPLICAS = 1000


@dataclass(frozen=True, kw_only=True)
class PilotSetting:
    """One run: the fraction of the data, the replicas, and the only source that gives data, if not all do.

    Replicas take ``window`` steps before they average their weights; with ``outer``, an outer optimizer follows.
    """

    fraction: float = 1.0
    replicas: int = 1
    source: str | None = None
    window: int = 1
    outer: OuterOptimizer | None = None

    @property
    def name(self) -> str:
        """Its name, which is that of a folder."""
        alone = "" if self.source is None else f"-source-{quote(self.source, safe='').replace('.', '%2E')}"
        apart = "" if self.window == 1 else f"-window-{self.window}{'' if self.outer is None else '-outer'}"
        return f"data-{self.fraction:g}-replicas-{self.replicas}{alone}{apart}"

    def work(self, cluster: Cluster) -> float:
        """About how long an epoch of it is, where one of all data is 1."""
        owned = {name: node.source.samples for name, node in cluster.nodes.items() if node.source is not None}
        return self.fraction * (1.0 if self.source is None else owned[self.source] / sum(owned.values()))


@dataclass(frozen=True, kw_only=True)
class PilotGrid:
    """What is varied; with ``each_source``, every source that names data of its own also trains alone.

    ``windows`` longer than a step are tried with the most replicas, with ``outer`` or without.

    Raises:
        InputError: a fraction or a number of replicas is out of its range, or there is none.
    """

    fractions: tuple[float, ...] = (1.0, 0.5, 0.25)
    replicas: tuple[int, ...] = (1, 2)
    each_source: bool = False
    windows: tuple[int, ...] = (1,)
    outer: OuterOptimizer | None = None

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise InputError(faults)

    def _faults(self) -> Iterator[ArgumentFault]:
        for name in ("fractions", "replicas"):
            if not getattr(self, name):
                yield ArgumentFault(name, "none", "expected at least one")
        for fraction in self.fractions:
            if not 0 < fraction <= 1 or math.isnan(fraction):
                yield ArgumentFault("fractions", fraction, "expected more than 0 and at most 1")
        for many in self.replicas:
            if not 1 <= many <= _MOST_REPLICAS:
                yield ArgumentFault("replicas", many, f"expected at least 1 and at most {_MOST_REPLICAS}")
        for steps in self.windows:
            if steps < 1:
                yield ArgumentFault("windows", steps, "expected at least 1")
        if max(self.windows, default=1) > 1 and max(self.replicas, default=1) < 2:
            yield ArgumentFault(
                "windows", max(self.windows), "one replica has no other to average with; expected replicas 2"
            )

    def settings(self, cluster: Cluster) -> list[PilotSetting]:
        """The runs, those with the most data first.

        Raises:
            InputError: sources are to train alone, but less than two name data of their own.
        """
        fractions, replicas = sorted(set(self.fractions), reverse=True), sorted(set(self.replicas))
        found = [PilotSetting(fraction=phi, replicas=many) for many, phi in product(replicas, fractions)]
        if self.each_source:
            named = [name for name, node in cluster.nodes.items() if node.source is not None and node.source.data]
            if len(named) < 2:
                expected = "sources that share their data do not differ; expected two sources or more that name data"
                raise InputError(ArgumentFault("each_source", len(named), expected))
            found += [PilotSetting(fraction=fractions[0], replicas=replicas[0], source=name) for name in named]
        long = sorted({steps for steps in self.windows if steps > 1})
        found += [
            PilotSetting(fraction=fractions[0], replicas=replicas[-1], window=steps, outer=self.outer) for steps in long
        ]
        return found
