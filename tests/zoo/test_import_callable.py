"""Names on the command line lead to callables, or to one line that says why not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from palmette.errors import InputError
from palmette.zoo.import_callable import import_callable


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder that is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def fault_of(name: str) -> str:
    with pytest.raises(InputError) as error:
        import_callable(name, "model")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_module_of_the_current_folder_is_found(here: Path) -> None:
    (here / "found_here.py").write_text("def make(): return 7\n")
    assert import_callable("found_here:make", "model")() == 7


def test_the_current_folder_hides_nothing(here: Path) -> None:
    (here / "colorsys.py").write_text("def make(): return 7\n")
    assert "no such callable in colorsys" in fault_of("colorsys:make")


@pytest.mark.parametrize("name", ["", ":", "json", "json:", ":loads", "a b:c", "json:loads:x", "../x:y"])
def test_another_form_is_a_fault(name: str) -> None:
    assert fault_of(name).endswith(": expected package.module:callable")


def test_a_misspelt_callable_gets_the_nearest_one() -> None:
    assert fault_of("json:lods") == "model: json:lods: no such callable in json; did you mean loads?"


def test_a_missing_module_is_named() -> None:
    assert "no module no_such_package; expected one that is installed" in fault_of("no_such_package.part:make")


def test_something_else_than_a_callable_is_a_fault() -> None:
    assert fault_of("math:pi") == "model: math:pi: is a float; expected a callable"


def test_a_module_that_fails_says_why(here: Path) -> None:
    (here / "fails_here.py").write_text("1 / 0\n")
    assert "importing it failed: ZeroDivisionError: division by zero" in fault_of("fails_here:make")
