"""A profile has one entry per layer in every array, and says where it has not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palmette.spec.files import load
from palmette.spec.profile import Profile
from tests.spec.faulty import DATA, lines, plain, told


def test_the_example_reads() -> None:
    profile = load(Profile, DATA / "profile.json")
    assert (profile.model, profile.input_bytes) == ("lenet5", 12288)
    assert [layer.name for layer in profile.layers] == ["conv1", "conv2", "fc1"]
    assert profile.nodes["phone"].source == "measured"
    assert profile.nodes["server"].forward_call_s is None


def test_a_layer_keeps_its_output_where_nothing_else_is_known() -> None:
    profile = load(Profile, DATA / "profile.json")
    assert [layer.kept_bytes for layer in profile.layers] == [37632, 12800, 480]


def test_variants_are_found_by_the_fraction_removed() -> None:
    profile = load(Profile, DATA / "profile.json")
    assert profile.variant(0.0) is profile
    assert profile.variant(0.5) is profile.variants["0.5"]
    assert profile.variant(0.25) is None


def changed(*path: Any, to: Any) -> Any:
    content = at = plain("profile.json")
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = to
    return content


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (
            changed("nodes", "phone", "forward_s", to=[1.0, 2.0]),
            "nodes.phone.forward_s: 2 values: expected 3, one per layer",
        ),
        (
            changed("nodes", "cloud", "forward_call_s", to=[0.0] * 4),
            "nodes.cloud.forward_call_s: 4 values: expected 3, one per layer",
        ),
        (
            changed("nodes", "phone", "backward_input_s", to=[0.0, 0.0, 9e9]),
            "nodes.phone.backward_input_s[2]: 9000000000.0: expected at most 0.001, all of backward_s",
        ),
        (
            changed("variants", "0.5", "nodes", "phone", "update_s", to=[]),
            "variants.0.5.nodes.phone.update_s: 0 values: expected 3, one per layer",
        ),
        (
            changed("nodes", "phone", "backward_s", to=[0.1, float("nan"), 0.1]),
            "nodes.phone.backward_s[1]: nan: expected a finite number",
        ),
        (
            changed("nodes", "phone", "backward_s", to=[0.1, -1.0, 0.1]),
            "nodes.phone.backward_s[1]: -1.0: expected a number greater than or equal to 0",
        ),
        (
            changed("nodes", "phone", "update_s", to=["0.1 s", 0.1, 0.1]),
            "nodes.phone.update_s[0]: 0.1 s: expected a number",
        ),
        (changed("input_bytes", to=0), "input_bytes: 0: expected a number greater than 0"),
        (changed("model", to=""), "model: '': expected a name"),
        (changed("layers", to=[]), "layers: []: expected at least 1"),
        (changed("layers", 0, "output_bytes", to=None), "layers[0].output_bytes: None: expected a number"),
        (
            changed("variants", to={"half": plain("profile.json")["variants"]["0.5"]}),
            "variants.half: half: expected a fraction of removed parameters, from 0 to below 1",
        ),
        (
            changed("nodes", "phone", "source", to="guessed"),
            "nodes.phone.source: guessed: expected 'measured' or 'modelled'",
        ),
        (changed("format", to="palmette.profile/9"), "format: palmette.profile/9: expected 'palmette.profile/1'"),
    ],
)
def test_a_fault_is_told_with_field_value_and_what_was_expected(tmp_path: Path, content: Any, line: str) -> None:
    assert lines(Profile, content, tmp_path, ".json") == [line]


def test_a_missing_array_is_told(tmp_path: Path) -> None:
    content = plain("profile.json")
    del content["nodes"]["phone"]["forward_s"]
    assert lines(Profile, content, tmp_path, ".json") == ["nodes.phone.forward_s: missing: this field is required"]


def test_the_format_has_to_be_named(tmp_path: Path) -> None:
    content = plain("profile.json")
    del content["format"]
    (line,) = lines(Profile, content, tmp_path, ".json")
    assert line == "format: missing: expected 'palmette.profile/1'"


def test_nan_and_infinity_as_json_writes_them_name_their_field(tmp_path: Path) -> None:
    text = json.dumps(plain("profile.json"))
    for number, shown in (("NaN", "nan"), ("Infinity", "inf"), ("-Infinity", "-inf"), ("1e400", "inf")):
        (line,) = lines(Profile, text.replace("12288", number), tmp_path, ".json")
        assert line.startswith(f"input_bytes: {shown}: expected a")


def test_a_number_too_large_to_be_physical_is_refused(tmp_path: Path) -> None:
    for large in (1e19, 10**30, 10**400):
        (fault,) = told(Profile, changed("input_bytes", to=large), tmp_path, ".json")
        assert fault.field == "input_bytes"


def test_fields_of_a_newer_version_are_kept_and_slips_of_the_pen_are_not(tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    file.write_text(json.dumps(changed("measured_by", to={"tool": [1, 2.5, None, "x"]})), encoding="utf-8")
    assert load(Profile, file).model_dump()["measured_by"] == {"tool": [1, 2.5, None, "x"]}
    (line,) = lines(Profile, changed("input_byte", to=1), tmp_path, ".json")
    assert line == "input_byte: 1: unknown field; did you mean input_bytes?"


def test_what_is_kept_without_being_known_has_to_be_writable(tmp_path: Path) -> None:
    nested: list[Any] = []
    for _ in range(200):
        nested = [nested]
    for value in (float("nan"), nested, "\ud800", {"\udfff": 1}):
        (fault,) = told(Profile, changed("extra", to=value), tmp_path, ".json")
        assert fault.field.startswith("extra")
