"""Secure aggregation: the weights of plain federated averaging, and nothing but their sum for the server."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from palmette.cost.operations import trees
from palmette.errors import InputError, RunError
from palmette.runtime.data.epoch_length import tree_steps
from palmette.runtime.program import Program, ProgramOperation
from palmette.runtime.sync.local_training import LocalWorkerSide
from palmette.runtime.sync.secure_aggregation import SecureAggregation
from palmette.runtime.training import launch
from palmette.runtime.worker.actions import TrainingActions
from palmette.runtime.worker.executor import Actions, Values
from palmette.runtime.worker.pairwise_masks import PairwiseMasks, Party
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from tests.runtime.rig import off
from tests.runtime.sync.test_clients import NODES, four
from tests.runtime.sync.test_epoch import epoch_inputs, rig, world
from tests.runtime.trees import FedAvg, Forest
from tests.runtime.world import lines

LATER = 1e-6
"""What training makes of the rounding of earlier exchanges, as it would of that of float32."""
HALF = 2**63


def masked_four(**more: Any) -> Phase:
    return four().model_copy(update={"clients": None, "secure_aggregation": True, **more})


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The messages that reach the server."""
    found: list[Tensor] = []
    plain = SecureAggregation.arrived

    def arrived(self: SecureAggregation, operation: Any, message: Tensor, iteration: int) -> None:
        if operation.what.value == "push":
            found.append(message.clone())
        plain(self, operation, message, iteration)

    monkeypatch.setattr(SecureAggregation, "arrived", arrived)
    return found


@pytest.mark.parametrize("server", ["s", "a"])
@pytest.mark.parametrize("local_epochs", [1, 2])
def test_weights_are_those_of_federated_averaging(local_epochs: int, server: str, tmp_path: Path) -> None:
    """With a tree that is cut, unequal shards, batch norm, and an instance on the server."""
    fields = masked_four().model_dump() | {"server": server, "local_epochs": local_epochs}
    forest = Forest(rig(norm=True, optimizer="momentum"), validated(Phase, fields), world(**NODES), tmp_path)
    steps = tree_steps(forest.phase, *epoch_inputs(forest))
    samples = sum(many * tree.batch for many, tree in zip(steps, trees(forest.phase), strict=True))
    for epochs, most in ((1, len(steps) * 2**-25 / samples), (3, LATER)):
        expected = FedAvg(forest, steps).epochs(epochs)
        outcome, found = forest.trained(epochs=epochs)
        assert outcome.ended == "done"
        assert 0 < off(found, expected) <= most


def test_an_outer_optimizer_gets_the_same_mean(tmp_path: Path) -> None:
    fields = masked_four().model_dump() | {"outer": {"lr": 0.7, "momentum": 0.5}}
    both = [validated(Phase, fields | {"secure_aggregation": masks}) for masks in (True, False)]
    found = [Forest(rig(), each, world(**NODES), tmp_path / str(k)) for k, each in enumerate(both)]
    for each in found:
        each.folder.mkdir()
    assert 0 < off(*(each.trained(epochs=4)[1] for each in found)) <= LATER


