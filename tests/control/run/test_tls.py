"""Runs over TLS: the same weights, only with keys that count, and deaf to strangers."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from palmette.cli import execute
from palmette.runtime.options import Options
from palmette.runtime.transports.keys.folder import Keys
from tests.control.adapt.test_faults import THREE, Broken
from tests.control.run.test_processes import assert_equal, trees
from tests.control.run.test_resume import when
from tests.cost.small import instance, phase, source
from tests.runtime.world import NODES, TINY, Runs, descendants, hired, weights
from tests.thorough import mostly_thorough

DOUBLE = Options(optimizer="momentum", lr=0.05, seed=3, dtype="float64")


@pytest.fixture
def keys(runs: Runs) -> Keys:
    made = Keys(runs.folder / "keys")
    made.init()
    for node in NODES:
        made.issue(node)
    return made


@pytest.mark.parametrize(("name", "ahead"), [("hierarchy", True), ("many sources", False)])
def test_weights_equal_those_of_one_process(runs: Runs, name: str, ahead: bool) -> None:
    assert_equal(runs, TINY, trees(5)[name].model_copy(update={"ahead": ahead}), DOUBLE, "--transport", "tls")


@pytest.mark.slow
@pytest.mark.parametrize("name", trees(5))
def test_weights_equal_those_of_one_process_for_every_tree(runs: Runs, name: str) -> None:
    assert_equal(runs, TINY, trees(5)[name], DOUBLE, "--transport", "tls")


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_thorough(reversed(trees(5)), 2))
def test_weights_over_paced_links_equal_those_of_one_process(runs: Runs, name: str) -> None:
    assert_equal(runs, TINY, trees(5)[name], DOUBLE, "--transport", "tls", "--testbed", "paced")


def test_with_keys_of_ones_own_on_a_hub_of_ones_choice(runs: Runs, keys: Keys) -> None:
    more = ("--transport", "tls", "--keys", str(keys.folder), "--hub", "phone")
    assert_equal(runs, TINY, trees(5)["cut in three"], DOUBLE, *more)


@pytest.mark.parametrize("sync", ["epoch", "async"])
def test_other_syncs_send_their_weights_over_tls_too(runs: Runs, sync: str) -> None:
    tree = phase(
        *(source(at, 6, at) for at in NODES), *(instance(at, 1, 5, at) for at in NODES), sync=sync, server="server"
    )
    for transport in ("tls", "gloo"):
        arguments = [*runs.arguments(TINY, tree), "--transport", transport, "--iterations", "4", "--quiet"]
        assert execute([*arguments, "-o", str(runs.folder / transport)]) == 0
    record = json.loads((runs.folder / "tls" / "run.json").read_text())
    assert (record["ended"], record["transport"], record["iterations"]) == ("done", "tls", 4)
    assert "server" in receivers(runs.folder / "tls"), "weights or gradients went to the parameter server"
    if sync == "epoch":  # which worker takes an asynchronous step depends on the machine
        assert receivers(runs.folder / "tls") == receivers(runs.folder / "gloo")
        tls, gloo = weights(runs.folder / "tls"), weights(runs.folder / "gloo")
        assert all(tls[key].equal(gloo[key]) for key in gloo)


def receivers(folder: Path) -> dict[str, float]:
    """The bytes that each node received in a run."""
    found: dict[str, float] = {}
    for line in map(json.loads, (folder / "trace.jsonl").read_text().splitlines()):
        if line["op"] == "receive" and line["bytes"]:
            found[line["node"]] = found.get(line["node"], 0.0) + line["bytes"]
    return found


class TestKeysThatDoNotCount:
    def refused(self, runs: Runs, capsys: pytest.CaptureFixture[str], *more: str) -> list[str]:
        capsys.readouterr()
        arguments = [*runs.arguments(TINY, THREE), "--iterations", "2", "--quiet", *more]
        assert execute([*arguments, "-o", str(runs.folder / "out")]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        return said.err.splitlines()

    def test_revoked(self, runs: Runs, keys: Keys, capsys: pytest.CaptureFixture[str]) -> None:
        keys.revoke("server")
        (line,) = self.refused(runs, capsys, "--transport", "tls", "--keys", str(keys.folder))
        assert "server.crt: certificate: server: it was revoked; make a new one with: palmette keys issue" in line

    def test_missing_for_two(self, runs: Runs, keys: Keys, capsys: pytest.CaptureFixture[str]) -> None:
        for node in ("phone", "cloud"):
            (keys.folder / "nodes" / f"{node}.crt").unlink()
        lines = self.refused(runs, capsys, "--transport", "tls", "--keys", str(keys.folder))
        assert ["node phone has no certificate" in lines[0], "node cloud has no certificate" in lines[1]] == [True] * 2

    def test_no_folder(self, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
        (line, *_) = self.refused(runs, capsys, "--transport", "tls", "--keys", str(runs.folder / "none"))
        assert "has no certificate" in line

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (("--transport", "tsl"), "--transport: tsl: no such transport; expected one of gloo, tls"),
            (("--keys", "keys"), "--keys: keys: gloo uses none; expected --transport tls with it"),
            (("--hub", "phone"), "--hub: phone: gloo uses none; expected --transport tls with it"),
            (("--transport", "tls", "--hub", "phon"), "--hub: phon: no such node of the plan; did you mean phone?"),
        ],
    )
    def test_options(self, runs: Runs, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str) -> None:
        (line,) = self.refused(runs, capsys, *words)
        assert line == f"palmette: {says}"


def test_a_worker_that_is_killed_is_named(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Broken(runs, "--transport", "tls")
    said = broken.by(lambda pids: os.kill(pids["server"], signal.SIGKILL), capsys)
    assert said.startswith("palmette: node server: its worker was killed by SIGKILL (out of memory, or killed by hand)")


def listening(pids: set[int]) -> list[int]:
    """The TCP ports on which these processes listen."""
    owned = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            try:
                owned.add(str(handle.readlink()))
            except OSError:
                continue
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in owned]


@pytest.mark.slow
def test_a_stranger_with_garbage_for_every_open_port_changes_nothing(runs: Runs) -> None:
    """The weights are those of an undisturbed run."""
    ports: list[int] = []

    def disturb() -> None:
        ports.extend(listening(set(descendants(os.getpid()))))
        for port in ports:
            for words in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(20_000), b"\x80\x05pickle" * 500):
                with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
                    line.sendall(words)

    for name in ("disturbed", "in peace"):
        arguments = [*runs.arguments(TINY, THREE), "--transport", "tls", "--iterations", "300", "--quiet"]
        out = runs.folder / name
        watching = when(out / "metrics.jsonl", 10, disturb) if name == "disturbed" else None
        with hired():
            assert execute([*arguments, "-o", str(out)]) == 0
        if watching is not None:
            watching.join()
    assert ports
    one, other = weights(runs.folder / "disturbed"), weights(runs.folder / "in peace")
    assert all(one[key].equal(other[key]) for key in one)
