"""JALAD: the first layers on an edge server, the rest in the cloud, 8-bit integers on the cut.

Raw data goes to the edge server first, unless everything runs in the cloud. All cuts, edge servers and cloud servers
are tried; the least time by its own formula (``chain.iteration_s``) wins, whatever the goal.

    Hongshan Li, Chenghao Hu, Jingyan Jiang, Zhi Wang, Yonggang Wen, Wenwu Zhu: JALAD: Joint Accuracy- and
    Latency-Aware Deep Structure Decoupling for Edge-Cloud Execution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from palmette.plan.core.owner import data_owner, tier_nodes
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.plan.rivals.chain import first_feasible, iteration_s
from palmette.spec.codec import Codec

CODEC: Codec = "int8"


@dataclass(frozen=True)
class Jalad(Strategy):
    """One cut between an edge server and the cloud, int8 on it."""

    name: ClassVar[str] = "jalad"
    summary: ClassVar[str] = "the first layers on an edge server, the rest in the cloud, 8-bit integers between them"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True

    def decide(self, task: Task) -> Decision:
        """Take the best cut."""
        owner = data_owner(task, self.name)
        edges, clouds = tier_nodes(task, owner, "edge"), tier_nodes(task, owner, "cloud")
        depth = len(task.profile.layers)
        cuts = [(e, c, m) for e in edges for c in clouds for m in range(depth + 1)]
        assignments = dict.fromkeys((e,) * m + (c,) * (depth - m) for e, c, m in cuts)
        ranked = sorted(assignments, key=lambda nodes: iteration_s(nodes, task, owner, CODEC))
        return first_feasible(ranked, task, owner, CODEC)


STRATEGIES = (Jalad,)
