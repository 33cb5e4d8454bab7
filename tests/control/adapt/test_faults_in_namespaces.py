"""Four hosts in network namespaces, and every fault that we can think of: the weights are those of a quiet run."""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from benchmarks.soak.faults import GARBAGE
from palmette.cli import execute as palmette
from palmette.runtime.transports.keys.certificates import new_key, node_certificate
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.pem import key_text, read_certificate, read_key, text_of
from palmette.testbed.namespace_network import shaping_rules
from tests.runtime.rig import relatively_off
from tests.runtime.world import hired
from tests.testbed.stand import Files
from tests.testbed.test_namespaces import (  # noqa: F401  (fixtures)
    ROOT,
    _nothing_is_left,
    begun,
    eventually,
    files,
    namespaces,
)
from tests.testbed.test_namespaces import (
    pytestmark as _in_namespaces,
)

pytestmark = [*_in_namespaces, pytest.mark.slow]

NODES = ("phone", "server", "cloud", "hut")
ITERATIONS = 14
TRANSPORTS = ("gloo", "tls")
# What people on the network with keys of some kind try at the hub: prints how each was refused.
INTRUDER = """
import os, sys
os.environ["GRPC_VERBOSITY"] = "NONE"
import grpc
from pathlib import Path
from palmette.runtime.transports.keys.certificates import dns_name
from palmette.runtime.transports.tls.frames import hello
address, hub, *people = sys.argv[1:]
for folder, name in zip(people[::2], people[1::2]):
    read = lambda file: (Path(folder) / file).read_bytes() if (Path(folder) / file).exists() else None
    doors = grpc.ssl_channel_credentials(read("authority.crt"), read("key"), read("crt"))
    with grpc.secure_channel(address, doors, options=[("grpc.ssl_target_name_override", dns_name(hub))]) as line:
        call = line.stream_stream("/palmette.Hub/Attend")(iter([hello(bytes(16), name)]), timeout=10)
        try:
            next(call)
            print("let in")
        except grpc.RpcError as error:
            print(error.code().name, str(error.details()).splitlines()[0])
"""

# Strangers compute on the same cores as the hosts here, which makes transfers as long as on slower links.
UNHURRIED = ("--drift", "100")


class Four:
    """LeNet-5 on four hosts by a plan that ``hybrid`` is said to have made; the hub is on ``server``."""

    def __init__(self, made: Files) -> None:
        self._made, self.folder, self.out = made, made.folder, made.folder / "out"
        profile, cluster, plan = (self._read(name) for name in ("profile.json", "cluster.yaml", "plan.json"))
        profile["nodes"]["hut"] = profile["nodes"]["cloud"]
        cluster["nodes"]["hut"] = {"tier": "edge"}
        cluster["links"][1]["bandwidth"] = "40 Mbit/s"  # so that the phone's link is what an iteration waits for
        cluster["links"].append({"between": ["server", "hut"], "bandwidth": "40 Mbit/s"})
        (phase,) = plan["phases"]
        phase["input_as"] = "tensor"  # digits as they are stored would be too small to tell how fast a link is
        phase["sources"].append({"node": "phone", "samples": 4, "into": "H"})
        phase["instances"].append({"id": "H", "layers": [1, 7], "node": "hut"})
        asked = {"goal": "time", "options": {"lossy": False}}
        plan |= {"strategy": "hybrid", "asked": asked, "batch": 12, "phases": [phase]}
        for name, fields in (("profile.json", profile), ("cluster.yaml", cluster), ("plan.json", plan)):
            (self.folder / name).write_text(json.dumps(fields))
        self.keys = Keys(self.folder / "keys")
        self.keys.init()
        for node in NODES:
            self.keys.issue(node)

    def _read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    def run(
        self,
        transport: str,
        happens: Callable[[dict[str, int]], None],
        *more: str,
        code: int = 0,
        out: Path | None = None,
    ) -> dict[str, Any]:
        """What ``run.json`` says when it is over; something happens once an iteration is done."""
        out = out or self.out
        words = [*self._made.arguments(str(out), "namespaces", ITERATIONS), *more]
        if transport == "tls":
            words += ["--transport", "tls", "--keys", str(self.keys.folder), "--hub", "server"]
        with hired() as crews:

            def wait() -> None:
                assert eventually(lambda: begun(out), 60)
                happens(crews[0].pids)

            waiting = threading.Thread(target=wait)
            waiting.start()
            assert palmette(words) == code
            waiting.join()
        found: dict[str, Any] = json.loads((out / "run.json").read_text())
        return found

    def assert_weights_are_those_of_a_quiet_run(self, out: Path | None = None) -> None:
        assert palmette(self._made.arguments("quiet", "none", ITERATIONS)) == 0
        one, other = (load_file(Path(each) / "model.safetensors") for each in (out or self.out, self.folder / "quiet"))
        assert relatively_off(one, other) <= 1e-4


