"""Coded differences under ``every`` and ``epoch``: as one process that codes the same way, over breaks and changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from palmette.compress.codec import exchange_coder
from palmette.compress.error_feedback import DIFFERENCES, is_of_exchange, saved_memories, saved_name
from palmette.compress.kept_indices import carried
from palmette.compress.pruning import prune
from palmette.cost.operations import exchange
from palmette.cost.steps import Kind
from palmette.runtime.data.epoch_length import common_steps, tree_steps
from palmette.runtime.sync.difference_coding import SERVER, settled
from palmette.runtime.training.checkpoint import Checkpoint, last
from palmette.spec.exchange import known_exchange
from palmette.zoo.capture import NetworkLayer, state
from palmette.zoo.networks import registry
from tests.cost.small import instance, phase, source
from tests.runtime.rig import Weights, off
from tests.runtime.sync.test_epoch import ELEMENTWISE, epoch_inputs, rig, two_devices, world
from tests.runtime.sync.test_every import DILOCO, every, random_forest
from tests.runtime.test_exchange import with_shapes
from tests.runtime.trees import FedAvg, Forest, Local, LocalSgd
from tests.runtime.world import lines
from tests.thorough import mostly_thorough

CODECS = ["bf16", "int8", "topk:0.3", "lowrank:1"]


class Codes:
    """Replicas and the server code what has changed since all had the same weights, written out."""

    forest: Forest
    now: Weights
    local: dict[str, Local]
    _total: int

    def coded_average(self, done: int, average: Callable[[int], None]) -> None:
        begun = {name: value.clone() for name, value in self.now.items()}
        whole = self.forest.phase
        away = {each.id: self.local[each.id] for each in whole.instances if each.node != whole.meeting_node}
        for key, each in away.items():
            with torch.no_grad():
                for name in each.trained:
                    value = each.state()[name]
                    value.copy_(begun[name] + self.coded(key, name, value - begun[name]))
        average(done)
        for name in {name for each in away.values() for name in each.trained}:
            self.now[name] = begun[name] + self.coded(SERVER, name, self.now[name] - begun[name])

    def coded(self, owner: str, name: str, values: Tensor) -> Tensor:
        coder = exchange_coder(self.forest.phase.exchange)
        memory = self.__dict__.setdefault("memories", {}).setdefault((owner, name), {})
        wanted = values + memory.get("left", torch.zeros_like(values))
        arriving = coder.extract(coder.compress(wanted, memory), tuple(values.shape), values.dtype)
        memory["left"] = wanted - arriving
        return arriving


class CodedSgd(Codes, LocalSgd):
    """Local SGD in one process."""

    def _average(self, done: int) -> None:
        self.coded_average(done, super()._average)
        for each in self.local.values():
            each.go_on_from(self.now)


class CodedFedAvg(Codes, FedAvg):
    """Federated averaging in one process."""

    def _average(self, done: int) -> None:
        self.coded_average(done, super()._average)
        for each in self.local.values():
            each.load(self.now, done, self._total)


def coded(text: str, **more: Any) -> dict[str, Any]:
    return {"exchange": known_exchange(text).model_dump(), **more}


def assert_equal(forest: Forest, iterations: int = 12) -> None:
    expected = CodedSgd(forest).iterations(iterations, common_steps(forest.phase, *epoch_inputs(forest)))
    outcome, found = forest.trained(iterations=iterations)
    assert outcome.ended == "done"
    assert off(found, expected) <= ELEMENTWISE


@pytest.mark.parametrize("text", CODECS)
def test_replicas_equal_one_process_that_codes_the_same_way(text: str, tmp_path: Path) -> None:
    tree = two_devices(**every(4, **coded(text, outer=DILOCO, server="c")))
    assert_equal(Forest(rig(norm=True, optimizer="momentum"), tree, world(a=30, b=24, c=None), tmp_path))


def test_weights_may_be_averaged_without_an_outer_optimizer(tmp_path: Path) -> None:
    assert_equal(Forest(rig(), two_devices(**every(4, **coded("topk:0.3"))), world(a=30, b=24), tmp_path))


def test_federated_averaging_is_coded_too(tmp_path: Path) -> None:
    tree = two_devices(sync="epoch", **coded("int8", server="b"))
    forest = Forest(rig(optimizer="momentum"), tree, world(a=40, b=14), tmp_path)
    expected = CodedFedAvg(forest, tree_steps(tree, *epoch_inputs(forest))).epochs(3)
    assert off(forest.trained(epochs=3)[1], expected) <= ELEMENTWISE


@pytest.mark.parametrize("seed", mostly_thorough(range(30), 3))
def test_any_forest_equals_one_process_that_codes_the_same_way(seed: int, tmp_path: Path) -> None:
    forest = random_forest(seed, tmp_path)
    text = random.Random(seed).choice(CODECS)
    forest.phase = forest.phase.model_copy(update={"exchange": known_exchange(text)})
    assert_equal(forest, iterations=9)


def test_without_a_codec_nothing_changes(tmp_path: Path) -> None:
    found = []
    for name, more in {"x": {}, "y": coded("none")}.items():
        (tmp_path / name).mkdir()
        tree = two_devices(**every(3, outer=DILOCO, **more))
        found.append(Forest(rig(), tree, world(a=30, b=24), tmp_path / name).trained(iterations=7)[1])
    assert off(*found) == 0


@pytest.mark.parametrize("text", CODECS)
def test_a_stopped_run_goes_on_to_the_same_weights(text: str, tmp_path: Path) -> None:
    tree, known = two_devices(**every(4, **coded(text, outer=DILOCO, server="c"))), world(a=30, b=24, c=None)
    made = [Forest(rig(norm=True, optimizer="adam"), tree, known, tmp_path / name) for name in "xy"]
    for each in made:
        each.folder.mkdir()
    _, expected = made[0].trained(epochs=3)
    made[1].watch = lambda training, update: training.stop() if update.iteration == 8 else None
    outcome, _ = made[1].trained(epochs=3)
    assert outcome.ended == "stopped"
    kept = last(made[1].folder / "checkpoints").checkpoint.optimizer
    owners = {name.rpartition("/")[2].split(":")[1] for name in kept if is_of_exchange(name, DIFFERENCES)}
    assert owners == {"A", "B", SERVER}
    made[1].watch = lambda *_: None
    outcome, found = made[1].trained(resume=True, epochs=3)
    assert outcome.ended == "done"
    assert off(found, expected) == 0


def left_out(kept: Checkpoint) -> Weights:
    """What replicas and the server have left out of each weight, as large as in the mean."""
    found: Weights = {}
    for name in kept.weights:
        own = {(at, key): value for at, key, value in saved_memories(kept.optimizer, [name], DIFFERENCES)}
        for (at, key), value in own.items():
            if key == "residual":
                found[name] = found.get(name, 0) + value * (1 if at == SERVER else float(own[at, "share"]))
    return found


@pytest.mark.parametrize("more", [{}, {"sync": "epoch"}, every(3), every(3, **coded("int8"))])
def test_what_was_left_out_is_in_the_weights_that_another_plan_begins_with(
    more: dict[str, Any], tmp_path: Path
) -> None:
    """As after a node was lost, or where another sync or no codec was chosen."""
    tree = two_devices(**every(3, **coded("topk:0.2", server="c")))
    first = Forest(rig(), tree, world(a=30, b=24, c=None), tmp_path)
    first.watch = lambda training, update: training.stop() if update.iteration == 4 else None
    assert first.trained(iterations=12)[0].iterations == 6
    kept = last(tmp_path / "checkpoints").checkpoint
    missing = left_out(kept)
    assert missing
    assert all(value.abs().max() > 0 for value in missing.values())
    other = phase(source("b", 10, "Z"), instance("Z", 1, 4, "b"), **more)
    layers = Forest(first.rig, other, first.cluster, tmp_path).job(resume=True).network.layers
    weights, remaining = settled(layers, kept.optimizer, other)
    assert off(weights, {name: kept.weights[name] + missing[name] for name in weights}) <= ELEMENTWISE
    assert weights.keys() == missing.keys()
    assert remaining == {name: value for name, value in kept.optimizer.items() if not is_of_exchange(name)}

    begun: list[Weights] = []

    def note(training: Any, _: Any) -> None:
        begun.append({name: value.clone() for name, value in state(training.network.layers).items()})

    resumed = Forest(first.rig, other, first.cluster, tmp_path, watch=note)
    outcome, _ = resumed.trained(resume=True, iterations=12)
    assert outcome.ended == "done"
    assert off({name: begun[0][name] for name in weights}, weights) == 0


def test_owners_that_remain_go_on_with_what_they_left_out() -> None:
    """C is gone, B is on the server now, and A holds the first two layers only: nobody sends the others."""
    tree = phase(
        source("a", 6, "A"),
        source("b", 4, "B"),
        instance("A", 1, 2, "a", "D"),
        instance("D", 3, 4, "b"),
        instance("B", 1, 4, "b"),
        **every(3, **coded("int8", server="b")),
    )
    layers = [NetworkLayer(f"l{k}", module, (6,)) for k, module in enumerate(rig().fresh(), 1)]
    names = [name for name, _ in [*layers[0].module.named_parameters(), *layers[3].module.named_parameters()]]
    kept = {
        saved_name(name, owner, key, DIFFERENCES): value.expand(state(layers)[name].shape)
        if key == "residual"
        else value
        for name in names
        for owner in ("A", "B", "C", SERVER)
        for key, value in {"residual": torch.tensor(1.0), "share": torch.tensor(0.25)}.items()
    }
    weights, left = settled(layers, kept, tree)
    grown = {name: float((weights[name] - state(layers)[name]).mean()) for name in names}
    first, last_layer = names[:2], names[2:]
    assert grown == pytest.approx({**dict.fromkeys(first, 0.5), **dict.fromkeys(last_layer, 1.75)}, abs=1e-6)
    assert {(name.partition("/")[0] in first, name.split(":")[1]) for name in left} == {(True, "A"), (True, SERVER)}


def test_what_was_left_out_shrinks_with_the_weights_that_are_pruned() -> None:
    """What an instance and the server kept of a network is what they would have kept of the pruned one."""
    torch.manual_seed(0)
    module = registry.build("lenet5", size=32, classes=4)
    kept = {
        saved_name(name, owner, "residual", DIFFERENCES): weight.detach().clone()
        for name, weight in module.named_parameters()
        for owner in ("A", SERVER)
    }
    kept |= {saved_name(name, "A", "share", DIFFERENCES): torch.tensor(0.5) for name, _ in module.named_parameters()}
    pruned = prune(module, torch.rand(4, 3, 32, 32), 0.5)
    left = carried(kept, pruned.places)
    layers = [NetworkLayer("whole", module, (4,))]
    weights, remaining = settled(layers, left, two_devices())
    assert remaining == {}
    assert off(weights, {name: 2.5 * weight.detach() for name, weight in module.named_parameters()}) <= 1e-6


@pytest.mark.parametrize("text", ["none", *CODECS])
def test_the_clock_counts_the_bytes_that_are_exchanged(text: str, tmp_path: Path) -> None:
    made = rig()
    made.options = replace(made.options, dtype="float32")
    tree = two_devices(**every(3, **coded(text, server="c")))
    forest = Forest(made, tree, world(a=30, b=24, c=None), tmp_path)
    forest.trained(iterations=3)
    prices = with_shapes(made, forest.cluster)
    graph = exchange(tree, prices.sizes())
    expected = [size + 8 * (step.kind is Kind.PUSH) for step, size in zip(graph.steps, graph.size_bytes, strict=True)]
    sent = [line["bytes"] for line in lines(tmp_path / "trace.jsonl") if line["op"] == "send" and line["bytes"]]
    assert sorted(sent) == sorted(size for step, size in zip(graph.steps, expected, strict=True) if step.to is not None)