def test_the_server_sees_noise(tmp_path: Path, pushed: list[Tensor]) -> None:
    """Not even which numbers are alike: the same weights are sent as other bytes each time."""
    made = rig()
    made.options = replace(made.options, lr=1e-30)
    Forest(made, masked_four(), world(**NODES), tmp_path).trained(epochs=4)
    assert len(pushed) == 4 * 5
    numbers = np.concatenate([each[8:].numpy().view(np.uint64) for each in pushed])
    assert len(set(numbers.tolist())) == len(numbers), "numbers of 64 bits hardly ever come twice"
    below = np.mean(numbers < HALF)
    assert abs(below - 0.5) < 5 * 0.5 / len(numbers) ** 0.5
    bits = np.unpackbits(numbers.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert np.all(np.abs(bits - 0.5) < 5 * 0.5 / len(numbers) ** 0.5)


def test_what_travels_is_what_the_clock_counts(tmp_path: Path) -> None:
    forest = Forest(rig(), masked_four(), world(**NODES), tmp_path)
    forest.trained(epochs=1)
    sent = [line for line in lines(tmp_path / "trace.jsonl") if line["op"] == "receive"]
    weights = sum(each.numel() for layer in rig().fresh() for each in layer.parameters())
    assert {line["bytes"] for line in sent if line["node"] == "s" and line["instance"] == "A"} == {8 + 8 * weights}
    assert {line["bytes"] for line in sent if line["node"] == "a" and line["instance"] == "A"} == {8 * weights}


def test_a_stopped_run_ends_with_the_weights_of_one_that_was_not(tmp_path: Path) -> None:
    made = [Forest(rig(optimizer="momentum"), masked_four(), world(**NODES), tmp_path / name) for name in "xy"]
    for each in made:
        each.folder.mkdir()
    _, expected = made[0].trained(epochs=4)

    def stop(training: Any, update: Any) -> None:
        if update.iteration == 7 and update.evaluation is None:
            training.stop()

    made[1].watch = stop
    assert made[1].trained(epochs=4)[0].ended == "stopped"
    made[1].watch = lambda *_: None
    outcome, found = made[1].trained(resume=True, epochs=4)
    assert outcome.ended == "done"
    assert off(found, expected) == 0


@pytest.mark.parametrize("many", [2, 3, 7])
def test_masks_cancel_in_the_sum_of_all_and_in_no_other(many: int) -> None:
    drawn = np.random.default_rng(many)
    parties = [Party(k, f"node {k % 3}") for k in range(many)]  # some are on one node
    nodes = {party.node: PairwiseMasks() for party in parties}
    for masks in nodes.values():
        masks.agree({node: each.public_key for node, each in nodes.items()})
    plain = [drawn.integers(0, 2**64, 50, dtype=np.uint64) for _ in parties]
    sent = []
    for own, values in zip(parties, plain, strict=True):
        masked = values
        for other in (each for each in parties if each != own):
            stream = nodes[own.node].stream(own, other, 3, 2)
            masked = np.concatenate([stream.masked(masked[:20]), stream.masked(masked[20:])])
        sent.append(masked)
    assert np.array_equal(np.sum(sent, axis=0, dtype=np.uint64), np.sum(plain, axis=0, dtype=np.uint64))
    for some in itertools.chain.from_iterable(itertools.combinations(range(many), k) for k in range(1, many)):
        off_by = sum(sent[k] for k in some) - sum(plain[k] for k in some)
        assert np.count_nonzero(off_by) == len(off_by)


def test_no_mask_is_used_twice() -> None:
    nodes = {"a": PairwiseMasks(), "b": PairwiseMasks()}
    for masks in nodes.values():
        masks.agree({node: each.public_key for node, each in nodes.items()})
    zeros, seen = np.zeros(4, dtype=np.uint64), set[tuple[int, ...]]()
    uses = [(pair, exchange, layer) for pair in ((0, 1), (0, 2), (1, 2)) for exchange in range(5) for layer in range(4)]
    for (one, two), exchange, layer in uses:
        mask = nodes["a"].stream(Party(one, "a"), Party(two, "b"), exchange, layer).masked(zeros)
        assert np.array_equal(nodes["b"].stream(Party(two, "b"), Party(one, "a"), exchange, layer).masked(zeros), -mask)
        seen.add(tuple(mask.tolist()))
    assert len(seen) == len(uses)
    assert PairwiseMasks().public_key != nodes["a"].public_key


@pytest.mark.parametrize("key", [b"", b"short", bytes(32)])
def test_what_is_no_public_key_is_refused(key: bytes) -> None:
    masks = PairwiseMasks()
    with pytest.raises(RunError, match="what node b sent is no public key"):
        masks.agree({"a": masks.public_key, "b": key})


@pytest.mark.parametrize("value", [float("nan"), -float("inf"), 1e12])
def test_numbers_that_cannot_be_added_up_are_refused_before_training(value: float, tmp_path: Path) -> None:
    made = rig()
    made.layers[2].register_buffer("kept", torch.tensor([value], dtype=torch.float64))
    with pytest.raises(RunError, match=re.escape(f"has the magnitude {abs(value):g} after 1 samples; secure")):
        Forest(made, masked_four(), world(**NODES), tmp_path).trained(epochs=1)
    assert not (tmp_path / "metrics.jsonl").exists() or not lines(tmp_path / "metrics.jsonl")


def test_numbers_that_grow_beyond_what_can_be_added_up_end_the_run(tmp_path: Path) -> None:
    made = rig()
    made.layers[2].register_buffer("kept", torch.tensor([5e10], dtype=torch.float64))
    with pytest.raises(RunError, match=re.escape("has the magnitude 5e+10 after ")):
        Forest(made, masked_four(), world(**NODES), tmp_path).trained(epochs=1)
    assert lines(tmp_path / "metrics.jsonl")


class Asked(LocalWorkerSide):
    """Is asked for its weights before each call after a forward: buffers have changed by then."""

    refused = 0

    def actions(self, number: int, program: Program) -> Actions:
        made = super().actions(number, program)
        if isinstance(made, TrainingActions):
            made.call = self._asking(made.call)  # type: ignore[method-assign]
        return made

    def _asking(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(operation: ProgramOperation, values: Values, iteration: int) -> Any:
            if operation.op in ("backward", "update"):
                with pytest.raises(RunError, match="secure aggregation does not tell them"):
                    self.state((1,))
                Asked.refused += 1
            return plain(operation, values, iteration)

        return call


def test_the_weights_of_one_node_are_not_told_between_exchanges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(launch.WORKER_SIDES, "epoch", Asked)
    monkeypatch.setattr(Asked, "refused", 0)
    outcome, _ = Forest(rig(norm=True), masked_four(), world(**NODES), tmp_path).trained(epochs=2)
    assert outcome.ended == "done"
    assert Asked.refused > 2 * 2 * 4


def test_a_worker_without_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of an earlier version ignores what it does not know, and would send its weights as they are."""
    ready = launch.one_from_each

    def earlier(*arguments: Any) -> Any:
        return {node: replace(event, key=b"") if node == "b" else event for node, event in ready(*arguments).items()}

    monkeypatch.setattr(launch, "one_from_each", earlier)
    with pytest.raises(RunError, match="node b: its worker's version of palmette has no secure aggregation"):
        Forest(rig(), masked_four(), world(**NODES), tmp_path).trained(epochs=1)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sync": "step", "server": None}, "secure_aggregation: true: expected none under step"),
        ({"sync": "every", "every": 3}, "secure_aggregation: true: expected none under every"),
        ({"sync": "async"}, "secure_aggregation: true: expected none under async"),
        ({"exchange": {"codec": "int8"}}, "int8: expected none with secure_aggregation"),
        ({"clients": 2}, "clients: 2: expected all of them with secure_aggregation"),
        ({"server": "c"}, None),
        ({"secure_aggregation": "yes"}, "secure_aggregation"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], named: str | None) -> None:
    fields = masked_four().model_dump() | changes
    if named is None:
        validated(Phase, fields)
        return
    with pytest.raises(InputError, match=named):
        validated(Phase, fields)


@pytest.mark.parametrize("server", ["a", "b"])
def test_a_server_beside_one_other_node_is_refused(server: str) -> None:
    """It would subtract its own weights from the sum."""
    fields = masked_four().model_dump()
    two = {"a": "a", "b": "b", "c": "a", "d": "b"}
    fields["instances"] = [each | {"node": two[each["node"]]} for each in fields["instances"]]
    with pytest.raises(InputError, match=f"{server} would learn the weights of {'ba'['ab'.index(server)]} in layer 1"):
        validated(Phase, fields | {"server": server})


def test_a_file_says_it_only_where_it_is_so() -> None:
    assert masked_four().model_dump()["secure_aggregation"] is True
    assert "secure_aggregation" not in four().model_dump()