@pytest.fixture
def four(files: Callable[[str], Files]) -> Four:  # noqa: F811
    return Four(files("8 Mbit/s"))


def spaces() -> dict[str, str]:
    """The namespace of each node."""
    return dict(zip(NODES, namespaces(os.getpid()), strict=True))


def inside(node: str, *words: str) -> str:
    """What a command says in a node's namespace."""
    command = ["ip", "netns", "exec", spaces()[node], *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=_environment()).stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def listening(node: str) -> list[tuple[str, int]]:
    """The addresses on which somebody listens in a node's namespace."""
    rows = [line.split() for line in inside(node, "cat", "/proc/net/tcp").splitlines()[1:]]
    ends = [row[1].split(":") for row in rows if row[3] == "0A"]
    return [(socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)) for address, port in ends]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("node", "number"),
    [
        pytest.param("server", signal.SIGKILL, id="server-dies"),
        pytest.param("hut", signal.SIGSTOP, id="hut-freezes"),
        pytest.param("server", signal.SIGSTOP, id="server-freezes", marks=pytest.mark.thorough),
        pytest.param("hut", signal.SIGKILL, id="hut-dies", marks=pytest.mark.thorough),
    ],
)
def test_a_node_that_dies_or_freezes(four: Four, transport: str, number: signal.Signals, node: str) -> None:
    """The server has the hub and stands between all others."""
    found = four.run(transport, lambda pids: os.kill(pids[node], number))
    assert found["ended"] == "done"
    assert node not in found["changes"][0]["nodes"]
    assert f"node {node}" in found["changes"][0]["reason"]
    four.assert_weights_are_those_of_a_quiet_run()


@pytest.mark.timing
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_cable_that_is_cut(four: Four, transport: str) -> None:
    """The hut's only one: nothing but silence tells of it."""
    found = four.run(transport, lambda _: inside("hut", "ip", "link", "set", "link2", "down") and None)
    assert found["ended"] == "done"
    (change,) = found["changes"]
    assert "hut" not in change["nodes"]
    assert "has not been heard from" in change["reason"]
    links = [link["between"] for link in found["plan"]["inputs"]["cluster"]["links"]]
    assert links == [["phone", "server"], ["server", "cloud"]]
    four.assert_weights_are_those_of_a_quiet_run()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_link_that_becomes_half_as_fast(four: Four, transport: str) -> None:
    slow = next(line for line in shaping_rules("link0", 4e6, ()) if "tbf" in line).replace("qdisc add", "qdisc change")

    def halve(_: dict[str, int]) -> None:
        for node in ("phone", "server"):
            inside(node, "tc", *slow.split())

    found = four.run(transport, halve)
    assert len(found["changes"]) <= 1  # in so few iterations a change hardly pays, and two never do
    four.assert_weights_are_those_of_a_quiet_run()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "small", str(folder)], check=True)
    yield folder
    gc.collect()  # the run that was resumed has mapped its checkpoint into this process
    until_s = time.monotonic() + 60  # processes that were told to end may still hold files on it
    while subprocess.run(["umount", str(folder)], check=False, stderr=subprocess.DEVNULL).returncode:
        assert time.monotonic() < until_s, "the disk is still in use"
        time.sleep(0.2)


