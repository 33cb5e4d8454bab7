"""The plan: phases of instance trees, what they cost, and what they were made for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from palmette.errors import ArgumentFault, InputError, expected_name, listed
from palmette.spec.cluster import Cluster
from palmette.spec.display import Displayed
from palmette.spec.document import (
    Count,
    Flag,
    JsonObject,
    LocatedFault,
    Name,
    Number,
    OpenDocument,
    Positive,
    entries,
    part,
    refuse,
)
from palmette.spec.estimate import Estimate
from palmette.spec.exchange import PLAIN_EXCHANGE, Exchange
from palmette.spec.profile import Profile
from palmette.spec.reading import layer_range
from palmette.spec.sync import SYNC_KINDS, OuterOptimizer, Sync, SyncKind, Turns
from palmette.spec.tree import Feed, Instance, wrong_instances, wrong_tree

BatchNorm = Literal["whole", "parts"]
InputAs = Literal["stored", "tensor"]
Order = Literal["fifo", "1f1b", "zero-bubble"]
Averaging = Literal["meet", "ring"]
USUAL_AHEAD = 4
"""How many iterations ahead samples travel by default: enough for the latency of most links, few enough for memory."""


def known_input_as(name: str) -> InputAs:
    """How samples travel, by its name.

    Raises:
        InputError: there is no such way; names the nearest.
    """
    known: tuple[InputAs, ...] = get_args(InputAs)
    for each in known:
        if name == each:
            return each
    raise InputError(ArgumentFault("input_as", name, expected_name(name, "form of samples", list(known))))


class Phase(OpenDocument):
    """An instance tree, how small its model is, how long it runs, and how its replicas agree.

    ``meet`` is the node at which the gradients of replicas meet under ``step``, where the plan says so. ``batch_norm``
    says over which samples batch norm takes its statistics: the whole batch, or each instance's part of it.
    ``input_as`` says how samples travel: as they are stored, or as the tensors that the network takes. With ``ahead``
    they travel while earlier iterations compute, at most ``ahead_iterations`` of them. While the phase runs, samples of
    its sources are also sent to the nodes in ``upload``, in the background, and kept there for a later phase. ``order``
    is that of the calls of microbatches on a node: as they become ready, or one forward, one backward in turns, or such
    turns in which the gradients of inputs are computed first, and those of weights later.
    ``averaging`` says how gradients of replicas are averaged under ``step``: where they meet, or around a ring.
    Under ``every``, weights are averaged after so many steps; ``outer`` is what then updates with the mean difference.
    With ``turns`` parts of the network are exchanged one after the other, while steps go on.
    Under ``epoch``, as many trees as ``clients`` says are drawn for each round; all where it does not say. With
    ``secure_aggregation`` instances mask their weights for the server, so that it learns no more than their sum.
    ``exchange`` says how gradients, or what a window has changed in weights, travel to where replicas meet, and their
    average back; with ``overlap`` gradients do so while backward goes on, last layers first.
    """

    pruning: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.0
    compress: Literal["prune", "distill"] = "prune"
    epochs: Count | None = None
    sync: Sync = "step"
    server: Name | None = None
    meet: Name | None = None
    batch_norm: BatchNorm = "parts"
    input_as: InputAs = "stored"
    ahead: Flag = False
    ahead_iterations: Annotated[int, Field(strict=True, ge=1, le=64)] = USUAL_AHEAD
    upload: tuple[Name, ...] = ()
    order: Order = "fifo"
    averaging: Averaging = "meet"
    local_epochs: Count = 1
    clients: Count | None = None
    secure_aggregation: Flag = False
    every: Count | None = None
    outer: OuterOptimizer | None = None
    turns: Turns | None = None
    exchange: Exchange = PLAIN_EXCHANGE
    overlap: Flag = False
    sources: Annotated[tuple[Feed, ...], Field(min_length=1)]
    instances: Annotated[tuple[Instance, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_a_tree(self) -> Self:
        wrong = [*self.wrong_names(dict(self)), *wrong_instances(self.instances)]
        wrong = wrong or wrong_tree(self.sources, self.instances)
        wrong = [*wrong, *self._wrong_window()] or self._wrong_aggregation()
        if wrong:
            refuse("Phase", wrong)
        return self

    def _wrong_window(self) -> list[LocatedFault]:
        """What says how weights are averaged, where they are not averaged like that."""
        kind, wrong = SYNC_KINDS[self.sync], list[LocatedFault]()
        if kind.counts_steps and self.every is None:
            wrong.append(LocatedFault(("every",), "missing", "expected the number of steps between two averages"))
        if self.every is not None and not kind.counts_steps:
            wrong.append(LocatedFault(("every",), self.every, f"expected none under {self.sync}"))
        if self.outer is not None and not kind.averages_weights:
            wrong.append(LocatedFault(("outer",), "given", f"expected none under {self.sync}"))
        return [*wrong, *self._wrong_turns(), *self._wrong_clients()]

    def _wrong_turns(self) -> list[LocatedFault]:
        """What says that parts of the network are exchanged in turns, where they cannot be."""
        if self.turns is None or self.every is None:
            return [] if self.turns is None else [LocatedFault(("turns",), "given", f"expected none under {self.sync}")]
        many, delay = self.turns.fragments, self.turns.delay
        if many > min(self.every, self.depth):
            expected = f"expected at most {min(self.every, self.depth)}: a layer and a step for each"
            return [LocatedFault(("turns", "fragments"), many, expected)]
        if delay >= self.every // many:
            expected = f"expected less than {self.every // many}, the steps between two turns"
            return [LocatedFault(("turns", "delay"), delay, expected)]
        if self.exchange.kind.lossy:
            return [LocatedFault(("exchange", "codec"), self.exchange.codec, "expected none with turns")]
        return []

    def _wrong_clients(self) -> list[LocatedFault]:
        """What says how many trees take part in a round, where that cannot be."""
        if self.clients is None:
            return []
        if not SYNC_KINDS[self.sync].draws_clients:
            return [LocatedFault(("clients",), self.clients, f"expected none under {self.sync}")]
        if self.clients > self.roots:
            return [LocatedFault(("clients",), self.clients, f"expected at most {self.roots}, one for each tree")]
        if self.exchange.kind.lossy:
            expected = "expected none with clients: those that sat out have no weights to add coded differences to"
            return [LocatedFault(("exchange", "codec"), self.exchange.codec, expected)]
        return []

    def _wrong_aggregation(self) -> list[LocatedFault]:
        """What says that nobody may learn the weights of a single node, where somebody would."""
        if not self.secure_aggregation:
            return []
        at, kind = ("secure_aggregation",), SYNC_KINDS[self.sync]
        if not kind.averages_weights or kind.keeps_optimizers:
            return [LocatedFault(at, "true", f"expected none under {self.sync}")]
        if self.exchange.kind.lossy:
            expected = "expected none with secure_aggregation: the sum of coded weights is none"
            return [LocatedFault(("exchange", "codec"), self.exchange.codec, expected)]
        if self.draws_clients:
            return [LocatedFault(("clients",), self.clients, "expected all of them with secure_aggregation")]
        for number in range(1, self.depth + 1):
            nodes = {instance.node for instance in self.senders(number)}
            if len(nodes) == 1:
                expected = f"{self.meeting_node} would learn the weights of {nodes.pop()} in layer {number}"
                return [LocatedFault(at, "true", f"{expected}; expected instances on at least two other nodes")]
        return []

    @classmethod
    def wrong_names(cls, data: Mapping[Any, Any]) -> list[LocatedFault]:
        """Sources and instances that go into an instance which is not there."""
        names = {name: None for _, i in entries(data, "instances") if isinstance(name := part(i, "id"), str)}
        return [
            LocatedFault((kind, index, "into"), into, expected_name(into, "instance", list(names)))
            for kind in ("sources", "instances")
            for index, feeder in entries(data, kind)
            if isinstance(into := part(feeder, "into"), str) and into not in names
        ]

    @model_serializer(mode="wrap")
    def _without_the_usual_exchange(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Files name how replicas agree where it is not the usual way."""
        written: dict[str, Any] = handler(self)
        usual = {"exchange": self.exchange == PLAIN_EXCHANGE, "overlap": not self.overlap}
        usual |= {"every": self.every is None, "outer": self.outer is None, "clients": self.clients is None}
        usual |= {"turns": self.turns is None, "secure_aggregation": not self.secure_aggregation}
        usual |= {"order": self.order == "fifo", "averaging": self.averaging == "meet"}
        return {key: value for key, value in written.items() if not usual.get(key)}

    @property
    def depth(self) -> int:
        """The number of layers from the sources to the loss."""
        return max(instance.layers[1] for instance in self.instances)

    @property
    def sync_kind(self) -> SyncKind:
        """How its replicas agree."""
        return SYNC_KINDS[self.executed_sync]

    @property
    def executed_sync(self) -> Sync:
        """How it is executed: where weights would be averaged after every step, gradients are instead."""
        averages_only = self.outer is None or self.outer.averages_only
        return "step" if self.every == 1 and averages_only else self.sync

    @property
    def exchanged(self) -> str:
        """What travels between replicas."""
        return "differences" if self.sync_kind.averages_weights else "gradients"

    @property
    def epoch_passes(self) -> int:
        """How often an epoch of the phase goes over its samples."""
        own_shards = self.sync_kind.averages_weights and not self.sync_kind.common_batch
        return self.local_epochs if own_shards else 1

    def window(self, epoch_iterations: int) -> int:
        """The steps that replicas take apart where an epoch has so many; 1 where they do not, or there is one."""
        if not self.sync_kind.averages_weights or self.replicas == 1:
            return 1
        return min(self.every or epoch_iterations, epoch_iterations)

    @property
    def batch(self) -> int:
        """Samples of one iteration over all sources."""
        return sum(source.samples for source in self.sources)

    @property
    def replicas(self) -> int:
        """The number of instances of the first layer."""
        return sum(instance.layers[0] == 1 for instance in self.instances)

    @property
    def roots(self) -> int:
        """The number of instances that compute the loss, each that of a tree."""
        return sum(instance.into is None for instance in self.instances)

    @property
    def draws_clients(self) -> bool:
        """Whether only a part of the trees takes part in a round."""
        return self.clients is not None and self.clients < self.roots

    @property
    def round_fraction(self) -> float:
        """The part of the samples that a round takes on average, of those of all trees."""
        return 1.0 if self.clients is None else self.clients / self.roots

    @property
    def meeting_node(self) -> str:
        """The node where weights or gradients of the whole model meet: the server, else the first root's."""
        root = next(instance for instance in self.instances if instance.into is None)
        return root.node if self.server is None else self.server

    def senders(self, layer: int) -> list[Instance]:
        """The instances that send a layer to the server, as they are on other nodes."""
        away = [each for each in self.instances if each.node != self.meeting_node]
        return [each for each in away if each.layers[0] <= layer <= each.layers[1]]

    def nodes(self) -> list[str]:
        """The nodes that take part: that host an instance, a source or the server, or where gradients meet."""
        hosts = [*(s.node for s in self.sources), *(i.node for i in self.instances), *self.upload]
        if not self.sync_kind.one_model:
            hosts.append(self.meeting_node)
        elif self.meet is not None and self.shares_layers():
            hosts.append(self.meet)
        return list(dict.fromkeys(hosts))

    def shares_layers(self) -> bool:
        """Whether two nodes hold the same layer, so that gradients have to meet."""
        held: dict[int, str] = {}
        return any(
            held.setdefault(number, instance.node) != instance.node
            for instance in self.instances
            for number in range(instance.layers[0], instance.layers[1] + 1)
        )


