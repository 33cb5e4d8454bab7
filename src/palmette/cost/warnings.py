"""What a plan may do to a training that its price does not show: one sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from palmette.cost.batch_norm import small_parts
from palmette.cost.evaluate import Evaluator
from palmette.cost.labels import roots
from palmette.cost.operations import samples_by_instance
from palmette.errors import listed
from palmette.spec.cluster import Cluster
from palmette.spec.codec import CODEC_KINDS
from palmette.spec.plan import Phase, Plan

_UNEVEN = 0.1
"""How far from what it owns the samples of an owner in a batch may be without a word, as a part of it."""


def warnings_of(plan: Plan, prices: Evaluator) -> list[str]:
    """The warnings of all phases of a plan that ``check`` finds nothing wrong with, each once."""
    found = (warning for phase in plan.phases for warning in _of_phase(phase, prices))
    return list(dict.fromkeys(found))


def _of_phase(phase: Phase, prices: Evaluator) -> Iterator[str]:
    yield from lossy_outputs(phase)
    yield from lossy_exchange(phase)
    yield from _labels(phase, prices.cluster)
    yield from _norms(phase, prices)
    yield from _uneven_shares(phase, prices)
    yield from _useless_recompute(phase, prices)


def _labels(phase: Phase, cluster: Cluster) -> Iterator[str]:
    """Labels of private sources that leave their nodes; those that go to the same node in one sentence."""
    leave: dict[str, dict[str, None]] = {}
    for source, root in zip(phase.sources, roots(phase), strict=True):
        owned = cluster.nodes[source.node].source
        if owned is not None and owned.private and root.node != source.node:
            leave.setdefault(root.node, {})[source.node] = None
    for node, owners in leave.items():
        yield f"labels of {listed(list(owners))} travel to {node}, where the loss is computed"


def _norms(phase: Phase, prices: Evaluator) -> Iterator[str]:
    """Batch norms that take their statistics from a few samples."""
    small = small_parts(phase, prices.sizes(phase.pruning), samples_by_instance(phase))
    if small:
        least = min(small, key=lambda part: part.samples)
        many = f"{least.samples} samples" if least.samples > 1 else "a single sample"
        where = f"batch norm sees only a part of the batch in {listed([part.instance for part in small])}"
        yield f"{where}, {many} in {least.instance}: so few may cost accuracy, or fail; batch_norm: whole sees all"


def _uneven_shares(phase: Phase, prices: Evaluator) -> Iterator[str]:
    """Private owners under ``every`` of whose samples an epoch draws many more, or fewer, than they own."""
    used = prices.epoch_samples(phase) if phase.sync == "every" else {}
    private = [name for name in used if (owned := prices.cluster.nodes[name].source) is not None and owned.private]
    for name in private:
        even = phase.batch * used[name] / sum(used.values())
        given = sum(source.samples for source in phase.sources if source.node == name)
        if abs(given - even) >= max(1.0, _UNEVEN * even):
            yield f"an epoch draws {given / even:.0%} as many samples from {name} as it owns: shares go by speed"


def _useless_recompute(phase: Phase, prices: Evaluator) -> Iterator[str]:
    """Instances that recompute although they then hold as much as if they kept their activations."""
    sizes = prices.sizes(phase.pruning)
    chosen = [each for each in phase.instances if each.recompute]
    useless = [i.id for i in chosen if sizes.recompute_bytes(i.layers, 1) >= sizes.activation_bytes(i.layers, 1)]
    if useless:
        yield f"recompute saves no memory in {listed(useless)}: the inputs of its blocks take as much as it frees"


def lossy_outputs(phase: Phase) -> Iterator[str]:
    """Outputs that arrive as other numbers than were sent."""
    lossy: dict[int, list[str]] = {}
    for instance in phase.instances:
        kind = CODEC_KINDS[instance.codec]
        if instance.into is not None and kind.coded_bits is not None:
            lossy.setdefault(kind.coded_bits, []).append(instance.id)
    for bits, ids in lossy.items():
        travel = f"outputs of {', '.join(ids)} travel as {bits}-bit integers"
        yield f"{travel}; what that costs in loss is unknown until it is measured"


def lossy_exchange(phase: Phase) -> Iterator[str]:
    """Gradients or differences of which only a part arrives in the exchange that they belong to."""
    if phase.exchange.kind.lossy:
        travel = f"{phase.exchanged} travel as {phase.exchange}"
        yield f"{travel}; what that costs in loss is unknown until it is measured"
