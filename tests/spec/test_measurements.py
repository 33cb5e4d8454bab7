"""A table of measurements has devices with sensible figures, and says where it has not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palmette.spec.files import load
from palmette.spec.measurements import Measurements
from tests.spec.faulty import DATA, lines, plain


def test_the_example_reads() -> None:
    table = load(Measurements, DATA / "measurements.json")
    assert (table.model, table.batch, table.steps) == ("alexnet", 32, 100_000)
    assert list(table.devices) == ["desktop", "jtx2", "jtx1"]
    assert table.devices["desktop"].time_alpha == 1.0
    assert table.devices["jtx2"].power_beta == 0.9


def test_model_and_batch_may_be_left_out() -> None:
    content = plain("measurements.json")
    del content["model"], content["batch"]
    table = Measurements.model_validate(content)
    assert (table.model, table.batch) == (None, None)


def changed(field: str, to: Any) -> Any:
    content = plain("measurements.json")
    content["devices"]["jtx2"][field] = to
    return content


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("step_s", 0, "0: expected a number greater than 0"),
        ("step_s", -0.5, "-0.5: expected a number greater than 0"),
        ("step_s", 1e-300, "1e-300: expected at least 1e-09"),
        ("step_s", float("inf"), "inf: expected"),
        ("step_s", float("nan"), "nan: expected"),
        ("step_s", "fast", "fast: expected a number"),
        ("power_w", -3, "-3: expected a number greater than or equal to 0"),
        ("build_s", -1, "-1: expected a number greater than or equal to 0"),
        ("time_beta", 0, "0: expected a number greater than 0"),
    ],
)
def test_figures_out_of_their_range(tmp_path: Path, field: str, value: Any, expected: str) -> None:
    (line,) = lines(Measurements, changed(field, value), tmp_path, ".json")
    assert line.startswith(f"devices.jtx2.{field}: {expected}")


@pytest.mark.parametrize("field", ["step_s", "build_s", "power_w"])
def test_what_is_required(tmp_path: Path, field: str) -> None:
    content = plain("measurements.json")
    del content["devices"]["jtx1"][field]
    assert lines(Measurements, content, tmp_path, ".json") == [f"devices.jtx1.{field}: missing: this field is required"]


def test_no_device_at_all(tmp_path: Path) -> None:
    content = plain("measurements.json") | {"devices": {}}
    assert lines(Measurements, content, tmp_path, ".json") == ["devices: {}: expected at least 1"]


@pytest.mark.parametrize("steps", [0, -1, 2.5, None])
def test_no_steps(tmp_path: Path, steps: Any) -> None:
    (line,) = lines(Measurements, plain("measurements.json") | {"steps": steps}, tmp_path, ".json")
    assert line.startswith("steps: ")