class Inputs(OpenDocument):
    """What a plan was made for, so that its file stands alone."""

    cluster: Cluster | None = None
    profile: Profile | None = None

    @field_validator("cluster", "profile", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == {} else value


class Asked(OpenDocument):
    """What a strategy was asked, beside its inputs: enough to plan again when the cluster has changed."""

    goal: Name = "time"
    deadline_s: Positive | None = None
    iteration_deadline_s: Positive | None = None
    loss: Positive | None = None
    optimizer: Name = "sgd"
    accumulate: Count = 1
    seed: Annotated[int, Field(strict=True)] = 0
    epochs: Count | None = None
    input_as: InputAs = "stored"
    exchange: Exchange = PLAIN_EXCHANGE
    overlap: Flag = False
    robust: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = None
    options: JsonObject = {}


class Plan(Displayed, OpenDocument):
    """What a strategy decided, ready to be priced and run; a decision on tables alone has no phases."""

    format: Literal["palmette.plan/1"] = "palmette.plan/1"
    strategy: Name = "manual"
    model: Name
    batch: Count
    decision: JsonObject = {}
    phases: tuple[Phase, ...]
    estimate: Estimate | None = None
    plan_s: Number | None = None
    asked: Asked | None = None
    inputs: Inputs | None = None

    @model_validator(mode="after")
    def _samples_make_the_batch(self) -> Self:
        wrong = [
            LocatedFault(("batch",), self.batch, f"the sources of phases[{k}] take {phase.batch} samples per iteration")
            for k, phase in enumerate(self.phases)
            if phase.sync_kind.common_batch and phase.batch != self.batch
        ]
        if not (self.phases or self.decision):
            wrong.append(LocatedFault(("phases",), [], "expected at least 1"))
        if wrong:
            refuse("Plan", wrong)
        return self

    def nodes(self) -> list[str]:
        """The nodes that take part in any phase."""
        return list(dict.fromkeys(node for phase in self.phases for node in phase.nodes()))

    def __repr__(self) -> str:
        parts = [f"{self.strategy} for {self.model}, batch {self.batch}", *map(_placed, self.phases[:1])]
        parts += [f"{len(self.phases)} phases"] if len(self.phases) > 1 else []
        parts += [] if self.estimate is None else [f"an iteration: {self.estimate.facts()['an iteration']}"]
        return f"Plan({'; '.join(parts)})"

    def to_json(self) -> str:
        """The plan as the text of a ``plan.json``."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


def _placed(phase: Phase) -> str:
    """Which layers are where, in few words."""
    placed = [f"{layer_range(each.layers)} on {each.node}" for each in phase.instances]
    return f"layers {listed(list(dict.fromkeys(placed)))} ({phase.sync})"


def inputs_of(plan: Plan, profile: Profile | None, cluster: Cluster | None) -> tuple[Profile, Cluster]:
    """The profile and the cluster of a plan: those given, else those that it carries.

    Raises:
        InputError: there is neither.
    """
    carried = plan.inputs
    profile = profile or (carried.profile if carried else None)
    cluster = cluster or (carried.cluster if carried else None)
    missing = [name for name, found in (("profile", profile), ("cluster", cluster)) if found is None]
    if profile is None or cluster is None:
        raise InputError(ArgumentFault(name, "missing", "the plan carries none; expected one") for name in missing)
    return profile, cluster
