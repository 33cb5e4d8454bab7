from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.control.ray_cluster import RayCluster
from tests.runtime.world import ROOT, Runs


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """One Ray cluster for all tests that need one; they run in one process (``xdist_group``)."""
    with RayCluster() as made:
        yield made


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Files for runs; what runs leave in the folder for temporary files can be seen in ``temporary``."""
    monkeypatch.chdir(ROOT)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Runs(tmp_path)
    torch.set_num_threads(before)
