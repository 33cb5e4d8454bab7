"""Tables of numbers: what is a header, what are classes, and which line is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palmette.zoo.data import load_data
from tests.zoo.data.in_files import answers_or_refuses, fault_of, require_equal_anywhere, splits_of

ROWS = [f"{k},{k / 2},-{k}e-1,{k % 3}" for k in range(40)]


def write(folder: Path, *rows: str, encoding: str = "utf-8") -> str:
    (folder / "table.csv").write_text("\n".join(rows) + "\n", encoding=encoding)
    return f"csv:{folder}/table.csv"


def all_of(name: str, shape: tuple[int, ...] = (3,)) -> dict[float, tuple[list[float], float]]:
    """Every sample by its first number."""
    found = {}
    for split in splits_of(name, shape):
        inputs, targets = split.batch(range(len(split)))
        for row, target in zip(inputs.flatten(1).tolist(), targets.tolist(), strict=True):
            found[row[0]] = (row, target)
    return found


def test_the_last_column_is_the_target_and_a_tenth_is_held_out(tmp_path: Path) -> None:
    name = write(tmp_path, *ROWS)
    data = load_data(name, (3,))
    assert (len(data.train), len(data.held_out), data.classes) == (36, 4, 3)
    assert data.train.sample_bytes == 12
    expected = {k: (pytest.approx(torch.tensor([k, k / 2, -k / 10]).tolist()), k % 3) for k in range(40)}  # in float32
    assert all_of(name) == expected
    assert data.train.labels(range(36)).dtype == torch.int64


@pytest.mark.parametrize("shape", [(3,), (1, 3), (3, 1, 1)])
def test_a_row_is_the_same_in_every_batch_and_place(tmp_path: Path, shape: tuple[int, ...]) -> None:
    for split in splits_of(write(tmp_path, *ROWS), shape):
        require_equal_anywhere(split, shape)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_header_is_no_row(tmp_path: Path, encoding: str) -> None:
    assert len(all_of(write(tmp_path, "a,b,c,class", *ROWS, encoding=encoding))) == 40
    assert len(all_of(write(tmp_path, "", "a, b ,c,0", *ROWS, " , , , ", encoding=encoding))) == 40


@pytest.mark.parametrize("target", ["b", "2", "b%20b"])
def test_the_target_is_the_column_that_is_named(tmp_path: Path, target: str) -> None:
    titles = f"a,{target.replace('%20', ' ')},c,d" if target != "2" else "a,b,c,d"
    name = write(tmp_path, titles, *ROWS)
    assert all_of(f"{name}?target={target}")[5] == (pytest.approx([5, -0.5, 2]), 2.5)


def test_columns_have_numbers_where_there_is_no_header(tmp_path: Path) -> None:
    found = all_of(f"{write(tmp_path, *ROWS)}?target=1")
    assert found[2.5] == (pytest.approx([2.5, -0.5, 2]), 5)


def test_words_are_classes_in_the_order_of_the_alphabet(tmp_path: Path) -> None:
    words = ["pear", "apple", "fig"]
    name = write(tmp_path, "a,b,kind", *(f"{k},0,{words[k % 3]}" for k in range(30)))
    assert load_data(name, (2,)).classes == 3
    assert [all_of(name, (2,))[k][1] for k in range(3)] == [2, 0, 1]


@pytest.mark.parametrize("kind", ["{}.5", "-{}", "{}.0", "{}e1"])
def test_other_numbers_are_to_be_predicted(tmp_path: Path, kind: str) -> None:
    name = write(tmp_path, *(f"{k},0,{kind.format(k)}" for k in range(30)))
    train, _ = splits_of(name, (2,))
    assert load_data(name, (2,)).classes is None
    assert (train.labels([0, 1]).dtype, train.labels([0, 1]).shape) == (torch.float32, (2,))
    assert all_of(name, (2,))[7][1] == float(kind.format(7))
    require_equal_anywhere(train, (2,))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1,2,3", "table.csv:41: data: 3 columns: expected 4, as in the first line"),
        ("1,2,3,4,5", "table.csv:41: data: 5 columns: expected 4, as in the first line"),
        ("1,two,3,4", "table.csv:41: data: two: expected a number"),
        ("1,nan,3,4", "table.csv:41: data: nan: expected a number"),
        ("1,,3,4", "table.csv:41: data: '': expected a number"),
        ("1,1e39,3,4", "table.csv:41: data: 1e39: expected a number"),
        ("1,-inf,3,4", "table.csv:41: data: -inf: expected a number"),
        ("1,1_0,3,4", "table.csv:41: data: 1_0: expected a number"),
        ("1,2,3,NaN", "table.csv:41: data: NaN: expected a number, as other targets are"),
        ("1,2,3,", "table.csv:41: data: '': expected a number, as other targets are"),
        ("1,2,3,cat", "table.csv:41: data: cat: expected a number, as other targets are"),
        ("1,2,3,99999999999", "table.csv:41: data: 99999999999: expected a class below 2147483648, or numbers with"),
        ('1,2,3,"4', "table.csv:41: data: no text: unexpected end of data; expected comma-separated values"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, expected: str) -> None:
    assert expected in fault_of(write(tmp_path, *ROWS, line), (3,))


def test_a_first_line_of_numbers_and_words_is_wrong_and_not_a_header(tmp_path: Path) -> None:
    assert "table.csv:1: data: x: expected a number" in fault_of(write(tmp_path, "1,x,3,4", *ROWS), (3,))


def test_a_missing_word_is_named(tmp_path: Path) -> None:
    name = write(tmp_path, *(f"{k},0,{'' if k == 8 else 'fig'}" for k in range(30)))
    assert "table.csv:9: data: '': expected a target" in fault_of(name, (2,))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], "table.csv: data: is empty: expected columns of numbers and a target, with commas between them"),
        (["1;2;3"] * 20, "table.csv: data: has one column: expected columns of numbers and a target, with commas"),
        (["a,b,c,d"], "table.csv: data: no rows: expected rows of numbers below the header"),
        (ROWS[:9], "has 9 samples; expected 10, to hold one out"),
        (["1,2,3"] * 20, "has 2 columns beside its target; the network takes 3"),
    ],
)
def test_a_table_that_cannot_be_used_says_why(tmp_path: Path, rows: list[str], expected: str) -> None:
    assert expected in fault_of(write(tmp_path, *rows), (3,))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("?target=clas", "target=clas: no such column; did you mean class?"),
        ("?target=0", "target=0: no such column; expected one of a, b, c, class"),
        ("?target=5", "target=5: no such column; expected one of a, b, c, class"),
        ("?targt=a", "targt: no such option; did you mean target?"),
        ("?target=a&target=b", "target: expected only once"),
        ("?target=", "target: expected a value, as in target=…"),
        ("?", "'': no such option; expected one of target"),
    ],
)
def test_a_wrong_option_gets_the_nearest_right_one(tmp_path: Path, options: str, expected: str) -> None:
    assert expected in fault_of(write(tmp_path, "a,b,c,class", *ROWS) + options, (3,))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert fault_of("csv:", (3,)) == "data: csv:: expected a file behind the colon"
    assert fault_of(f"csv:{tmp_path}/no.csv", (3,)) == f"{tmp_path}/no.csv: data: no such file: expected a file"
    assert fault_of(f"csv:{tmp_path}", (3,)) == f"{tmp_path}: data: a folder: expected a file"
    assert "no such file: " in fault_of(f"csv:~nobody-{'x' * 9}/a.csv", (3,))
    assert "no such file: " in fault_of("csv:" + "x" * 5000, (3,))
    assert "no such file: " in fault_of("csv:a\0b", (3,))


def test_other_texts_are_refused(tmp_path: Path) -> None:
    name = write(tmp_path, *ROWS, "1,2,3,ä", encoding="latin-1")
    assert "codec can't decode" in fault_of(name, (3,))


cells = st.sampled_from(
    ["0", "1", "2.5", "-3", "1e400", "nan", "", " ", "a", '"', '""', "\0", "\r", "\ud800", "٣", "1_0"]
)
tables = st.lists(st.lists(cells, max_size=4).map(",".join), max_size=14).map("\n".join)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=tables | st.text(max_size=60), many=st.integers(0, 12), target=st.sampled_from(["", "?target=1", "?target=a"])
)
def test_any_text_is_answered_or_refused(tmp_path: Path, text: str, many: int, target: str) -> None:
    whole = text + "\n" + "1,2\n" * many
    (tmp_path / "table.csv").write_bytes(whole.encode("utf-8", "surrogatepass"))
    answers_or_refuses(f"csv:{tmp_path}/table.csv{target and f'?target={target}'}", (1,))
