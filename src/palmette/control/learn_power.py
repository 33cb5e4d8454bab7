"""The power of nodes as meters measured it in runs: a cluster whose estimates have learned from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palmette.errors import Fault, InputError
from palmette.measure.learned_power import MeteredRun, fit_power
from palmette.spec.cluster import Cluster, Power
from palmette.spec.files import load, read
from palmette.spec.run import RunRecord

_WHOLE = 0.99  # of the time of a run, up to rounding


class LearnedPower(NamedTuple):
    """A node's power, whether its idle watts were fitted, in how many runs, and by which meters."""

    power: Power
    idle_fitted: bool
    runs: int
    sources: tuple[str, ...]


def learn_power(folders: Sequence[Path], cluster: Cluster) -> dict[str, LearnedPower]:
    """The power of each node of a cluster that had a meter in one of the runs in some folders.

    Raises:
        InputError: a run cannot be read or used, or no watts explain what was measured.
    """
    found: dict[str, list[tuple[MeteredRun, str]]] = {}
    for folder in folders:
        for node, run, source in _metered(folder):
            if node in cluster.nodes:
                found.setdefault(node, []).append((run, source))
    if not found:
        expected = "no meter measured a node of this cluster; expected runs with --meter"
        raise InputError(Fault("metered", "none", expected, ", ".join(map(str, folders))))
    learned = {}
    for node, measured in found.items():
        power, fitted = fit_power(node, [run for run, _ in measured], cluster.nodes[node].power)
        sources = tuple(dict.fromkeys(source for _, source in measured))
        learned[node] = LearnedPower(power, fitted, len(measured), sources)
    return learned


def with_power(cluster: Cluster, learned: dict[str, LearnedPower]) -> Cluster:
    """The cluster with what was learned in place of what was declared."""
    nodes = {
        name: node.model_copy(update={"power": learned[name].power}) if name in learned else node
        for name, node in cluster.nodes.items()
    }
    return cluster.model_copy(update={"nodes": nodes})


def _metered(folder: Path) -> list[tuple[str, MeteredRun, str]]:
    """What meters measured in a run, by node, and which meters."""
    file = folder / "run.json"
    record, raw = load(RunRecord, file), read(file)
    found = []
    for node, metered in raw.get("metered", {}).items():
        if metered.get("failed") is not None:
            continue
        computing_s = _computing_s(record, raw, node, str(file))
        run = MeteredRun(float(metered["seconds"]), computing_s * record.dilation, float(metered["energy_j"]))
        if not 0 < run.computing_s < run.seconds:
            expected = f"expected less than the {run.seconds:.3g} s of its meter, and more than 0"
            raise InputError(Fault(f"nodes.{node}.computing_s", f"{run.computing_s:.3g} s", expected, str(file)))
        found.append((node, run, str(metered.get("source"))))
    return found


def _computing_s(record: RunRecord, raw: dict[str, Any], node: str, file: str) -> float:
    """How long a node computed, on the emulated clock, where that was with its whole CPU, and all of it is known."""
    shares = {each.cpu_share for phase in record.plan.phases for each in phase.instances if each.node == node}
    if shares != {1.0}:
        raise InputError(Fault(f"nodes.{node}", f"shares {sorted(shares)}", "expected its whole CPU, 1.0", file))
    spent = raw.get("nodes", {}).get(node, {})
    if spent.get("whole_s", 0.0) < _WHOLE * raw.get("time_s", 0.0):
        expected = "it was resumed, or its plan has changed; expected a run that was not"
        raise InputError(Fault(f"nodes.{node}.whole_s", spent.get("whole_s"), expected, file))
    return float(spent["computing_s"])
