"""Outputs that both ends of a channel keep by sample, so that later ones travel as deltas (``delta_coding``).

Both ends know which samples an iteration takes, so they name them alike without a message: by the node that owns them
and their number there. A sample that is in the batches of a channel twice in one iteration is coded by its first place
alone; so each is kept once an iteration, whatever order messages come in.

Workers begin with nothing kept, and so does every one of them where one has to begin anew. Where the lengths of samples
vary from batch to batch, there is no difference to the last output, so that all travel as new ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from palmette.compress.coders.base import Coder
from palmette.compress.delta_coding import DeltaCoding
from palmette.cost.kept_outputs import OutputChannel, keeping_channels
from palmette.cost.operations import sources_by_instance
from palmette.runtime.data.base import SampleReader
from palmette.runtime.worker.bundles import BundleFormat
from palmette.spec.codec import CODEC_KINDS, Codec
from palmette.spec.plan import Phase


class KeptOutputs:
    """What a node keeps of the outputs that it sends and receives."""

    def __init__(self, phase: Phase, samples: SampleReader, *, vary: bool = False) -> None:
        self._phase, self._samples, self._reach = phase, samples, sources_by_instance(phase)
        channels = () if vary else keeping_channels(phase)
        self._channels = {k: channel for channel in channels for k in channel.instances}
        self._codings: dict[tuple[OutputChannel, int], DeltaCoding] = {}

    def keeps(self, k: int) -> bool:
        """Whether the outputs of an instance are kept."""
        return k in self._channels

    def coders(self, k: int, form: BundleFormat, iteration: int) -> Sequence[Coder]:
        """The coders of an instance's output in an iteration, for each of its tensors."""
        codec = self._phase.instances[k].codec
        plain = form.coders(CODEC_KINDS[codec].first or codec)
        if not self.keeps(k):
            return plain
        channel, samples = self._channels[k], self._named(k, iteration)
        return [
            self._coding(channel, place, codec).of(samples) if spec.dtype.is_floating_point else plain[place]
            for place, spec in enumerate(form.specs)
        ]

    def _coding(self, channel: OutputChannel, place: int, codec: Codec) -> DeltaCoding:
        """What is kept of one of the tensors of a channel's outputs."""
        owners = {self._phase.sources[source].node: source for source in channel.sources}
        most = sum(self._samples.size(source) for source in owners.values())
        return self._codings.setdefault((channel, place), DeltaCoding(codec, most))

    def _named(self, k: int, iteration: int) -> list[Hashable | None]:
        """The samples of an instance by their names; None for one that its channel has already in this iteration."""
        seen: set[Hashable] = set()
        named: dict[int, list[Hashable | None]] = {}
        for source in self._channels[k].sources:
            owner = self._phase.sources[source].node
            row = named[source] = []
            for number in self._samples.drawn(source, iteration).tolist():
                name = (owner, number)
                row.append(None if name in seen else name)
                seen.add(name)
        return [name for source in self._reach[k] for name in named[source]]
