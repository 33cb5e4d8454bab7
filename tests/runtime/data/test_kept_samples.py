"""Files of kept samples: what is damaged or not trusted takes no room, and none grows beyond its storage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from palmette.errors import RunError
from palmette.runtime.data.kept_samples import KeptSamples, SampleStore, StorageQuota, file_name
from palmette.runtime.data.left_samples import delete_left, delete_others, ends_with_run, run_folder

RECORD = 16  # beside a sample


def sample(number: int) -> bytes:
    return random.Random(number).randbytes(number % 7 * 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node" / "owner"


def written(path: Path, numbers: range) -> None:
    kept = KeptSamples(path)
    for number in numbers:
        kept.add(number, sample(number))
    kept.close()


@pytest.mark.parametrize("damaged", [3, 17, 29])
def test_a_damaged_sample_takes_no_room_and_the_others_stay(path: Path, damaged: int) -> None:
    written(path, range(30))
    begin = sum(RECORD + len(sample(number)) for number in range(damaged)) + RECORD
    with path.open("r+b") as file:
        file.seek(begin)
        file.write(bytes(each ^ 0xFF for each in sample(damaged)))
    kept = KeptSamples(path)
    assert [number for number in range(30) if number not in kept] == [damaged]
    assert path.stat().st_size == sum(RECORD + len(sample(number)) for number in range(30) if number != damaged)
    kept.add(damaged, sample(damaged))
    assert [kept.get(number) for number in range(30)] == [sample(number) for number in range(30)]
    kept.close()
    again = KeptSamples(path)
    assert [again.get(number) for number in range(30)] == [sample(number) for number in range(30)]
    again.close()


def test_samples_that_are_not_trusted_give_their_room_back(path: Path) -> None:
    written(path, range(30))
    room = StorageQuota(path.stat().st_size)
    kept = KeptSamples(path, room)
    with pytest.raises(RunError, match=r"no room for more samples of other nodes; expected at most .* its storage"):
        kept.add(30, b"more")
    kept.keep_only(range(0, 30, 2))
    for number in range(1, 30, 2):
        assert number not in kept
        kept.add(number, sample(number)[::-1])
    assert path.stat().st_size == room.most_bytes
    assert [kept.get(number) for number in range(30)] == [sample(n)[:: -1 if n % 2 else 1] for n in range(30)]
    kept.close()


def test_the_storage_of_a_node_is_for_all_owners_together(tmp_path: Path) -> None:
    store = SampleStore(tmp_path / "node", 2 * (RECORD + 10))
    store.of("a").add(0, bytes(10))
    store.of("b").add(0, bytes(10))
    with pytest.raises(RunError, match="no room"):
        store.of("b").add(1, b"")
    store.close()


def test_what_other_runs_have_left_is_deleted_unless_a_worker_uses_it(tmp_path: Path) -> None:
    mine, used, left, of_another = (run_folder(tmp_path, run) for run in ("mine", "used", "left", "left"))
    for run, node in ((mine, "cloud"), (left, "cloud"), (of_another, "server")):
        KeptSamples(run / file_name(node) / file_name("phone")).close()
    working = KeptSamples(used / file_name("cloud") / file_name("phone"))
    delete_others(mine / file_name("cloud"), "cloud")
    found = {(each.parent.name, each.name.partition("-")[0]) for each in tmp_path.glob("*/*")}
    assert found == {(mine.name, "cloud"), (used.name, "cloud"), (left.name, "server")}
    working.close()
    for node in ("cloud", "server"):
        delete_left(tmp_path, node)
    assert not any(tmp_path.iterdir())


def test_a_folder_that_a_person_has_named_is_no_runs(tmp_path: Path) -> None:
    left = run_folder(tmp_path, "left") / file_name("cloud")
    KeptSamples(left / file_name("phone")).close()
    named = tmp_path / "mine" / file_name("cloud")
    delete_others(named, "cloud")
    assert (ends_with_run(left), ends_with_run(named), left.exists()) == (True, False, True)
