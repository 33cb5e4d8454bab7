"""What a user could do without Palmette, each in seconds of the whole training; the best way of each kind.

- **plain script**: copy the stored samples to a node, then plain PyTorch there; or where the data is, without a copy.
  Where the copy may not be kept, samples are forwarded every time: read ahead, so that an iteration takes the longer of
  its transfer and its step.
- **DDP**: each node gets its shard once, all shards equal; gradients in float32 go around a ring after each backward.
- **pipelining**: a chain of stages with GPipe's schedule; the first stage's node is sent the samples once.

DDP and pipelines are played on the event clock in the order in which torch does them (``benchmarks.peers.clocked``,
which ``benchmarks.peers`` holds against the real ones).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from benchmarks.peers.clocked import MICROBATCHES, ddp_s, pipeline_s
from benchmarks.peers.tasks import Ddp, Pipeline, PlainScript, Way
from benchmarks.upload_first.worlds import BATCH, World
from palmette.cost.evaluate import Evaluator


class Script(NamedTuple):
    """What to start in order to run a rival: who takes part, the owner first, and the part of the samples each gets."""

    way: Way
    nodes: tuple[str, ...]
    shares: tuple[float, ...] = ()


class Rival(NamedTuple):
    """A way to train: its seconds, and in words; owners that take turns train on other batches than all at once.

    ``script`` is how ``benchmarks.peers`` runs it, where it can.
    """

    time_s: float
    what: str
    same_batches: bool = True
    script: Script | None = None


def rivals(world: World, evaluator: Evaluator) -> dict[str, Rival]:
    """The best of each kind that the rules allow."""
    kinds = {
        "plain script": plain_scripts(world, evaluator),
        "DDP": ddps(world, evaluator),
        "pipelining": pipelines(world, evaluator),
    }
    best = {kind: min(ways, key=lambda way: way.time_s, default=None) for kind, ways in kinds.items()}
    return {kind: way for kind, way in best.items() if way is not None}


def step_s(evaluator: Evaluator, node: str, samples: int = BATCH) -> float:
    """Seconds of a step of plain PyTorch on a node."""
    seconds, depth = evaluator.seconds(node), len(evaluator.profile.layers)
    both_s = seconds.forward_s(1, depth, samples) + seconds.backward_s(1, depth, samples)
    return both_s + seconds.update_s(1, depth)


def copy_s(world: World, evaluator: Evaluator, shares: dict[str, float]) -> float:
    """Seconds to copy shares of the samples from their owner to other nodes, all at once."""
    bits = {node: 8 * part * world.samples * world.sample_bytes(evaluator.profile) for node, part in shares.items()}
    bits.pop("phone", None)
    links, latency_s = dict[int, float](), 0.0
    for node, many in bits.items():
        route = evaluator.route("phone", node)
        latency_s = max(latency_s, route.latency_s)
        for resource in route.resources:
            links[resource] = links.get(resource, 0.0) + many
    return latency_s + max((many / evaluator.routes.capacities[link] for link, many in links.items()), default=0.0)


def plain_scripts(world: World, evaluator: Evaluator) -> Iterator[Rival]:
    """Plain PyTorch where the data is, or where it was copied or forwarded to; on several owners in turns."""
    if world.rule == "private owners":
        owner, depth = world.cluster.sources()[0], len(evaluator.profile.layers)
        time_s = world.iterations * step_s(evaluator, owner) + turns_s(world, evaluator, depth)
        yield Rival(time_s, "in turns where the data is", same_batches=False)
        return
    for node in world.cluster.nodes if world.may_leave else ["phone"]:
        own_s = step_s(evaluator, node)
        if node == "phone":
            yield Rival(world.iterations * own_s, "where the data is")
        elif world.may_be_copied:
            time_s = copy_s(world, evaluator, {node: 1.0}) + world.iterations * own_s
            script = Script(PlainScript(), ("phone", node), (0.0, 1.0))
            yield Rival(time_s, f"copied to {node}", script=script)
        else:
            sent_s = copy_s(world, evaluator, {node: 1.0}) * BATCH / world.samples
            yield Rival(world.iterations * max(sent_s, own_s), f"forwarded to {node}")


def ddps(world: World, evaluator: Evaluator) -> Iterator[Rival]:
    """DDP over each set of nodes that may hold a shard."""
    for nodes in shard_holders(world):
        split = [BATCH // len(nodes) + (k < BATCH % len(nodes)) for k in range(len(nodes))]
        copied_s = copy_s(world, evaluator, dict.fromkeys(nodes, 1 / len(nodes))) if world.may_be_copied else 0.0
        steps_s = world.iterations * ddp_s(evaluator, nodes, split, send_data=False)
        shares = (1 / len(nodes),) * len(nodes) if world.may_be_copied else ()
        has_owner = nodes[0] in world.cluster.sources()
        script = Script(Ddp((tuple(split),)), nodes, shares) if has_owner else None
        yield Rival(copied_s + steps_s, f"over {', '.join(nodes)}", script=script)


def shard_holders(world: World) -> list[tuple[str, ...]]:
    """Sets of nodes that DDP may train on; the owner alone is no set."""
    if world.rule == "private owners":
        return [tuple(world.cluster.sources())]
    names = tuple(world.cluster.nodes)
    return [row for many in (2, 3) for row in combinations(names, many)] if world.may_be_copied else []


def pipelines(world: World, evaluator: Evaluator) -> Iterator[Rival]:
    """Chains of two or three nodes; several owners have their turns in an epoch, and hand their stage on."""
    owner = world.cluster.sources()[0]
    rows = [(owner, "edge", "cloud"), (owner, "edge"), (owner, "cloud")]
    for row in [*rows, ("edge", "cloud")] if world.may_be_copied else rows:
        sent_s = 0.0 if row[0] == owner else copy_s(world, evaluator, {row[0]: 1.0})
        for way in ways(row, evaluator):
            steps_s = world.iterations * pipeline_s(evaluator, way, BATCH)
            turn_s = turns_s(world, evaluator, way.cuts[0])
            script = Script(way, way.nodes) if row[0] == owner and not turn_s else None
            same = world.rule != "private owners"
            yield Rival(sent_s + steps_s + turn_s, str(way), same_batches=same, script=script)


def turns_s(world: World, evaluator: Evaluator, layers: int) -> float:
    """Seconds in which owners hand the weights of the first layers to the next, once an epoch each; 0 for only one."""
    owners = world.cluster.sources()
    if len(owners) == 1:
        return 0.0
    route = evaluator.route(owners[0], owners[1])
    bits = 8 * sum(layer.parameter_bytes for layer in evaluator.profile.layers[:layers])
    handover_s = route.latency_s + bits / min(evaluator.routes.capacities[link] for link in route.resources)
    return world.epochs * len(owners) * handover_s


def ways(row: Sequence[str], evaluator: Evaluator) -> Iterator[Pipeline]:
    """Every cut and number of microbatches."""
    for cuts in combinations(range(1, len(evaluator.profile.layers)), len(row) - 1):
        for many in MICROBATCHES:
            yield Pipeline(tuple(row), cuts, many, "gpipe")
