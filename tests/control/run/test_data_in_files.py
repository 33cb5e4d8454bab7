"""Runs on data in files: samples travel as they lie on the disk, and the weights are those of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.cli import execute
from palmette.runtime.options import Options
from palmette.zoo.data import load_data
from palmette.zoo.models import load_network
from tests.cost.small import instance, phase, source
from tests.runtime.rig import off
from tests.runtime.world import TINY, Runs, alone, lines, weights
from tests.zoo.data.pictures import write_pictures

LENET = "lenet5?size=32&classes=3"
LAST = len(load_network(LENET).layers)
UPHILL = phase(
    source("phone", 6, "S"),
    source("server", 4, "C"),
    instance("S", 1, 2, "server", "R"),
    instance("C", 1, 2, "cloud", "R"),
    instance("R", 3, LAST, "cloud"),
)


def test_pictures_travel_as_files_and_train_as_in_one_process(runs: Runs) -> None:
    pytest.importorskip("PIL")
    name = write_pictures(runs.folder / "pets", "cat", "dog", "emu", many=8)
    out = runs.folder / "out"
    assert execute([*runs.arguments(LENET, UPHILL), *options(name), "-o", str(out)]) == 0
    expected = alone(LENET, 10, 4, Options(dtype="float64", lr=0.05), data=name)[1]
    assert off(weights(out), expected) < 1e-10
    sizes = [len(file) for file in load_data(name, (3, 32, 32)).train.stored(range(22))]
    assert 6 * min(sizes) < sent_by_phone(out) / 4 < 6 * (max(sizes) + 16)  # with the files' sizes


def test_a_private_owner_names_a_folder_of_its_own(runs: Runs) -> None:
    pytest.importorskip("PIL")
    name = write_pictures(runs.folder / "pets", "cat", "dog", "emu", many=8)
    text = runs.cluster.read_text().replace("samples: 1500}", f'samples: 20, private: true, data: "{name}"}}')
    runs.cluster.write_text(text)
    tree = phase(source("phone", 6, "P"), instance("P", 1, 2, "phone", "R"), instance("R", 3, LAST, "cloud"))
    out = runs.folder / "out"
    arguments = [*runs.arguments(LENET, tree), "--iterations", "3", "--dtype", "float64", "--lr", "0.05", "--quiet"]
    assert execute([*arguments, "-o", str(out)]) == 0
    assert off(weights(out), alone(LENET, 6, 3, Options(dtype="float64", lr=0.05), data=name)[1]) < 1e-10


def test_a_table_with_classes_trains_as_in_one_process(runs: Runs) -> None:
    rows = [",".join(str((k * j) % 17 - 8) for j in range(64)) + f",{k % 10}" for k in range(60)]
    (runs.folder / "table.csv").write_text("\n".join(rows))
    name = f"csv:{runs.folder}/table.csv"
    tree = phase(source("phone", 10, "front"), instance("front", 1, 2, "server", "R"), instance("R", 3, 5, "cloud"))
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, tree), *options(name), "-o", str(out)]) == 0
    assert off(weights(out), alone(TINY, 10, 4, Options(dtype="float64", lr=0.05), data=name)[1]) < 1e-10


def test_a_broken_picture_ends_a_run_before_it_starts(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL")
    name = write_pictures(runs.folder / "pets", "cat", "dog", "emu", many=8)
    broken = runs.folder / "pets" / "cat" / "3.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    assert execute([*runs.arguments(LENET, UPHILL), *options(name), "-o", str(runs.folder / "out")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert str(broken) in line
    assert "cannot be read as an image" in line


def options(data: str) -> list[str]:
    return ["--data", data, "--iterations", "4", "--dtype", "float64", "--lr", "0.05", "--quiet"]


def sent_by_phone(out: Path) -> int:
    """Bytes that the phone sends in all."""
    trace = lines(out / "trace.jsonl")
    return sum(line["bytes"] for line in trace if (line["op"], line["node"]) == ("send", "phone"))
