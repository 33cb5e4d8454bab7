"""Inputs for samples that travel as tensors, as all papers count them: ``--input-as tensor``.

A sample is then as large as the network's input wherever it comes from, and nobody decodes it after it has travelled.
Profile and cluster without what they say about stored samples mean just that, to every strategy and to the evaluator;
a plan carries them, so that its estimate is theirs. What says nothing about stored samples is returned itself.
"""

from __future__ import annotations

from typing import Any

from palmette.spec.cluster import Cluster, Node
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile, Table, Times


def profile_of_tensors(profile: Profile) -> Profile:
    """The profile without the size of a stored sample, and without the time to decode one."""
    tables = (profile, *profile.variants.values())
    if profile.sample_bytes is None and not any(_decodes(table) for table in tables):
        return profile
    variants = {
        ratio: table.model_copy(update={"nodes": _without_decoding(table)}) for ratio, table in profile.variants.items()
    }
    return profile.model_copy(update={"sample_bytes": None, "nodes": _without_decoding(profile), "variants": variants})


def cluster_of_tensors(cluster: Cluster) -> Cluster:
    """The cluster without sizes of stored samples."""
    nodes = {name: _without_size(node) for name, node in cluster.nodes.items()}
    changed = any(nodes[name] is not node for name, node in cluster.nodes.items())
    return cluster.model_copy(update={"nodes": nodes}) if changed else cluster


def phase_of_tensors(phase: Phase) -> Phase:
    """The phase with samples that travel as tensors."""
    return phase.model_copy(update={"input_as": "tensor"})


def _without_size(node: Node) -> Node:
    if node.source is None or node.source.sample_bytes is None:
        return node
    return node.model_copy(update={"source": node.source.model_copy(update={"sample_bytes": None})})


def _decodes(table: Table) -> bool:
    return any(times.decode_s is not None for times in table.nodes.values())


def _without_decoding(table: Table) -> dict[str, Times]:
    return {name: times.model_copy(update=_not_decoding(times)) for name, times in table.nodes.items()}


def _not_decoding(times: Times) -> dict[str, Any]:
    """What changes where layer 1 does not decode its samples."""
    if times.decode_s is None:
        return {}
    first_s, *others_s = times.forward_s
    return {"forward_s": (max(0.0, first_s - times.decode_s), *others_s), "decode_s": None}
