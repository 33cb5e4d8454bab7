"""Arrow data sets on disk: images travel compressed, numbers in their own dtype."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palmette.zoo.data import arrow, load_data
from palmette.zoo.data.compressed import CompressedImageDecoder
from tests.zoo.data.in_files import answers_or_refuses, fault_of, require_equal_anywhere, splits_of
from tests.zoo.data.pictures import encoded

ROWS = 20
LABELS = [k % 3 for k in range(ROWS)]


def test_without_the_library_one_line_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow.importlib.util, "find_spec", lambda _: None)
    assert fault_of(f"hf:{tmp_path}", (3,)).endswith("datasets is not installed; expected pip install 'palmette[hf]'")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert fault_of(f"hf:{tmp_path}/no", (3,)) == f"{tmp_path}/no: data: no such folder: expected a folder"


@pytest.fixture
def library() -> Any:
    """The library itself, without its progress bars."""
    found = pytest.importorskip("datasets")
    found.disable_progress_bars()
    return found


@pytest.fixture
def save(library: Any, tmp_path: Path) -> Any:
    """Writes columns to the disk; returns the name of the data."""

    def written(features: Any = None, **columns: Any) -> str:
        made = library.Dataset.from_dict(columns, features=features and library.Features(features))
        made.save_to_disk(tmp_path / "saved")
        return f"hf:{tmp_path}/saved"

    return written


def pictures() -> list[dict[str, Any]]:
    return [{"bytes": encoded(k, ("png", "jpg")[k % 2], (9 + k, 8)), "path": None} for k in range(ROWS)]


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 5, 7)])
def test_images_travel_as_they_were_compressed(library: Any, save: Any, shape: tuple[int, ...]) -> None:
    name = save(
        {"image": library.Image(), "label": library.ClassLabel(names=list("abcd"))}, image=pictures(), label=LABELS
    )
    data = load_data(name, shape)
    assert (len(data.train), len(data.held_out), data.classes) == (18, 2, 4)
    train, held_out = splits_of(name, shape)
    kept = [pictures()[number]["bytes"] for number in train.numbers]  # type: ignore[attr-defined]
    assert train.stored(range(18)) == kept
    assert train.sample_bytes == pytest.approx(sum(map(len, kept)) / 18)
    assert torch.equal(train.batch([3])[0], CompressedImageDecoder(shape).decode([kept[3]]))
    for split in (train, held_out):
        require_equal_anywhere(split, shape)
        assert split.labels(range(len(split))).tolist() == [k % 3 for k in split.numbers]  # type: ignore[attr-defined]


def test_images_may_have_been_files(library: Any, save: Any, tmp_path: Path) -> None:
    for k in range(ROWS):
        (tmp_path / f"{k}.png").write_bytes(encoded(k))
    paths = [{"bytes": None, "path": str(tmp_path / f"{k}.png")} for k in range(ROWS)]
    name = save({"image": library.Image(), "label": library.Value("int64")}, image=paths, label=LABELS)
    train, _ = splits_of(name, (3, 8, 8))
    assert train.stored([0]) == [encoded(train.numbers[0])]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("dtype", "stored", "decoded"),
    [
        ("uint8", 1, torch.int64),
        ("int16", 2, torch.int64),
        ("uint16", 2, torch.int64),
        ("int32", 4, torch.int64),
        ("uint32", 8, torch.int64),
        ("int64", 8, torch.int64),
        ("float32", 4, torch.float32),
        ("float64", 4, torch.float32),
    ],
)
def test_numbers_travel_in_their_own_type(
    library: Any, save: Any, dtype: str, stored: int, decoded: torch.dtype
) -> None:
    values = np.random.default_rng(0).integers(0, 120, (ROWS, 2, 3)).astype(dtype)
    features = {"pixel_values": library.Array2D((2, 3), dtype), "label": library.Value("int32")}
    train, _ = splits_of(save(features, pixel_values=values, label=LABELS), (2, 3))
    assert train.sample_bytes == 6 * stored
    assert train.batch([1])[0].dtype == decoded
    assert train.batch([1])[0][0].tolist() == values[train.numbers[1]].tolist()  # type: ignore[attr-defined]
    require_equal_anywhere(train, (2, 3))


def test_token_ids_with_a_target_for_each(save: Any) -> None:
    ids = np.arange(ROWS * 5).reshape(ROWS, 5)
    name = save(None, input_ids=ids.tolist(), attention_mask=(ids * 0 + 1).tolist(), labels=(ids + 1).tolist())
    train, _ = splits_of(name, (5,))
    inputs, targets = train.batch(range(18))
    assert torch.equal(targets, inputs + 1)
    assert targets.dtype == torch.int64
    assert load_data(name, (5,)).classes is None
    require_equal_anywhere(train, (5,))


def test_a_label_with_a_fraction_is_to_be_predicted(save: Any) -> None:
    name = save(None, anything=np.ones((ROWS, 4)).tolist(), label=[k / 2 for k in range(ROWS)])
    train, _ = splits_of(name, (4,))
    assert train.labels([0, 1]).tolist() == [k / 2 for k in train.numbers[:2]]  # type: ignore[attr-defined]
    assert train.labels([0]).dtype == torch.float32
    assert load_data(name, (4,)).classes is None


@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_part_beside_train_is_held_out(library: Any, tmp_path: Path, part: str) -> None:
    made = library.Dataset.from_dict({"x": np.ones((ROWS, 4)).tolist(), "label": LABELS})
    library.DatasetDict({"train": made, part: made.select(range(3))}).save_to_disk(tmp_path / "saved")
    data = load_data(f"hf:{tmp_path}/saved", (4,))
    assert (len(data.train), len(data.held_out), data.classes) == (ROWS, 3, 3)
    library.DatasetDict({"one": made}).save_to_disk(tmp_path / "other")
    assert "other: data: has one: expected a part named train" in fault_of(f"hf:{tmp_path}/other", (4,))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"x": [[1, 2]] * 20}, ": has the columns x; expected one named label or labels"),
        ({"label": LABELS}, ": has the columns of its target alone; expected one of them to be named image, img"),
        ({"a": [[1]] * 20, "b": [[1]] * 20, "label": LABELS}, ": has the columns a and b; expected one of them to be"),
        ({"text": ["word"] * 20, "label": LABELS}, ": its column text holds string; expected numbers, or images"),
        ({"x": [[1, 2]] * 20, "label": ["a"] * 20}, ": its column label holds string; expected numbers"),
        ({"x": [[1, 2]] * 20, "label": [0, None] * 10}, "[1]: data: no label: expected one in every row"),
        ({"x": [[1, 2]] * 20, "label": [0.5, float("nan")] * 10}, "[1]: data: no label: expected one in every row"),
        ({"x": [[1, 2]] * 20, "label": [0, -1] * 10}, "[1]: data: label -1: expected a class of 0 or more"),
        ({"x": [[1, 2, 3]] * 20, "label": LABELS}, "[0]: data: x of 3: expected 2"),
        ({"x": [[1, 2]] * 19 + [[1]], "label": LABELS}, "[19]: data: x of 1: expected 2"),
        ({"x": [[0.5, None]] * 20, "label": LABELS}, "[0]: data: x: expected an array of numbers"),
        ({"x": [[1, 2]] * 9, "label": LABELS[:9]}, ": has 9 samples; expected 10, to hold one out"),
    ],
)
def test_what_cannot_be_used_says_why(save: Any, columns: dict[str, Any], expected: str) -> None:
    name = save(None, **columns)
    assert expected in fault_of(name, (2,))


def test_a_broken_image_is_named_by_its_row(library: Any, save: Any) -> None:
    features = {"image": library.Image(), "label": library.Value("int64")}
    broken = pictures()
    broken[7] = {"bytes": encoded(1)[:100], "path": None}
    name = save(features, image=broken, label=LABELS)
    assert fault_of(name, (3, 8, 8)).startswith(f"{name}[7]: data: 100 bytes: cannot be read as an image")
    broken[7] = None  # type: ignore[call-overload]
    missing = f"{name}[7]: data: no image: expected one in every row"
    assert fault_of(save(features, image=broken, label=LABELS), (3, 8, 8)) == missing


@pytest.mark.usefixtures("library")
def test_other_folders_are_refused(tmp_path: Path) -> None:
    assert f"{tmp_path}: data: cannot be read: FileNotFoundError: " in fault_of(f"hf:{tmp_path}", (3,))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spoilt=st.tuples(st.integers(1, 2), st.integers(0, 3000), st.binary(max_size=6), st.integers(0, 500)))
def test_any_description_is_answered_or_refused(save: Any, tmp_path: Path, spoilt: tuple[int, int, bytes, int]) -> None:
    """The file of rows itself is read by pyarrow, which a damaged one may crash."""
    file, at, by, cut = spoilt
    name = save(None, x=np.ones((ROWS, 2)).tolist(), label=LABELS)
    chosen = sorted((tmp_path / "saved").iterdir())[file]
    whole = BytesIO(chosen.read_bytes())
    whole.seek(at % (len(whole.getvalue()) + 1))
    whole.write(by)
    chosen.write_bytes(whole.getvalue()[: max(0, len(whole.getvalue()) - cut * (cut % 3 == 0))])
    answers_or_refuses(name, (2,))
