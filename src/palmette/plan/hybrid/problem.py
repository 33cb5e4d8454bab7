"""What does not change during a search: usable nodes, samples of each source, cuts to try."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from palmette.cost.batch_norm import FLOOR, small_parts
from palmette.cost.operations import samples_by_instance
from palmette.errors import Fault, InputError
from palmette.plan.core.delivery import deliveries, fits, may_be_kept
from palmette.plan.core.order import in_turns
from palmette.plan.core.recompute import RecomputeChoice
from palmette.plan.core.samples import samples_by_source
from palmette.plan.core.strategy import Task
from palmette.plan.hybrid.paths import Run, SamplePath, simplified
from palmette.spec.cluster import Source
from palmette.spec.codec import CODEC_KINDS, DELTAS, PLAIN, SMALLEST, Codec
from palmette.spec.goal import Quantity
from palmette.spec.plan import Phase

_CUTS = 9
_NEAREST = 6


@dataclass(frozen=True)
class HybridProblem:
    """What a search is about."""

    task: Task
    codec: Codec
    """How outputs travel wherever a state does not say that they travel as they are."""
    deltas: bool
    """Whether coded outputs may travel as deltas to kept ones."""
    nodes: list[str]
    """Nodes that may compute, those first that would train a batch alone in the least time."""
    samples: dict[str, int]
    """Samples of a batch from each source, in proportion to what it owns."""
    private: frozenset[str]
    """Sources whose samples may not leave: their first layer runs there."""
    keeps_labels: frozenset[str]
    """Sources whose labels may not leave either: their last layer runs there as well."""
    cpu_shares: dict[str, float]
    cuts: list[int]
    """Layers after which a first cut is tried: small outputs, spread over the depth."""
    nearest_nodes: dict[str, list[str]]
    """For each source the nodes that would train its samples in the least time, the transfer of raw data included."""
    meeting_nodes: list[str]
    """Nodes where gradients may meet: all of a small cluster, else those without data and with the most links."""
    floor: int
    """The fewest samples that batch norm may see by themselves, unless they are the whole batch."""
    sample_bits: dict[str, float]
    """Bits of one sample of each source on the wire."""
    kept: frozenset[str]
    """Sources whose samples may be kept where they are sent, so that they are sent in the first epoch only."""
    recompute: RecomputeChoice
    """Finds the instances that recompute where memory would forbid a phase."""
    resend: bool = False
    """Whether every sample is sent for every iteration that uses it, which waits for it, as the papers count."""

    @property
    def epochs(self) -> int:
        """The epochs over which costs are means."""
        return self.task.horizon

    @property
    def iterations(self) -> int:
        """The iterations of all epochs."""
        return self.epochs * math.ceil(sum(_source(self.task, name).samples for name in self.samples) / self.task.batch)

    def deliveries(self, phase: Phase) -> list[Phase]:
        """The ways to deliver the samples of a phase that fit and that no other way beats.

        Where it does not fit whatever the delivery, those with microbatches in turns or instances that recompute.
        """
        found = self._deliveries(phase)
        if found:
            return found
        turns = in_turns(phase)
        others = [*([] if turns is None else [turns]), *self.recompute.variants(phase)]
        return [way for each in others for way in self._deliveries(each)]

    def _deliveries(self, phase: Phase) -> list[Phase]:
        if self.resend:
            return [phase] if fits(phase, self.task) else []
        return deliveries(phase, self.task)

    def mean_sample_bits(self, source: str) -> float:
        """Bits that a use of a sample on another node costs its links at least, in the mean over the epochs.

        Whatever is kept is sent in the first epoch, which is one of so many; a stream is sent for every use.
        """
        return self.sample_bits[source] / (self.epochs if source in self.kept else 1)

    @property
    def lossy(self) -> bool:
        """Whether other outputs may arrive than were sent."""
        return CODEC_KINDS[self.codec].lossy

    @property
    def ratio(self) -> float:
        """The bytes that one more number adds to an output at least, as a part of what it takes itself."""
        return CODEC_KINDS[DELTAS if self.deltas else self.codec].ratio

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.task.profile.layers)

    @property
    def knows_calls(self) -> bool:
        """Whether calls have fixed parts on all nodes: otherwise any number of microbatches seems to cost nothing."""
        return all(any(self.task.profile.nodes[name].forward_call_s or ()) for name in self.nodes)

    def keeps_private(self, path: SamplePath) -> bool:
        """Whether raw data and labels that may not leave their node stay there."""
        stays = path.source not in self.private or path.runs[0][0] == path.source
        return stays and (path.source not in self.keeps_labels or path.runs[-1][0] == path.source)

    def with_private_layers_at_source(self, source: str, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        """Runs with the first layer at the source where its data stays, and the last where its labels stay."""
        if source in self.private and runs[0][0] != source:
            runs = simplified([(source, 1), *runs])
        if source in self.keeps_labels and runs[-1][0] != source:
            before = [(node, min(last, self.depth - 1)) for node, last in runs]
            runs = simplified([*before, (source, self.depth)])
        return runs

    def with_batch_norm(self, phase: Phase) -> Phase:
        """The phase with statistics of batch norm over the whole batch, where a part of it is too small."""
        sizes = self.task.evaluator.sizes()
        if not sizes.batch_norm_layers or not small_parts(phase, sizes, samples_by_instance(phase), self.floor):
            return phase
        return phase.model_copy(update={"batch_norm": "whole"})

    def power_w(self, node: str) -> tuple[float, float]:
        """Idle watts, and watts more while it computes at its CPU limit; 0 where they are not known."""
        power = self.task.cluster.nodes[node].power
        if power is None:
            return 0.0, 0.0
        share = self.task.cluster.nodes[node].limits.cpu_share
        return power.idle_w, (power.busy_w - power.idle_w) * share**power.exponent

    @property
    def quantities_apart(self) -> list[Quantity]:
        """What the cluster knows of a plan that does not follow from its time and energy."""
        cluster = self.task.cluster
        grams = {cluster.carbon_of(name) for name in {*self.cpu_shares, *self.samples}}
        emits = self.knows_powers and len(grams) > 1 and None not in grams
        known: dict[Quantity, bool] = {"cost": cluster.currency is not None, "carbon": emits}
        return [quantity for quantity, holds in known.items() if holds]

    @property
    def knows_powers(self) -> bool:
        """Whether the power of every node that may take part is known."""
        nodes = self.task.cluster.nodes
        return all(nodes[name].power is not None for name in {*self.cpu_shares, *self.samples})


def make_problem(
    task: Task, lossy: bool = False, floor: int = FLOOR, *, resend: bool = False, deltas: bool = False
) -> HybridProblem:
    """The problem of a task; ``floor`` is that of batch norm; ``resend``: every sample is sent for every iteration.

    ``deltas``: coded outputs may travel as such, where no samples are a stream.

    Raises:
        InputError: no source, fewer samples than sources, no path between sources, or nothing to compute on.
    """
    samples = samples_by_source(task)
    kept = frozenset(name for name in samples if not resend and may_be_kept(name, task.cluster))
    sample_bits = {name: 8 * task.evaluator.sizes().sample_bytes(name) for name in samples}
    by_time = partial(
        _by_time, task, {name: sample_bits[name] / (task.horizon if name in kept else 1) for name in samples}
    )
    first, *others = samples
    routes = task.evaluator.routes
    apart = [source for source in others if routes.between(first, source) is None]
    if apart:
        expected = "there is no path between them; expected nodes that links join"
        raise InputError(Fault(f"nodes.{source}", f"{first} to {source}", expected) for source in apart)
    known = [n for n in task.cluster.nodes if n in task.profile.nodes and routes.between(first, n) is not None]
    if not known:
        reached = "expected times in the profile for a node that a path leads to"
        raise InputError(Fault("nodes", f"none for the data of {first}", reached))
    return HybridProblem(
        task=task,
        codec=SMALLEST if lossy else PLAIN,
        deltas=lossy and deltas and all(may_be_kept(name, task.cluster) for name in samples),
        nodes=by_time(first, known),
        samples=samples,
        private=frozenset(name for name in samples if _source(task, name).private),
        keeps_labels=frozenset(name for name in samples if _source(task, name).keeps_labels),
        cpu_shares={name: task.cluster.nodes[name].limits.cpu_share for name in known},
        cuts=_cuts(task),
        nearest_nodes={source: by_time(source, known)[:_NEAREST] for source in samples},
        meeting_nodes=_meeting_nodes(task, first, samples),
        floor=floor,
        sample_bits=sample_bits,
        kept=kept,
        recompute=RecomputeChoice(task),
        resend=resend,
    )


def _by_time(task: Task, mean_bits: Mapping[str, float], source: str, nodes: list[str]) -> list[str]:
    """Nodes by the time that they would need for a sample of a source."""
    alone = {name: _alone_s(task, mean_bits[source], source, name) for name in nodes}
    return sorted(nodes, key=alone.__getitem__)


def _meeting_nodes(task: Task, first: str, samples: Iterable[str]) -> list[str]:
    between = task.evaluator.routes.between
    reached = [name for name in task.cluster.computing if between(first, name) is not None]
    central = [name for name in reached if name not in samples]
    return reached if len(reached) <= _NEAREST else sorted(central, key=lambda name: -_links(task, name))[:_NEAREST]


def _links(task: Task, name: str) -> int:
    return sum(name in link.between for link in task.cluster.links)


def _source(task: Task, name: str) -> Source:
    source = task.cluster.nodes[name].source
    assert source is not None, "samples come from sources"
    return source


def _alone_s(task: Task, mean_bits: float, source: str, node: str) -> float:
    """Seconds per sample: raw data from a source to a node, and the whole network there."""
    prices, depth = task.evaluator, len(task.profile.layers)
    seconds, share = prices.seconds(node), task.cluster.nodes[node].limits.cpu_share
    computing = (seconds.forward[depth] + seconds.backward[depth]) / share
    return mean_bits / prices.route(source, node).bandwidth_bps + computing


def _cuts(task: Task) -> list[int]:
    """Layers with outputs smaller than all before them, thinned out, and an even spread; the last layer too."""
    outputs, depth = task.evaluator.sizes().output_bytes, len(task.profile.layers)
    falling = [k for k in range(1, depth) if outputs[k] < min(outputs[1:k], default=float("inf"))]
    thinned = falling[:: max(1, len(falling) // _CUTS)]
    spread = range(1, depth, max(1, depth // _CUTS))
    return sorted({*thinned, *spread, depth})
