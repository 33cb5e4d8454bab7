"""Nodes and links that are equal but for their names: what holds for one of them holds for all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from palmette.plan.core.strategy import Task


def equal_nodes(task: Task, nodes: Iterable[str]) -> list[tuple[str, ...]]:
    """Nodes in groups that are equal in hardware, data and links, as far as a planner knows."""
    groups: dict[Hashable, list[str]] = {}
    for name in nodes:
        groups.setdefault(_description(task, name), []).append(name)
    return [tuple(group) for group in groups.values()]


def equal_links(task: Task, links: Iterable[int]) -> list[tuple[int, ...]]:
    """Links in groups that are equal and join equal nodes."""
    groups: dict[Hashable, list[int]] = {}
    for number in links:
        link = task.cluster.links[number]
        ends = frozenset(_description(task, name) for name in link.between)
        groups.setdefault((link.model_copy(update={"between": ("", "")}), ends), []).append(number)
    return [tuple(group) for group in groups.values()]


def _description(task: Task, name: str) -> Hashable:
    """A node, and the links that it has to which nodes; the links of those do not count."""
    links = [
        (repr(link.model_copy(update={"between": ("", "")})), _without_links(task, other))
        for link in task.cluster.links
        if name in link.between
        for other in link.between
        if other != name
    ]
    return _without_links(task, name), tuple(sorted(links))


def _without_links(task: Task, name: str) -> str:
    """A node without its links: what describes it, and its layer times."""
    node = task.cluster.nodes[name]
    source = None if node.source is None else node.source.model_copy(update={"data": None})
    return repr((node.model_copy(update={"source": source, "host": None}), task.profile.nodes.get(name)))


def describe_equal(names: Sequence[str]) -> str:
    """Equal nodes as text: the name of one, or how many there are and which."""
    if len(names) == 1:
        return names[0]
    shown = f"{names[0]} and {names[1]}" if len(names) == 2 else f"{names[0]}, {names[1]}, …"
    return f"any one of {len(names)} equal nodes ({shown})"
