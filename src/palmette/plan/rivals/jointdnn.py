"""JointDNN and JointDNN+: the layers of one chain on two nodes or on any, by a shortest path.

JointDNN trains on the owner of the data and in the cloud; JointDNN+, HierTrain's extension of it, on every node. The
chain may go back and forth; backward runs where forward ran. Both minimise the time of their own formula
(``chain.iteration_s``), exactly, whatever the goal.

    Amir Erfan Eshratifar, Mohammad Saeed Abrishami, Massoud Pedram: JointDNN: An Efficient Training and Inference
    Engine for Intelligent Mobile Cloud Computing Services.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from palmette.plan.core.owner import data_owner, tier_nodes, usable_nodes
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.plan.rivals.chain import first_feasible
from palmette.plan.rivals.chain_search import chains


@dataclass(frozen=True)
class JointDNN(Strategy):
    """One chain over the owner of the data and the cloud."""

    name: ClassVar[str] = "jointdnn"
    summary: ClassVar[str] = "one chain over the data's owner and the cloud, by a shortest path"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True

    def decide(self, task: Task) -> Decision:
        """Take the shortest path over layers."""
        owner = data_owner(task, self.name)
        names = self._nodes(task, owner)
        whole = [(name,) * len(task.profile.layers) for name in names]  # where no chain fits a memory, these say why
        return first_feasible(itertools.chain(chains(task, owner, names), whole), task, owner)

    def _nodes(self, task: Task, owner: str) -> list[str]:
        clouds = tier_nodes(task, owner, "cloud")
        return [name for name in usable_nodes(task, owner) if name == owner or name in clouds]


@dataclass(frozen=True)
class JointDNNPlus(JointDNN):
    """One chain over all nodes."""

    name: ClassVar[str] = "jointdnn+"
    summary: ClassVar[str] = "one chain over devices, edge servers and the cloud, by a shortest path"
    plans_quickly: ClassVar[bool] = True

    def _nodes(self, task: Task, owner: str) -> list[str]:
        return usable_nodes(task, owner)


STRATEGIES = (JointDNN, JointDNNPlus)