def test_a_disk_that_is_full(four: Four, disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run stops with one line; when there is room again it goes on."""

    def fill(_: dict[str, int]) -> None:
        with (disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(2**16)):
                pass

    four.run("gloo", fill, code=1, out=disk / "out")
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "No space left on device" in said
    (disk / "filler").unlink()
    assert palmette(["run", "--resume", str(disk / "out"), "--quiet"]) == 0
    four.assert_weights_are_those_of_a_quiet_run(disk / "out")


def test_a_stranger_who_speaks_garbage_to_every_open_port(four: Four) -> None:
    reached: list[tuple[str, int]] = []

    def disturb(_: dict[str, int]) -> None:
        for node in NODES:
            for address, port in listening(node):
                inside("hut" if node != "hut" else "phone", sys.executable, "-c", GARBAGE, address, str(port))
                reached.append((address, port))

    found = four.run("tls", disturb, *UNHURRIED)
    assert reached
    assert (found["ended"], found["changes"]) == ("done", [])
    four.assert_weights_are_those_of_a_quiet_run()


def _kinds(four: Four) -> dict[str, tuple[str, str]]:
    """Keys of people who should not get in, by folder: as whom they come, and how they are refused."""
    for kind in ("none", "foreign", "expired", "revoked", "another", "guest"):
        (four.folder / kind).mkdir()
        (four.folder / kind / "authority.crt").write_bytes((four.keys.folder / "authority.crt").read_bytes())
    other = Keys(four.folder / "others")
    other.init()
    other.issue("phone")
    _give(four.folder / "foreign", other, "phone")
    for node in ("thief", "guest"):
        four.keys.issue(node)
    _give(four.folder / "revoked", four.keys, "thief")
    _give(four.folder / "another", four.keys, "guest")
    _give(four.folder / "guest", four.keys, "guest")
    four.keys.revoke("thief")
    authority = read_key(four.keys.folder / "authority.key"), read_certificate(four.keys.folder / "authority.crt")
    key, then = new_key(), dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
    (four.folder / "expired" / "key").write_bytes(key_text(key))
    (four.folder / "expired" / "crt").write_bytes(text_of(node_certificate("phone", key, authority, days=1, now=then)))
    denied = "PERMISSION_DENIED the certificate shown for node"
    return {
        "none": ("phone", "UNAVAILABLE"),
        "foreign": ("phone", "UNAVAILABLE"),
        "expired": ("phone", "UNAVAILABLE"),
        "revoked": ("thief", f"{denied} thief is not valid: it was revoked"),
        "another": ("phone", f"{denied} phone is not valid: it belongs to guest"),
        "guest": ("guest", "PERMISSION_DENIED node guest belongs to another run"),
    }


def _give(folder: Path, keys: Keys, node: str) -> None:
    for suffix in ("key", "crt"):
        (folder / suffix).write_bytes(keys.file(node, suffix).read_bytes())


def test_people_with_keys_that_do_not_count(four: Four) -> None:
    """No certificate, another authority's, an expired one, a revoked one, one of another node, one of no node here."""
    kinds, refused = _kinds(four), dict[str, str]()

    def intrude(_: dict[str, int]) -> None:
        address = next(f"{host}:{port}" for host, port in listening("server"))
        people = [word for kind, (name, _) in kinds.items() for word in (str(four.folder / kind), name)]
        said = inside("hut", sys.executable, "-c", INTRUDER, address, "server", *people).splitlines()
        refused.update(zip(kinds, said, strict=True))

    found = four.run("tls", intrude, *UNHURRIED)
    assert all(refused[kind].startswith(expected) for kind, (_, expected) in kinds.items()), refused
    assert (found["ended"], found["changes"]) == ("done", [])
    four.assert_weights_are_those_of_a_quiet_run()
