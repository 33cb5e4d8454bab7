"""Fills what a cluster file leaves out: memory and power of nodes that name hardware from the catalogue."""

from __future__ import annotations

from palmette.errors import Fault, InputError
from palmette.spec.cluster import Cluster, Node, Power
from palmette.zoo.hardware import hardware


def fill_hardware_defaults(cluster: Cluster, file: str = "") -> Cluster:
    """The cluster with the catalogue's memory and power where a node names hardware and does not give its own.

    Raises:
        InputError: a node names hardware that is not in the catalogue; names every such node.
    """
    nodes, wrong = {}, []
    for name, node in cluster.nodes.items():
        try:
            nodes[name] = _fill_node(node)
        except InputError as error:
            (fault,) = error.faults
            wrong.append(Fault(f"nodes.{name}.hardware", node.hardware, fault.expected, file))
    if wrong:
        raise InputError(wrong)
    return cluster.model_copy(update={"nodes": nodes})


def _fill_node(node: Node) -> Node:
    if node.hardware is None:
        return node
    known = hardware(node.hardware)
    return node.model_copy(
        update={
            "memory_bytes": node.memory_bytes or float(known.memory_bytes),
            "power": node.power or Power(idle_w=known.idle_w, busy_w=known.busy_w),
        }
    )
