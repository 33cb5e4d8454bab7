"""Code that a file names is imported only where the user said so; every case has a module that tells when it is."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.control.run.trust import cluster_code, options_code, refuse_new_code, refuse_untrusted
from palmette.errors import InputError, RunError
from palmette.spec.files import load
from palmette.spec.plan import Plan
from tests.cost.small import instance, phase, source
from tests.runtime.world import TINY, Runs

ALONE = phase(source("phone", 4, "I"), instance("I", 1, 5, "phone"))
LENGTH = ["--iterations", "1", "--quiet"]
STRANGE = "strange:network"


@pytest.fixture(autouse=True)
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a user who has trusted nothing yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration" / "palmette" / "trusted.json"


@pytest.fixture(autouse=True)
def imported(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module ``strange`` in the current folder; importing it leaves this file."""
    monkeypatch.chdir(runs.folder)
    monkeypatch.setattr(sys, "path", [*sys.path, str(runs.folder)])
    mark = runs.folder / "imported"
    (runs.folder / "strange.py").write_text(
        f"from pathlib import Path\nfrom tests.runtime.networks import tiny as network\nPath({str(mark)!r}).touch()\n"
    )
    yield mark
    sys.modules.pop("strange", None)


def strange_run(runs: Runs, out: str = "run") -> list[str]:
    """A run of a plan that names the module, without a word about trust."""
    words = [word for word in runs.arguments(TINY, ALONE) if word != "--trust-code"]
    plan = Path(words[1])
    plan.write_text(plan.read_text().replace(TINY, STRANGE))
    shutil.rmtree(Path(os.environ["XDG_CONFIG_HOME"], "palmette"), ignore_errors=True)
    return [*words, *LENGTH, "-o", str(runs.folder / out)]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_a_plan_is_trusted_once_as_long_as_it_stays_the_same(
    runs: Runs, trusted: Path, imported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = strange_run(runs)
    line = (
        f"palmette: {words[1]}: code: {STRANGE}: would be imported and called; expected --trust-code, if you trust it\n"
    )
    assert execute(words) == 2
    assert said(capsys) == line
    assert not imported.exists()
    assert not trusted.exists()

    assert execute([*words, "--trust-code"]) == 0
    assert imported.exists()
    assert stat.S_IMODE(trusted.stat().st_mode) == 0o600
    words.append("--force")
    assert execute(words) == 0

    plan = Path(words[1])
    plan.write_text(plan.read_text() + " ")
    assert execute(words) == 2
    assert said(capsys) == line


def test_a_run_that_was_trusted_goes_on_and_a_strangers_folder_does_not(
    runs: Runs, imported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute([*strange_run(runs), "--trust-code"]) == 0
    ours, copied = runs.folder / "run", runs.folder / "copied"
    assert execute(["run", "--resume", str(ours), "--quiet"]) == 0

    ours.rename(copied)
    sys.modules.pop("strange")
    imported.unlink()
    assert execute(["run", "--resume", str(copied), "--quiet"]) == 2
    assert f"{copied / 'run.json'}: code: {STRANGE}: would be imported" in said(capsys)
    assert not imported.exists()
    assert execute(["run", "--resume", str(copied), "--quiet", "--trust-code"]) == 0


def test_no_option_of_a_strangers_run_is_imported(runs: Runs, imported: Path) -> None:
    out, whole = runs.folder / "run", phase(source("phone", 4, "I"), instance("I", 1, 7, "phone"))
    assert execute([*runs.arguments("lenet5", whole), *LENGTH, "-o", str(out)]) == 0
    record = json.loads((out / "run.json").read_text())
    partial = {"partial": STRANGE, "arguments": [], "options": {}}
    for option in ({"recipe": STRANGE}, {"data": STRANGE}, {"optimizer": STRANGE}, {"schedule": partial}):
        (out / "run.json").write_text(json.dumps(record | {"options": record["options"] | option}))
        assert execute(["run", "--resume", str(out), "--quiet"]) == 2
        assert not imported.exists()


def test_a_plan_that_does_not_fit_is_refused_before_anything_is_imported(
    runs: Runs, imported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = strange_run(runs)
    plan = json.loads(Path(words[1]).read_text())
    plan["phases"][0]["instances"][0]["layers"] = [1, 9]
    Path(words[1]).write_text(json.dumps(plan))
    assert execute([*words, "--trust-code"]) == 2
    assert "layers" in said(capsys)
    assert not imported.exists()


def test_data_that_a_cluster_file_names_is_asked_about_and_what_is_typed_is_not(
    runs: Runs, imported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.cluster.write_text(runs.cluster.read_text().replace("samples: 1500", f"samples: 1500, data: '{STRANGE}'"))
    words = [*strange_run(runs), "--recipe", STRANGE]
    assert execute(words) == 2
    assert said(capsys).startswith(f"palmette: {runs.cluster}: code: {STRANGE}: ")
    assert not imported.exists()
    refuse_untrusted({str(runs.cluster): [STRANGE]}, trust=False, typed=[STRANGE])


def test_a_program_says_it_by_an_argument(runs: Runs, imported: Path) -> None:
    words = strange_run(runs)
    files = {"profile": pt.load_profile(words[3]), "cluster": pt.load_cluster(runs.cluster)}
    plan = pt.load_plan(words[1])
    with pytest.raises(InputError) as caught:
        pt.run(plan, runs.folder / "run", **files, iterations=1, progress=False)
    assert str(caught.value) == f"code: {STRANGE}: would be imported and called; expected trust_code, if you trust it"
    assert not imported.exists()


def test_which_names_are_code(runs: Runs) -> None:
    data = ["digits", "folder:images", "csv:a:b", "hf:x", "mine:data"]
    nodes = ", ".join(f"n{k}: {{tier: device, source: {{samples: 1, data: '{d}'}}}}" for k, d in enumerate(data))
    runs.cluster.write_text(f"nodes: {{{nodes}}}\n")
    assert cluster_code(pt.load_cluster(runs.cluster)) == {"mine:data"}
    partial = {"partial": {"partial": "os:system", "arguments": [], "options": {}}, "arguments": ["ls"], "options": {}}
    options = {"data": "csv:a", "optimizer": partial, "schedule": "cosine", "recipe": None}
    assert options_code(options) == {"os:system"}


def test_a_changed_cluster_file_brings_no_code_in(runs: Runs) -> None:
    words = strange_run(runs)
    with pytest.raises(RunError, match=r"names code, strange:network; allow it with --trust-code"):
        refuse_new_code(load(Plan, words[1]), ())
    refuse_new_code(load(Plan, words[1]), [STRANGE])


@pytest.mark.parametrize("damaged", [b"", b"[]", b"\xff", b'{"a": 1}', pytest.param(b"[" * 100_000, id="deep")])
def test_a_damaged_trust_file_trusts_nothing(runs: Runs, trusted: Path, imported: Path, damaged: bytes) -> None:
    trusted.parent.mkdir(parents=True)
    trusted.write_bytes(damaged)
    assert execute(strange_run(runs)) == 2
    assert not imported.exists()
