"""A CSV as a header and rows that know their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.errors import InputError
from palmette.measure.csv_table import read_csv


def test_names_in_small_letters_rows_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('\ufeffTime , "Power"\r\n1, 2\r\n\r\n , \r\n3,"4\n5"\r\n', newline="")
    assert read_csv(str(file)) == (["time", "power"], [(2, ["1", "2"]), (6, ["3", "4\n5"])])


def test_what_is_no_csv(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("a\n" + "1" * 200_000)
    with pytest.raises(InputError, match="line 2: the row: cannot be parsed: field larger"):
        read_csv(str(file))
