"""Which runs a pilot makes: settings that differ in what the loss depends on.

Fractions of the data and numbers of replicas are combined, each with each, since the learning curve multiplies what
they do; epochs come along, as every run has a loss after each. What is varied beside them gets runs of its own about
the usual setting: one for each value, not for each combination.

    data        1     0.5   0.25   1     0.5   0.25     1       1         1     1
    replicas    1     1     1      2     2     2        1       1         2     2
    source      all   all   all    all   all   all      phone   tablet    all   all
    window      1     1     1      1     1     1        1       1         8     32

Each data and number of replicas has a seed of its own, as runs with the same seed have the same batches: others would
predict them better than any training to come.

A codec has two runs, with the most and with the least of the data, so that each can be predicted from the other; where
windows are varied two more, as differences are not gradients. Each has a twin without the codec and with the same seed,
beside which it shows what the codec changes: the longest window one more.

    data        1     0.25   1      0.25   0.25   1      0.25
    replicas    2     2      2      2      2      1      1
    window      1     1      32     32     32     1      1
    exchange    int8  int8   int8   int8   none   none   none
    outputs     none  none   none   none   none   int8   int8

Where the learning rate has a schedule over the whole run, a run tells the loss at its end alone. Epochs are then varied
by runs of a quarter and of half the length, for each fraction of the data, with the fewest replicas:

    data        1     0.5   0.25   1     0.5   0.25
    replicas    1     1     1      1     1     1
    epochs      5     5     5      2     2     2        of 10
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from urllib.parse import quote

from palmette.errors import ArgumentFault, InputError
from palmette.spec.cluster import Cluster
from palmette.spec.codec import CODEC_KINDS, PLAIN, Codec
from palmette.spec.exchange import PLAIN_EXCHANGE, Exchange
from palmette.spec.sync import OuterOptimizer

_MOST_REPLICAS = 1000
_SHORTER = (0.5, 0.25)
"""Parts of the length of a run, of those that end sooner."""


@dataclass(frozen=True, kw_only=True)
class PilotSetting:
    """One run: the fraction of the data, the replicas, and the only source that gives data, if not all do.

    Replicas take ``window`` steps before they average their weights; with ``outer``, an outer optimizer follows.
    Gradients or differences travel as ``exchange`` says; with an ``output_codec``, the network is cut in two.
    Only a run that ends sooner than the others has ``epochs``.
    """

    fraction: float = 1.0
    replicas: int = 1
    source: str | None = None
    window: int = 1
    outer: OuterOptimizer | None = None
    exchange: Exchange = PLAIN_EXCHANGE
    output_codec: Codec = PLAIN
    epochs: int | None = None

    @property
    def place(self) -> tuple[float, int, str | None, int | None]:
        """Its data, replicas and length, which it has in common with settings that differ in window or codec alone."""
        return self.fraction, self.replicas, self.source, self.epochs

    @property
    def needs_several_nodes(self) -> bool:
        """Whether something has to travel: within a node nothing is coded."""
        return self.exchange.kind.lossy or self.output_codec != PLAIN

    @property
    def name(self) -> str:
        """Its name, which is that of a folder."""
        alone = "" if self.source is None else f"-source-{quote(self.source, safe='').replace('.', '%2E')}"
        apart = "" if self.window == 1 else f"-window-{self.window}{'' if self.outer is None else '-outer'}"
        coded = f"-exchange-{self.exchange.argument.replace(':', '-')}" if self.exchange.kind.lossy else ""
        coded += f"-outputs-{self.output_codec}" if self.output_codec != PLAIN else ""
        short = "" if self.epochs is None else f"-epochs-{self.epochs}"
        return f"data-{self.fraction:g}-replicas-{self.replicas}{alone}{apart}{coded}{short}"

    def work(self, cluster: Cluster, epochs: int) -> float:
        """About how long it is, where an epoch of all data is 1 and others have so many."""
        owned = {name: node.source.samples for name, node in cluster.nodes.items() if node.source is not None}
        part = 1.0 if self.source is None else owned[self.source] / sum(owned.values())
        return self.fraction * part * (epochs if self.epochs is None else self.epochs)


@dataclass(frozen=True, kw_only=True)
class PilotGrid:
    """What is varied; with ``each_source``, every source that names data of its own also trains alone.

    ``windows`` longer than a step are tried with the most replicas, with ``outer`` or without, and so are
    ``exchange_codecs``; ``output_codecs`` with the fewest.

    Raises:
        InputError: a fraction or a number of replicas is out of its range, or there is none.
    """

    fractions: tuple[float, ...] = (1.0, 0.5, 0.25)
    replicas: tuple[int, ...] = (1, 2)
    each_source: bool = False
    windows: tuple[int, ...] = (1,)
    outer: OuterOptimizer | None = None
    exchange_codecs: tuple[Exchange, ...] = ()
    output_codecs: tuple[Codec, ...] = ()

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
        yield from self._wrong_codecs()
        if max(self.windows, default=1) > 1 and max(self.replicas, default=1) < 2:
            yield ArgumentFault(
                "windows", max(self.windows), "one replica has no other to average with; expected replicas 2"
            )

    def _wrong_codecs(self) -> Iterator[ArgumentFault]:
        for exchange in self._lossy_exchanges():
            if max(self.replicas, default=1) < 2:
                expected = "one replica has no other to exchange anything with; expected replicas 2"
                yield ArgumentFault("exchange_codecs", exchange.argument, expected)

    def _lossy_exchanges(self) -> list[Exchange]:
        """The codecs of exchanges that change something, each once."""
        return list({each.argument: each for each in self.exchange_codecs if each.kind.lossy}.values())

    def settings(self, cluster: Cluster, lengths: Sequence[int] = ()) -> list[PilotSetting]:
        """The runs, those with the most data first; in the end those that are shorter, of so many epochs.

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
        found += self._coded(fractions, replicas, long)
        return found + [
            PilotSetting(fraction=phi, replicas=replicas[0], epochs=epochs)
            for epochs, phi in product(lengths, fractions)
        ]

    def _coded(self, fractions: list[float], replicas: list[int], long: list[int]) -> Iterator[PilotSetting]:
        """Runs in which something travels coded, with the most and the least data, and twins that the others lack."""
        extremes, windows = list(dict.fromkeys([fractions[0], fractions[-1]])), [1, *long[-1:]]
        exchanges = self._lossy_exchanges()
        if exchanges and long and len(extremes) > 1:
            yield PilotSetting(fraction=extremes[1], replicas=replicas[-1], window=long[-1], outer=self.outer)
        for exchange, steps, phi in product(exchanges, windows, extremes):
            outer = self.outer if steps > 1 else None
            yield PilotSetting(fraction=phi, replicas=replicas[-1], window=steps, outer=outer, exchange=exchange)
        lossy = [codec for codec in dict.fromkeys(self.output_codecs) if CODEC_KINDS[codec].lossy]
        for codec, phi in product(lossy, extremes):
            yield PilotSetting(fraction=phi, replicas=replicas[0], output_codec=codec)


def shorter_lengths(epochs: int) -> list[int]:
    """Half and a quarter of so many epochs, the longest first."""
    return sorted({max(1, round(part * epochs)) for part in _SHORTER} - {epochs}, reverse=True)
