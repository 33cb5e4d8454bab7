"""The cluster of the workers that dial in to a hub of this process, with their links to it as measured.

``palmette init`` writes it. Nobody says which workers will come: those whose keys are valid are waited for, and those
that came are taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from palmette.errors import ArgumentFault, InputError
from palmette.measure.hub_links import linked_to_hub, measure_hub_link
from palmette.measure.probing import carry_out
from palmette.runtime.engines.base import EngineSettings
from palmette.runtime.engines.hub.engine import hub_membership
from palmette.runtime.engines.probes import Prober
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.transports.keys.folder import Keys
from palmette.spec.cluster import TIERS, Cluster, Node, Source

ENGINE, HUB = "hub", "hub"
_LOOK_EVERY_S = 0.1
_TIER_WORDS = {"cloud": "cloud", "gpu": "cloud", "server": "edge", "edge": "edge", "nuc": "edge", "laptop": "edge"}


@dataclass(frozen=True)
class DialledIn:
    """The workers that are connected to a hub of this process."""

    nodes: Sequence[str]
    _prober: Prober
    _listen: str | None
    _keys: Path

    def cluster(self, tiers: Mapping[str, str], sources: Mapping[str, Source], tell: Callable[[str], None]) -> Cluster:
        """Their cluster: tiers and data as said, limits as their owners set them, links to the hub as measured.

        Raises:
            RunError: a worker is lost.
        """
        nodes = {name: Node.model_validate({"tier": tiers[name], "source": sources.get(name)}) for name in self.nodes}
        found = {}
        for name in self.nodes:
            found[name] = way = measure_hub_link(self._prober, name)
            tell(f"{name}: {way.up_bps / 1e6:.3g} Mbit/s to the hub, {way.down_bps / 1e6:.3g} Mbit/s from it")
        linked = linked_to_hub(Cluster(nodes=nodes), found)
        return hub_membership(self._listen, self._keys).limited(linked)


def workers_at(listen: str | None, keys: Path, wait_s: float) -> DialledIn:
    """The workers that come to a hub of this process within so many seconds, or all that may come, if that is sooner.

    Raises:
        InputError: there are no keys, it cannot listen there, or nobody came.
    """
    known = [each.node for each in Keys(keys).entries() if each.role == "worker" and each.state == "valid"]
    expected = [name for name in known if name != HUB]
    members = hub_membership(listen, keys)
    until_s = time.monotonic() + wait_s
    while len(members.present(expected)) < len(expected) and time.monotonic() < until_s:
        time.sleep(_LOOK_EVERY_S)
    present = sorted(members.present(expected))
    if not present:
        waited = f"no worker came to {members} within {wait_s:g} s; start one on each machine: palmette worker"
        raise InputError(ArgumentFault("engine", ENGINE, waited))
    make = ENGINES[ENGINE].prober
    assert make is not None, "workers at a hub measure"
    prober = make(EngineSettings(nodes=present, optional=(), listen=listen, keys=keys), carry_out)
    return DialledIn(present, prober, listen, keys)


def likely_tier(name: str) -> str:
    """The tier that the name of a node suggests."""
    found = next((tier for word, tier in _TIER_WORDS.items() if word in name.lower()), TIERS[0])
    return str(found)
