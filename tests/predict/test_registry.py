"""Predictors by name: known ones, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.errors import InputError
from palmette.predict.power_law import PowerLawPredictor
from palmette.predict.registry import load_predictor


def test_a_name_gives_its_predictor() -> None:
    assert isinstance(load_predictor("power-law"), PowerLawPredictor)


def test_a_name_that_is_almost_right_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"^predictor: powerlaw: no such predictor; did you mean power-law\?$"):
        load_predictor("powerlaw")


def test_a_file_of_such_a_name_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ship").write_text("no predictor")
    with pytest.raises(InputError, match="ship: the file: cannot be read"):
        load_predictor("ship")


def test_any_other_name_is_a_file() -> None:
    with pytest.raises(InputError, match=r"mine.safetensors: the file: cannot be read"):
        load_predictor("mine.safetensors")
