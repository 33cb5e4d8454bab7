"""State that a worker has kept for an engine that did not die."""

from __future__ import annotations

from palmette.runtime.data.kept_samples import file_name
from tests.control.hub_workers import HubWorkers
from tests.runtime.world import Runs
from tests.testbed.test_namespaces import eventually

LOST, OTHER = "0123456789abcdef", "fedcba9876543210"


def test_a_worker_that_comes_back_forgets_it(runs: Runs) -> None:
    with HubWorkers(runs.folder) as place:
        own, name = place.folder_of("phone"), file_name("phone")
        folders = {each: own / f"palmette-kept-{each}-{name}" / "000012" for each in (LOST, OTHER)}
        for folder in folders.values():
            folder.mkdir(parents=True)
            (folder / "phone.weights.safetensors").write_bytes(b"weights")
        place.hub.remember_kept(LOST)
        place.start(["phone"])
        assert eventually(lambda: not folders[LOST].parent.exists(), 20)
        assert folders[OTHER].exists(), "its engine may have died"
