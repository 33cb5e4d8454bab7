"""Trees of the ordinary cases whose replicas take some steps before they average their weights."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.fidelity.cases import BATCHES, cluster, plan, trees
from palmette.measure.profiling import profile_network
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.models import load_network

EVERY = 4
WINDOWS = 4
"""Windows of a run, of which the first counts as warm-up."""
BANDWIDTHS_MBIT = (5.0, 20.0)
_MODEL = "lenet5"


def window_cases(bandwidths: list[float], quick: bool) -> Iterator[tuple[str, str, float, Plan, Profile, Cluster]]:
    """Three replicas, and a tree whose branches share layers, each without and with an outer optimizer."""
    network = load_network(_MODEL)
    profile = profile_network(network, cluster(5.0), [])
    known = trees(len(network.layers), BATCHES[_MODEL])
    asked = [each for each in BANDWIDTHS_MBIT if not bandwidths or each in bandwidths]
    kinds: list[tuple[str, dict[str, float] | None]]
    kinds = [("hiertrain-like", None), ("three-replicas", None), ("three-replicas", {})]
    for name, outer in kinds[:1] if quick else kinds:
        whole = plan(_MODEL, known[name])
        fields = {"sync": "every", "every": EVERY, "outer": outer, "server": "server"}
        phases = tuple(Phase.model_validate(each.model_dump() | fields) for each in whole.phases)
        made = whole.model_copy(update={"phases": phases})
        for bandwidth in asked[-1:] if quick else asked:
            yield _MODEL, name if outer is None else f"{name}, outer", bandwidth, made, profile, cluster(bandwidth)
