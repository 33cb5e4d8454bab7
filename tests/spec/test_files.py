"""Whatever is wrong with a file becomes a line that names it, never a traceback and never a hang."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from palmette.errors import InputError, RunError
from palmette.spec.cluster import Cluster
from palmette.spec.document import Document
from palmette.spec.files import load, read, write_text
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from palmette.spec.training import TrainingFile
from tests.spec.faulty import DATA, lines, plain

NODES = "nodes: {a: {tier: edge}}\n"
PROFILE = '{"format": "palmette.profile/1", "model": "tiny", "input_bytes": 4, "layers": [], "nodes": {"a": {"x": 1}}}'
TRAINING = '{"cluster": "cluster.yaml", "model": "lenet5", "data": "digits", "goal": "time"}'
CLUSTER = '{"nodes": {"a": {"tier": "edge"}}, "links": []}'


def the_line(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        load(Cluster, path)
    (line,) = str(caught.value).splitlines()
    return line


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    assert the_line(path) == f"{path}: the file: cannot be read: No such file or directory"


def test_a_directory(tmp_path: Path) -> None:
    assert the_line(tmp_path) == f"{tmp_path}: the file: cannot be read: Is a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "secret.yaml"
    path.touch(mode=0o000)
    assert "Permission denied" in the_line(path)


def test_a_name_that_no_file_can_have() -> None:
    assert "cannot be read" in the_line(Path("a\0b.yaml"))


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_file_that_is_not_utf8(tmp_path: Path, suffix: str) -> None:
    assert lines(Cluster, b"nodes: \xff\xfe", tmp_path, suffix) == ["the file: cannot be read: it is not UTF-8 text"]


@pytest.mark.parametrize(
    ("suffix", "text", "line"),
    [
        (".yaml", "", "nothing: expected a YAML mapping"),
        (".yaml", "# only a comment", "nothing: expected a YAML mapping"),
        (".yaml", "- a\n- b", "['a', 'b']: expected a YAML mapping"),
        (".yaml", "just text", "just text: expected a YAML mapping"),
        (".yaml", "a: 1\n---\nb: 2", "the file: cannot be parsed: but found another document: line 2, column 1"),
        (
            ".yaml",
            "nodes: [",
            "the file: cannot be parsed: expected the node content, but found '<stream end>': line 1, column 9",
        ),
        (
            ".yaml",
            "nodes: @",
            "the file: cannot be parsed: found character '@' that cannot start any token: line 1, column 8",
        ),
        (
            ".yaml",
            "nodes: !!python/object:os.system {}",
            "the file: cannot be parsed: could not determine a constructor",
        ),
        (".yaml", "nodes: *a", "the file: cannot be parsed: found undefined alias 'a': line 1, column 8"),
        (".yaml", "nodes: {? [a] : 1}", "the file: cannot be parsed: found unhashable key: line 1, column 11"),
        (".yaml", "nodes: 2020-99-99", "the file: cannot be parsed: month must be in 1..12"),
        (".yaml", "nodes: \x07", "the file: cannot be parsed: unacceptable character #x0007"),
        (".yaml", "a: 1\nb: 2\na: 3", "the file: cannot be parsed: the field 'a' stands there twice: line 3, column 1"),
        (".json", "", "the file: cannot be parsed: Expecting value"),
        (".json", "[1]", "[1]: expected a JSON mapping"),
        (".json", "null", "nothing: expected a JSON mapping"),
        (".json", "{nodes: 1}", "the file: cannot be parsed: Expecting property name"),
        (".json", '{"a": 1', "the file: cannot be parsed: Expecting ',' delimiter"),
        (".json", '{"b": {"a": 1, "a": 2}}', "the file: cannot be parsed: the field 'a' stands there twice"),
        (".json", '{"a": ' + "1" * 5000 + "}", "the file: cannot be parsed: Exceeds the limit (4300 digits)"),
        (
            ".json",
            '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
            "the file: cannot be parsed: it is nested too deeply",
        ),
        (".yaml", "a: " + "[" * 500 + "]" * 500, "the file: cannot be parsed: it is nested too deeply"),
    ],
)
def test_what_cannot_be_parsed_is_told_in_a_line(tmp_path: Path, suffix: str, text: str, line: str) -> None:
    (found,) = lines(Cluster, text, tmp_path, suffix)
    assert found.startswith(line)


BILLION = "x0: &x0 [a, a]\n" + "".join(f"x{k}: &x{k} [{', '.join([f'*x{k - 1}'] * 9)}]\n" for k in range(1, 12))
MERGED = "x0: &x0 {a: 1}\n" + "".join(f"x{k}: &x{k} {{<<: [{', '.join([f'*x{k - 1}'] * 9)}]}}\n" for k in range(1, 12))


@pytest.mark.parametrize(
    "text",
    [BILLION + "nodes: *x11", MERGED + "nodes: *x11", "nodes: &a [*a]", "nodes: &a {a: *a}", "nodes: &a {<<: *a}"],
)
def test_aliases_that_stand_for_billions_of_values_are_refused(tmp_path: Path, text: str) -> None:
    (line,) = lines(Cluster, text, tmp_path)
    assert line.startswith("the file: cannot be parsed: its aliases stand for too many values")


def test_aliases_and_merges_work_as_people_use_them(tmp_path: Path) -> None:
    file = tmp_path / "aliases.yaml"
    file.write_text(
        "nodes:\n"
        "  a: &phone {tier: device, memory: 1 GiB, power: &power {idle: 1 W, busy: 2 W}}\n"
        "  b: *phone\n"
        "  c: {<<: *phone, memory: 2 GiB}\n"
        "  d: {tier: edge, power: *power}\n",
        encoding="utf-8",
    )
    nodes = load(Cluster, file).nodes
    assert nodes["a"] == nodes["b"]
    assert nodes["c"].memory_bytes == 2 * 2**30
    assert nodes["d"].power == nodes["a"].power


def test_huge_integers_are_shown_by_their_size(tmp_path: Path) -> None:
    (line,) = lines(Cluster, "nodes: {a: {tier: edge, source: {samples: 0x" + "f" * 5000 + "}}}", tmp_path)
    assert line.startswith("nodes.a.source.samples: an integer of 20000 bits: ")


def test_huge_values_are_shown_by_their_beginning(tmp_path: Path) -> None:
    (line,) = lines(Cluster, NODES + "links: " + "x" * 1_000_000, tmp_path)
    assert len(line) < 200
    (line,) = lines(Cluster, NODES + f"links: {{{', '.join(f'k{k}: [1, [2, [3]]]' for k in range(1000))}}}", tmp_path)
    assert len(line) < 200


def test_a_plan_may_be_yaml_too(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(plain("plan.json")), encoding="utf-8")
    assert load(Plan, file).strategy == "hiertrain"


def test_json_is_yaml_and_1e6_is_a_number(tmp_path: Path) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text((DATA / "profile.json").read_text(encoding="utf-8"), encoding="utf-8")
    assert load(Profile, file) == load(Profile, DATA / "profile.json")
    file.write_text("nodes: {a: {tier: edge, memory_bytes: 1e6}}", encoding="utf-8")
    assert load(Cluster, file).nodes["a"].memory_bytes == 1e6


def test_what_yaml_knows_and_json_does_not_is_not_kept(tmp_path: Path) -> None:
    text = yaml.safe_dump(plain("plan.json"))
    for value in ("2020-01-01", "!!binary gIGC", "{1: 2}", ".nan", "!!set {a}", "0x" + "f" * 5000):
        (line,) = lines(Plan, f"{text}\nextra: {value}", tmp_path)
        assert line.startswith("extra")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    write_text(target, "{}\n")
    assert read(target) == {}
    with pytest.raises(InputError, match="cannot be written"):
        write_text(target, "\ud800")
    with pytest.raises(InputError, match="cannot be written: No such file"):
        write_text(tmp_path / "none" / "out.json", "{}")
    assert target.read_text(encoding="utf-8") == "{}\n"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to("real.json")
    write_text(link, "{}")
    assert link.is_symlink()
    assert (tmp_path / "real.json").read_text(encoding="utf-8") == "{}"


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "{}")
        assert os.read(end, 10) == b"{}"
    finally:
        os.close(end)
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full here")
def test_a_full_disk_is_no_fault_of_the_input() -> None:
    with pytest.raises(RunError, match=r"^/dev/full: the file: cannot be written: No space left on device"):
        write_text("/dev/full", "{}")
    assert Path("/dev/full").is_char_device()


def test_the_current_folder_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^\.: the file: cannot be written: Is a directory"):
        write_text(".", "{}")


@pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="there is no /dev/zero here")
def test_a_device_without_an_end_is_not_read() -> None:
    assert "it is a device" in the_line(Path("/dev/zero"))


def test_a_file_that_would_take_minutes_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("nodes: {}\n" + "#" * (5 * 2**20))
    with pytest.raises(InputError, match=r"fleet.yaml: 5 MiB: expected at most 4 MiB of YAML$"):
        read(file)


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        (Cluster, PROFILE, "format: palmette.profile/1: expected a cluster file, with nodes and links, and no format"),
        (TrainingFile, PROFILE, "format: palmette.profile/1: expected a training file, with cluster, and model or "),
        (Plan, PROFILE, "format: palmette.profile/1: expected 'palmette.plan/1'"),
        (Plan, "{}", "format: missing: expected 'palmette.plan/1'"),
        (Cluster, TRAINING, "a file with cluster, model, data and goal: expected a cluster file, with nodes and links"),
        (TrainingFile, CLUSTER, "a file with nodes and links: expected a training file, with cluster, and model or"),
    ],
)
def test_a_file_of_another_kind_is_one_fault(tmp_path: Path, kind: type[Document], text: str, line: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        load(kind, file)
    (fault,) = refused.value.faults
    assert line in str(fault)


def test_a_misspelt_field_is_no_other_kind_of_file(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("node: {phone: {tier: device}}")
    with pytest.raises(InputError, match=r"node: .* did you mean nodes\?"):
        load(Cluster, file)
