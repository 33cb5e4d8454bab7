"""Owners of data evaluate on the part of it that is held out, and report sums: those of one process with all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from palmette.runtime.held_out import HeldOutSums, held_out_sums, is_plausible, together
from palmette.runtime.training import owners
from palmette.runtime.training.evaluation import evaluation_of
from palmette.runtime.training.owners import evaluation_batch
from palmette.runtime.worker.commands import Evaluate, EvaluationReply
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from palmette.zoo.data import load_data
from tests.cost.small import instance, phase, source
from tests.runtime.sync.test_epoch import naming, rig, two_devices, world
from tests.runtime.trees import DATA, OTHER_DATA, Forest
from tests.runtime.world import lines

CUT = (
    source("a", 6, "A"),
    source("b", 4, "B"),
    instance("A", 1, 2, "a", "R"),
    instance("B", 1, 2, "b", "R"),
    instance("R", 3, 4, "c"),
)
TWO_CHAINS = (
    *(source("a", 6, "A"), source("b", 4, "B"), instance("A", 1, 2, "a", "C"), instance("B", 1, 4, "b")),
    instance("C", 3, 4, "c"),
)


def owned(**samples: int | None) -> Cluster:
    return naming(world(**samples), a=DATA, b=OTHER_DATA)


def evaluated(forest: Forest) -> dict[str, Any]:
    """The last evaluation of a run of two epochs, as it is written."""
    forest.trained(epochs=2, evaluates_at_owners=True)
    return [line for line in lines(forest.folder / "metrics.jsonl") if "accuracy" in line][-1]


def assert_equals_one_process(forest: Forest) -> None:
    found = evaluated(forest)
    job = forest.job(resume=True)  # with the weights in the end
    dtype = getattr(torch, job.options.dtype)
    sums = {
        node: held_out_sums(job.network, load_data(name, forest.rig.shape).held_out, job.objective, dtype)
        for node, name in (("a", DATA), ("b", OTHER_DATA))
    }
    whole = evaluation_of(together(sums.values()))
    assert (found["loss"], found["accuracy"]) == (whole.loss, whole.accuracy)
    for node, each in sums.items():
        own = evaluation_of(each)
        assert found["owners"][node] == {"samples": each.samples, "accuracy": own.accuracy, "loss": own.loss}


@pytest.mark.parametrize(
    "tree",
    [
        two_devices(),
        two_devices(overlap=True),
        two_devices(sync="every", every=3),
        two_devices(sync="epoch"),
        two_devices(sync="epoch", clients=1),
        two_devices(sync="async", server="b"),
    ],
    ids=["step", "overlap", "every", "epoch", "clients", "async"],
)
def test_owners_of_whole_networks(tree: Phase, tmp_path: Path) -> None:
    assert_equals_one_process(Forest(rig(), tree, owned(a=30, b=24), tmp_path))


@pytest.mark.parametrize(
    "tree",
    [phase(*CUT), phase(*TWO_CHAINS, sync="every", every=3), phase(*TWO_CHAINS, sync="epoch")],
    ids=["step", "every", "epoch"],
)
def test_owners_of_some_layers_get_the_others(tree: Phase, tmp_path: Path) -> None:
    assert_equals_one_process(Forest(rig(), tree, owned(a=30, b=24, c=None), tmp_path))


def test_only_sums_and_what_an_owner_lacks_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Evaluate] = []
    replies: list[EvaluationReply] = []

    def listened(crew: Any, nodes: Any, kind: Any) -> Any:
        found = known(crew, nodes, kind)
        replies.extend(found.values())
        return found

    known = owners.one_from_each
    monkeypatch.setattr(owners, "one_from_each", listened)
    monkeypatch.setattr(owners, "Evaluate", lambda *given: sent.append(Evaluate(*given)) or sent[-1])
    evaluated(Forest(rig(), two_devices(), owned(a=30, b=24), tmp_path))
    assert all(len(each.weights) < 200 for each in sent), "they have all weights"
    assert len(replies) == len(sent) == 4
    assert all(set(vars(each.sums)) == {"samples", "right", "totals"} for each in replies)


def test_a_node_with_little_memory_evaluates_few_samples_at_once_or_none(tmp_path: Path) -> None:
    fields = owned(a=30, b=24).model_dump()
    forest = Forest(rig(), two_devices(), owned(a=30, b=24), tmp_path)
    job = forest.job()
    assert evaluation_batch(job, forest.phase, "a") == 256
    weights = sum(layer.parameter_bytes for layer in job.evaluator.profile.layers)
    found = []
    for memory in (weights, 3 * weights, 1e9):
        fields["nodes"]["a"]["memory_bytes"] = memory
        job = Forest(rig(), two_devices(), validated(Cluster, fields), tmp_path).job()
        found.append(evaluation_batch(job, forest.phase, "a"))
    assert found[0] == 0
    assert 0 < found[1] < 256
    assert found[2] == 256


def test_a_node_that_cannot_is_evaluated_for(tmp_path: Path) -> None:
    fields = owned(a=30, b=24).model_dump()
    fields["nodes"]["a"]["memory_bytes"] = 1.0
    assert_equals_one_process(Forest(rig(), two_devices(), validated(Cluster, fields), tmp_path))


def test_statistics_of_batch_norm_are_those_of_the_whole_network(tmp_path: Path) -> None:
    """Each part has its own; the network's are those of the first, so that the second has to get them."""
    tree = two_devices(batch_norm="parts")
    assert_equals_one_process(Forest(rig(norm=True), tree, owned(a=30, b=24), tmp_path))


@pytest.mark.parametrize(
    ("samples", "right", "totals", "plausible"),
    [
        (4, 2, {"": (3.0, 4.0)}, True),
        (4, None, {"": (3.0, 4.0)}, True),
        (4, 5, {"": (3.0, 4.0)}, False),
        (0, 0, {"": (3.0, 4.0)}, False),
        (4, 2, {}, False),
        (4, 2, {"": (3.0, 0.0)}, False),
    ],
)
def test_sums_that_nobody_could_have_found_are_noticed(
    samples: int, right: int | None, totals: dict[str, tuple[float, float]], plausible: bool
) -> None:
    assert is_plausible(HeldOutSums(samples, right, totals)) is plausible
