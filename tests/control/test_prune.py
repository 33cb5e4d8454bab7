"""``palmette prune``: a network or a file of weights, made smaller."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from palmette.cli import execute
from palmette.zoo.capture import state
from palmette.zoo.models import load_network

TINY = "tests.runtime.networks:tiny"


def about(path: Path) -> dict[str, str]:
    with safe_open(str(path), "pt") as opened:
        found: dict[str, str] = opened.metadata()
    return found


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert execute(["prune", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    return found.err.splitlines()


def test_a_network_by_name_is_written_smaller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "half.safetensors"
    assert execute(["prune", "lenet5", "--ratio", "0.5", "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == "lenet5"
    assert (found["pruning"], found["compress"], found["original_parameters"]) == (0.5, "prune", 62006)
    assert found["removed"] == pytest.approx(0.5, abs=0.02)
    assert sum(value.numel() for value in load_file(out).values()) == found["parameters"]
    assert found["parameters"] == round(62006 * (1 - found["removed"]))
    assert about(out) == {"model": "lenet5", "pruning": "0.5"}


def test_a_file_is_pruned_further_by_the_original(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once, twice, at_once = (tmp_path / f"{name}.safetensors" for name in ("once", "twice", "at-once"))
    assert execute(["prune", TINY, "--ratio", "0.25", "-o", str(once)]) == 0
    assert "tests.runtime.networks:tiny: 1,052 parameters" in capsys.readouterr().out
    assert execute(["prune", str(once), "--ratio", "0.5", "-o", str(twice)]) == 0
    assert execute(["prune", TINY, "--ratio", "0.5", "-o", str(at_once)]) == 0
    shapes = [{name: value.shape for name, value in load_file(path).items()} for path in (twice, at_once)]
    assert shapes[0] == shapes[1]
    assert said(capsys, str(twice), "--ratio", "0.25", "-o", str(once)) == [
        "palmette: --ratio: 0.25: the file has 0.5 removed, which cannot be restored; expected at least that"
    ]


def test_code_that_a_file_names_is_called_only_if_the_user_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, out = tmp_path / "given.safetensors", tmp_path / "out.safetensors"
    values = {name: value.clone() for name, value in state(load_network(TINY, seed=5).layers).items()}
    save_file(values, given, {"model": "os:getcwd"})
    asked = [str(given), "--ratio", "0.5", "-o", str(out)]
    expected = "would be imported and called; expected --trust-code, if you trust it"
    assert said(capsys, *asked) == [f"palmette: {given}: code: os:getcwd: {expected}"]
    save_file(values, given, {"model": TINY})
    assert execute(["prune", *asked, "--trust-code"]) == 0
    assert execute(["prune", *asked]) == 0  # it is remembered
    save_file({name: value + 1 for name, value in values.items()}, given, {"model": TINY})
    assert said(capsys, *asked) == [f"palmette: {given}: code: {TINY}: {expected}"]


def test_a_file_of_another_program_needs_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, out = tmp_path / "given.safetensors", tmp_path / "out.safetensors"
    save_file({name: value.clone() for name, value in state(load_network(TINY, seed=5).layers).items()}, given)
    found = said(capsys, str(given), "--ratio", "0.5", "-o", str(out))
    assert len(found) == 1
    assert found[0].endswith("the file does not say which network they are of; expected model with it, such as lenet5")
    assert execute(["prune", str(given), "--model", TINY, "--ratio", "0", "-o", str(out)]) == 0
    assert all(torch.equal(value, load_file(given)[name]) for name, value in load_file(out).items())


@pytest.mark.parametrize("ratio", ["1", "-0.1", "nan", "1.5"])
def test_what_is_no_ratio_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], ratio: str) -> None:
    found = said(capsys, "lenet5", "--ratio", ratio, "-o", str(tmp_path / "out"))
    assert len(found) == 1
    assert found[0].startswith("palmette: --ratio: ")
    assert found[0].endswith("expected a fraction from 0 to below 1")


def test_what_cannot_be_pruned_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["-o", str(tmp_path / "out")]
    assert "cannot be pruned further than 0.997" in said(capsys, "lenet5", "--ratio", "0.999", *out)[0]
    linear = "tests.runtime.networks:three_classes"
    assert said(capsys, linear, "--ratio", "0.5", *out) == [
        "palmette: --ratio: 0.5: the network cannot be pruned further than 0 of its parameters; expected at most that"
    ]
    assert "no such network" in said(capsys, "lenet6", "--ratio", "0.5", *out)[0]
    assert "cannot be read" in said(capsys, str(tmp_path / "x.safetensors"), "--ratio", "0.5", *out)[0]
    assert (
        "--compress: quantize: expected prune or distill"
        in said(capsys, "lenet5", "--ratio", "0.5", "--compress", "quantize", *out)[0]
    )
    assert execute(["prune", "lenet5", "--ratio", "0.5", "-o", str(tmp_path / "no" / "such" / "folder")]) == 1


def test_a_distilled_network_has_the_shapes_of_a_pruned_one(tmp_path: Path) -> None:
    pruned, distilled = tmp_path / "pruned.safetensors", tmp_path / "distilled.safetensors"
    assert execute(["prune", TINY, "--ratio", "0.5", "-o", str(pruned)]) == 0
    assert execute(["prune", TINY, "--ratio", "0.5", "--compress", "distill", "-o", str(distilled)]) == 0
    one, other = load_file(pruned), load_file(distilled)
    assert {name: value.shape for name, value in one.items()} == {name: value.shape for name, value in other.items()}
    assert any(not torch.equal(value, other[name]) for name, value in one.items())
