"""Evaluation where private data lives: each owner gets what it lacks of the network, and reports sums.

An owner evaluates the whole network. It has the weights of its own instances; the others, and buffers, which may differ
from node to node, travel to it. Where its memory is too small for the whole network, the engine evaluates on its own
copy of that data.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor

from palmette.runtime.data.shards import own_data, source_nodes
from palmette.runtime.engines.crew import Crew, one_from_each
from palmette.runtime.held_out import BATCH, HeldOutSums, held_out_sums
from palmette.runtime.training.evaluation import Evaluation, evaluation_of_owners
from palmette.runtime.training.job import Job
from palmette.runtime.worker.commands import Evaluate, EvaluationReply
from palmette.runtime.worker.setup import unshared
from palmette.spec.plan import Phase
from palmette.zoo.capture import parameters, state
from palmette.zoo.models import Network

_SHARE = 0.5
"""The part of a node's memory that an evaluation may take, beside what training holds."""


def owners_of(job: Job, phase: Phase) -> dict[str, str]:
    """The data that nodes evaluate on themselves, by node; empty where the engine has data for all."""
    return own_data(source_nodes(phase), job.evaluator.cluster) if job.evaluates_at_owners else {}


def evaluation_batch(job: Job, phase: Phase, node: str) -> int:
    """The most samples, up to the usual batch, that a node can evaluate the whole network on at once; 0 if none."""
    memory_bytes = job.evaluator.cluster.nodes[node].memory_bytes
    if memory_bytes is None:
        return BATCH
    table = job.evaluator.profile.variant(phase.pruning)
    assert table is not None, "check() refuses a ratio that the profile does not have"
    outputs = [layer.output_bytes for layer in table.layers]
    sample_bytes = max(map(sum, pairwise([job.evaluator.profile.input_bytes, *outputs])))
    left_bytes = _SHARE * memory_bytes - sum(layer.parameter_bytes for layer in table.layers)
    return max(0, min(BATCH, int(left_bytes // max(1.0, sample_bytes))))


def evaluated_at_owners(job: Job, network: Network, phase: Phase, crew: Crew) -> Evaluation:
    """Let all owners evaluate the network, which has been gathered, and add up what they report."""
    owners = owners_of(job, phase)
    batches = {node: evaluation_batch(job, phase, node) for node in owners}
    asked = {node: batch for node, batch in batches.items() if batch}
    for node, batch in asked.items():
        crew.send(node, Evaluate(to_bytes(unshared(_lacking(network, phase, node))), batch))
    replies = one_from_each(crew, asked, EvaluationReply)
    dtype = getattr(torch, job.options.dtype)

    def sums(node: str) -> HeldOutSums:
        if node in replies:
            return replies[node].sums
        return held_out_sums(network, job.own_data[owners[node]].held_out, job.objective, dtype)

    return evaluation_of_owners({node: sums(node) for node in owners})


def _lacking(network: Network, phase: Phase, node: str) -> Mapping[str, Tensor]:
    """What a node does not have of the network: all but the weights of its instances, where these are up to date."""
    held = {
        number
        for instance in phase.instances
        if instance.node == node and _agree(phase)
        for number in range(instance.layers[0], instance.layers[1] + 1)
    }
    own = set(parameters([network.layers[number - 1] for number in sorted(held)]))
    return {name: value for name, value in state(network.layers).items() if name not in own}


def _agree(phase: Phase) -> bool:
    """Whether all instances have the weights that were gathered."""
    kind = phase.sync_kind
    return kind.one_model or (kind.averages_weights and not phase.draws_clients)
