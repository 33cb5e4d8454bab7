"""Images in a folder for each class: they travel as files and arrive as the network takes them."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palmette.errors import InputError
from palmette.zoo.data import compressed, folder, load_data
from palmette.zoo.data.compressed import CompressedImageDecoder
from tests.zoo.data.in_files import answers_or_refuses, fault_of, require_equal_anywhere, splits_of
from tests.zoo.data.pictures import encoded, write_pictures

Image = pytest.importorskip("PIL.Image")

SHAPE = (3, 8, 8)


def test_classes_are_folders_in_the_order_of_their_names(tmp_path: Path) -> None:
    data = load_data(write_pictures(tmp_path, "dog", "cat", "Bird"), SHAPE)
    assert (len(data.train), len(data.held_out), data.classes) == (17, 1, 3)
    train, held_out = splits_of(f"folder:{tmp_path}", SHAPE)
    for split in (train, held_out):
        names = [Path(file).parent.name for file in split.files]  # type: ignore[attr-defined]
        assert split.labels(range(len(split))).tolist() == [["Bird", "cat", "dog"].index(name) for name in names]


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 28, 28), (3, 5, 7), (1, 9, 12)])
def test_an_image_is_the_same_in_every_batch_and_place(tmp_path: Path, shape: tuple[int, ...]) -> None:
    for split in splits_of(write_pictures(tmp_path, "cat", "dog", many=10), shape):
        require_equal_anywhere(split, shape)
        assert split.batch([0])[0].dtype == torch.float32


def test_what_travels_are_the_files_themselves(tmp_path: Path) -> None:
    train, _ = splits_of(write_pictures(tmp_path, "cat", "dog"), SHAPE)
    files = [Path(file).read_bytes() for file in train.files]  # type: ignore[attr-defined]
    assert train.stored(range(len(train))) == files
    assert train.sample_bytes == pytest.approx(sum(map(len, files)) / len(files))
    assert not train.stores_labels


def test_pixels_are_normalised_by_known_constants(tmp_path: Path) -> None:
    write_pictures(tmp_path, "cat", many=10, endings=("png",))
    (tmp_path / "cat" / "0.png").write_bytes(encoded(3, "png", (8, 8)))
    train, held_out = splits_of(f"folder:{tmp_path}", SHAPE)
    data = encoded(3, "png", (8, 8))
    pixels = np.asarray(Image.open(BytesIO(data))).transpose(2, 0, 1) / 255
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).reshape(2, 3, 1, 1)
    assert train.decoder.decode([data])[0].numpy() == pytest.approx((pixels - mean) / deviation, abs=1e-5)
    grey = np.asarray(Image.open(BytesIO(data)).convert("L")) / 255
    found = CompressedImageDecoder((1, 8, 8)).decode([data])[0, 0].numpy()
    assert found == pytest.approx((grey - 0.449) / 0.226, abs=1e-5)
    assert len(train) + len(held_out) == 10


@pytest.mark.parametrize("part", ["val", "valid", "test"])
def test_a_part_beside_train_is_held_out(tmp_path: Path, part: str) -> None:
    write_pictures(tmp_path / "train", "cat", "dog", many=4)
    write_pictures(tmp_path / part, "dog", many=3)
    data = load_data(f"folder:{tmp_path}", SHAPE)
    assert (len(data.train), len(data.held_out), data.classes) == (8, 3, 2)
    assert data.held_out.labels(range(3)).tolist() == [1, 1, 1]


def test_validation_is_preferred_to_the_final_test(tmp_path: Path) -> None:
    for part, many in (("train", 4), ("test", 3), ("val", 2)):
        write_pictures(tmp_path / part, "cat", many=many)
    assert len(load_data(f"folder:{tmp_path}", SHAPE).held_out) == 2


def test_a_train_folder_alone_holds_the_classes(tmp_path: Path) -> None:
    write_pictures(tmp_path / "train", "cat", "dog", many=10)
    data = load_data(f"folder:{tmp_path}", SHAPE)
    assert (len(data.train), len(data.held_out), data.classes) == (18, 2, 2)


def test_a_train_among_other_vehicles_is_a_class(tmp_path: Path) -> None:
    assert load_data(write_pictures(tmp_path, "bus", "train", "tram"), SHAPE).classes == 3


def test_images_may_lie_deeper_and_beside_other_files(tmp_path: Path) -> None:
    write_pictures(tmp_path, "cat", "dog/puppies", many=10)
    (tmp_path / ".cache").mkdir()
    (tmp_path / "readme.md").write_text("cats and dogs")
    (tmp_path / "cat" / "notes.txt").write_text("none")
    (tmp_path / "cat" / "._0.png").write_text("none")
    data = load_data(f"folder:{tmp_path}", SHAPE)
    assert (len(data.train) + len(data.held_out), data.classes) == (20, 2)


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "RGBA", "LA", "I;16"])
@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 8, 8)])
def test_colours_of_every_kind_become_the_networks(mode: str, shape: tuple[int, ...]) -> None:
    data = encoded(1, "png", mode="L" if mode == "I;16" else mode)
    if mode == "I;16":
        file = BytesIO()
        Image.fromarray(np.asarray(Image.open(BytesIO(data))).astype(np.uint16) * 257).save(file, "png")
        found, data = encoded(1, "png", mode="L"), file.getvalue()
        assert torch.equal(*(CompressedImageDecoder(shape).decode([each]) for each in (found, data)))
    assert CompressedImageDecoder(shape).decode([data]).shape == (1, *shape)


def test_transparent_colours_of_a_palette_are_read_without_a_warning() -> None:
    file = BytesIO()
    image = Image.fromarray(np.zeros((9, 9, 3), np.uint8)).convert("P")
    image.save(file, "png", transparency=bytes([0, 128]))
    assert CompressedImageDecoder(SHAPE).decode([file.getvalue()]).shape == (1, *SHAPE)


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "bmp", "gif", "tif", "ppm"])
def test_a_broken_image_is_named_before_anything_starts(tmp_path: Path, ending: str) -> None:
    write_pictures(tmp_path, "cat", "dog", many=5, endings=(ending,))
    broken = tmp_path / "cat" / f"3.{ending}"
    whole = broken.read_bytes()
    for data in (whole[: len(whole) // 2], b"", b"no image at all"):
        broken.write_bytes(data)
        told = fault_of(f"folder:{tmp_path}", SHAPE)
        assert told.startswith(f"{broken}: data: {len(data)} bytes: cannot be read as an image")
        assert "0x" not in told


def test_an_image_that_breaks_later_is_named_when_it_is_sent(tmp_path: Path) -> None:
    train, _ = splits_of(write_pictures(tmp_path, "cat", "dog"), SHAPE)
    broken = Path(train.files[2])  # type: ignore[attr-defined]
    broken.write_bytes(b"x")
    for fetch in (train.stored, train.batch):
        with pytest.raises(InputError, match=f"{broken}: data: 1 bytes: cannot be read as an image"):
            fetch([2])
    broken.unlink()
    with pytest.raises(InputError, match=f"{broken}: data: cannot be read: No such file"):
        train.stored([2])
    with pytest.raises(InputError, match="a stored sample: data: 1 bytes: cannot be read as an image"):
        train.decoder.decode([b"x"])


def test_of_very_many_images_some_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "CHECKED_IMAGES", 2)
    write_pictures(tmp_path, "cat", "dog", many=10)
    train, _ = splits_of(f"folder:{tmp_path}", SHAPE)
    Path(train.files[5]).write_bytes(b"x")  # type: ignore[attr-defined]
    assert len(load_data(f"folder:{tmp_path}", SHAPE).train) == 18


def test_folders_without_classes_or_images_are_named(tmp_path: Path) -> None:
    name = f"folder:{tmp_path}"
    assert fault_of(name, SHAPE) == f"{tmp_path}: data: no classes: expected a folder for each class, with its images"
    write_pictures(tmp_path, "cat", "dog", many=4)
    assert "has 8 samples; expected 10, to hold one out" in fault_of(name, SHAPE)
    (tmp_path / "emu").mkdir()
    assert fault_of(name, SHAPE) == f"{tmp_path}/emu: data: no images: expected some (.jpg, .jpeg, .png …)"
    assert fault_of(f"{name}/no", SHAPE) == f"{tmp_path}/no: data: no such folder: expected a folder"
    assert fault_of(f"{name}/cat/0.png", SHAPE) == f"{tmp_path}/cat/0.png: data: a file: expected a folder"


def test_a_class_that_is_not_trained_on_is_refused(tmp_path: Path) -> None:
    write_pictures(tmp_path / "train", "cat", "dog")
    write_pictures(tmp_path / "val", "cat", "emu")
    expected = f"{tmp_path}/val/emu: data: no such class: expected those to train on: cat and dog"
    assert fault_of(f"folder:{tmp_path}", SHAPE) == expected


def test_images_do_not_fit_every_network(tmp_path: Path) -> None:
    name = write_pictures(tmp_path, "cat", "dog")
    assert "holds images; the network takes 128, not channels × height × width" in fault_of(name, (128,))
    assert "has 3 channels, the network takes 4; expected 1 or 3" in fault_of(name, (4, 8, 8))


def test_without_pillow_one_line_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write_pictures(tmp_path, "cat", "dog")
    monkeypatch.setattr(compressed.importlib.util, "find_spec", lambda _: None)
    assert fault_of(name, SHAPE).endswith("Pillow is not installed; expected pip install 'palmette[images]'")
    with pytest.raises(InputError, match="Pillow is not installed"):
        CompressedImageDecoder(SHAPE).decode([encoded(1)])


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ending=st.sampled_from(["jpg", "png", "webp", "bmp", "gif", "tif", "ppm"]),
    at=st.integers(0, 600),
    by=st.binary(max_size=6),
    cut=st.integers(0, 300),
)
def test_any_bytes_are_answered_or_refused(tmp_path: Path, ending: str, at: int, by: bytes, cut: int) -> None:
    whole = bytearray(encoded(5, ending))
    whole[at : at + len(by)] = by
    (tmp_path / "cat").mkdir(exist_ok=True)
    for k in range(10):
        (tmp_path / "cat" / f"{k}.png").write_bytes(encoded(1))
    (tmp_path / "cat" / "3.png").write_bytes(bytes(whole[: len(whole) - cut]))
    answers_or_refuses(f"folder:{tmp_path}", SHAPE)
