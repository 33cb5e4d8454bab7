"""A worker computes with the threads of its node, and with one on a testbed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import palmette as pt
from palmette.cli import execute
from palmette.errors import InputError
from palmette.runtime.worker.tuning import available_cores, use_threads
from palmette.spec.cluster import Node
from tests.runtime.recipes import Items
from tests.runtime.world import losses

CLUSTER = """\
nodes:
  server: {tier: edge, hardware: raspberry-pi-3, threads: 3, source: {samples: 60}}
"""


def threads_as_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Torch's threads where the loss is computed."""
    return (outputs - targets) * 0 + torch.get_num_threads()


recipe = pt.Recipe(
    model=lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)),
    data=(Items(torch.rand(60, 4), torch.rand(60, 2)), Items(torch.rand(6, 4), torch.rand(6, 2))),
    loss=threads_as_loss,
)


@pytest.mark.parametrize(("testbed", "threads"), [("none", 3), ("paced", 1)])
def test_a_worker_has_the_threads_of_its_node_but_on_a_testbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, testbed: str, threads: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.yaml").write_text(CLUSTER)
    name = ["--recipe", f"{__name__}:recipe"]
    assert execute(["plan", "all-edge", *name, "--batch", "6", "--cluster", "cluster.yaml", "-o", "plan.json"]) == 0
    assert execute(["run", "plan.json", *name, "--iterations", "1", "--testbed", testbed, "--quiet"]) == 0
    assert losses(Path("run")) == [threads]


def test_a_node_on_a_host_of_its_own_uses_all_cores() -> None:
    assert Node(tier="edge").thread_count() == 1
    assert Node(tier="edge", host="local").thread_count() == 1
    assert Node(tier="edge", host="10.0.0.3").thread_count() is None
    assert Node(tier="edge").thread_count(real_host=True) is None
    assert Node(tier="edge", host="10.0.0.3", threads=2).thread_count(real_host=True) == 2


def test_all_cores_are_those_that_this_process_may_use() -> None:
    before = torch.get_num_threads()
    try:
        use_threads(None)
        assert torch.get_num_threads() == available_cores() >= 1
        use_threads(2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("written", ["0", "-1", "two", "1.5", "true"])
def test_threads_are_a_whole_number_of_one_or_more(tmp_path: Path, written: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER.replace("threads: 3", f"threads: {written}"))
    with pytest.raises(InputError, match=r"nodes\.server\.threads: ") as refused:
        pt.load_cluster(file)
    assert len(refused.value.faults) == 1
