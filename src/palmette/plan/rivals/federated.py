"""Federated averaging (McMahan et al. 2017), as users of Flower run it: every owner of data is a client.

Each client trains the whole network for some epochs on its own data, in batches of the size that was asked for; then a
server averages the weights, weighted by samples. Raw data stays where it is. Only the server is to be chosen. With
``clients_per_round``, some clients are drawn for each round, and the others sit it out. With ``secure_aggregation``
clients mask their weights, so that the server learns no more than their sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from palmette.cost.evaluate import Evaluator
from palmette.errors import ArgumentFault, Fault, Infeasible, InputError
from palmette.plan.core.choice import best
from palmette.plan.core.forest import servers, whole_network
from palmette.plan.core.recompute import recompute_price, recompute_to_fit
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed


@dataclass(frozen=True, kw_only=True)
class Federated(Strategy):
    """Every owner of data trains on it, and a server averages."""

    name: ClassVar[str] = "federated"
    summary: ClassVar[str] = "every owner of data trains the whole network on it, a server averages after every epoch"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True
    trains_apart: ClassVar[bool] = True

    local_epochs: int = field(default=1, metadata={"help": "Epochs over its own data that each client trains."})

    clients_per_round: float | None = field(
        default=None, metadata={"help": "Clients drawn for each round: their number, or a fraction below 1; else all."}
    )

    secure_aggregation: bool = field(
        default=False, metadata={"help": "Mask what clients send, so that the server learns their sum alone."}
    )

    def __post_init__(self) -> None:
        if self.local_epochs < 1:
            raise InputError(ArgumentFault("local_epochs", self.local_epochs, "expected at least 1"))
        if not isinstance(self.secure_aggregation, bool):
            raise InputError(ArgumentFault("secure_aggregation", self.secure_aggregation, "expected true or false"))
        many = self.clients_per_round
        if many is not None and not (0 < many < 1 or (many >= 1 and float(many).is_integer())):
            expected = "expected a whole number, or a fraction above 0 and below 1"
            raise InputError(ArgumentFault("clients_per_round", many, expected))
        if many is not None and self.secure_aggregation:
            raise InputError(ArgumentFault("clients_per_round", many, "expected none with secure_aggregation"))

    def decide(self, task: Task) -> Decision:
        """Take all owners as clients, and the best server."""
        clients = recompute_to_fit(self._clients(task), task)
        secure = {"secure_aggregation": self.secure_aggregation}
        candidates = [clients.model_copy(update={"server": node} | secure) for node in self._servers(clients, task)]
        phase, price = best(candidates, task, Evaluator.mean_epoch)
        variables = {
            "clients": [instance.node for instance in phase.instances],
            "server": phase.server,
            "local_epochs": self.local_epochs,
            "clients_per_round": phase.clients or phase.roots,
            "round_s": price.epoch.time_s,
        }
        return Decision((phase,), variables | recompute_price(phase, task))

    def _servers(self, clients: Phase, task: Task) -> list[str]:
        """The nodes that may be the server: with secure aggregation those beside which two others own data.

        Raises:
            InputError: differences are to be coded, which cannot be masked.
            Infeasible: there are none.
        """
        if not self.secure_aggregation:
            return servers(task)
        if task.exchange.kind.lossy:
            expected = "the sum of coded weights is none; expected none with secure_aggregation"
            raise InputError(ArgumentFault("exchange_codec", task.exchange.codec, expected))
        owners = {instance.node for instance in clients.instances}
        found = [node for node in servers(task) if len(owners - {node}) > 1]
        if not found:
            many = f"{len(owners)} that own data"
            raise Infeasible(Fault("nodes", many, "expected a server, and data on two others, for secure aggregation"))
        return found

    def _clients(self, task: Task) -> Phase:
        owned = {name: node.source.samples for name, node in task.cluster.nodes.items() if node.source is not None}
        if not owned:
            raise InputError(Fault("nodes", "no source", "expected at least one node with a source of training data"))
        return Phase(
            sync="epoch",
            local_epochs=self.local_epochs,
            clients=self._drawn(len(owned), task),
            sources=tuple(Feed(node=name, samples=min(task.batch, many), into=name) for name, many in owned.items()),
            instances=tuple(whole_network(name, task) for name in owned),
        )

    def _drawn(self, clients: int, task: Task) -> int | None:
        """How many of the clients take part in a round; None for all.

        Raises:
            InputError: there are not so many, or differences are to be coded, which takes all of them.
        """
        many = self.clients_per_round
        if many is None:
            return None
        if many > clients:
            expected = f"{clients} nodes own data; expected at most as many"
            raise InputError(ArgumentFault("clients_per_round", many, expected))
        drawn = int(many) if many >= 1 else math.ceil(many * clients - 1e-9)
        if drawn == clients:
            return None
        if task.exchange.kind.lossy:
            expected = "clients that sat out have no weights to add to; expected none, or all clients"
            raise InputError(ArgumentFault("exchange_codec", task.exchange.codec, expected))
        return drawn


STRATEGIES = (Federated,)
