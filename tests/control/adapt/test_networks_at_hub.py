"""Workers at a hub over networks that change: another address, seconds without any network, a proxy in between."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

import pytest

from benchmarks.home_networks import remove_left_networks
from palmette.runtime.options import Options
from tests.control.adapt.test_recovery_at_hub import AtHub
from tests.control.hub_workers import HubWorkers, worker_process
from tests.control.run.test_processes import assert_equal, trees
from tests.runtime.world import CLUSTER, TINY, Runs, lines
from tests.testbed.test_namespaces import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
DOUBLE = Options(optimizer="momentum", lr=0.05, seed=3, dtype="float64")


class Proxy:
    """An HTTP proxy that knows CONNECT alone; ``asked`` is where to."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.asked: list[str] = []
        self._listening = socket.create_server((host, 0))
        self.address = f"http://{host}:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(line,), daemon=True).start()

    def _carry(self, line: socket.socket) -> None:
        words = line.recv(4096).split()
        self.asked.append(words[1].decode())
        host, _, port = self.asked[-1].rpartition(":")
        with suppress(ConnectionError), line, socket.create_connection((host, int(port))) as other:
            line.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            ways = {line: other, other: line}
            while True:
                for each in select.select(list(ways), [], [])[0]:
                    data = each.recv(65536)
                    if not data:
                        return
                    ways[each].sendall(data)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def place(runs: Runs) -> Iterator[HubWorkers]:
    runs.cluster.write_text(CLUSTER.replace("tier:", "threads: 1, tier:"))
    with HubWorkers(runs.folder) as made:
        yield made


def test_through_a_proxy(runs: Runs, place: HubWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the connection for samples that are sent ahead."""
    proxy = Proxy()
    monkeypatch.setenv("https_proxy", proxy.address)
    process = worker_process(place, "cloud")
    monkeypatch.delenv("https_proxy")
    place.start(["phone", "server"])
    try:
        assert eventually(lambda: "cloud" in place.hub.present(), 60)
        assert_equal(runs, TINY, trees(5)["hierarchy"].model_copy(update={"ahead": True}), DOUBLE, *place.options)
    finally:
        process.kill()
        process.communicate()
        proxy.close()
    assert proxy.asked == [place.address] * 2


HUB, FIRST, SECOND = "10.79.0.1", "10.79.0.2", "10.79.0.3"


class Elsewhere:
    """A network namespace with one cable to this machine."""

    def __init__(self) -> None:
        self.name, self._ours, self._theirs = (f"plm{os.getpid()}{end}" for end in ("n", "a", "b"))

    def __enter__(self) -> Self:
        remove_left_networks()
        ip("netns", "add", self.name)
        ip("link", "add", self._ours, "type", "veth", "peer", "name", self._theirs, "netns", self.name)
        ip("address", "add", f"{HUB}/24", "dev", self._ours)
        ip("link", "set", self._ours, "up")
        ip("-n", self.name, "link", "set", "lo", "up")
        ip("-n", self.name, "address", "add", f"{FIRST}/24", "dev", self._theirs)
        self.plug_in()
        return self

    def plug_in(self) -> None:
        ip("-n", self.name, "link", "set", self._theirs, "up")

    def pull(self) -> None:
        ip("-n", self.name, "link", "set", self._theirs, "down")

    def move(self) -> None:
        """To another address."""
        ip("-n", self.name, "address", "del", f"{FIRST}/24", "dev", self._theirs)
        ip("-n", self.name, "address", "add", f"{SECOND}/24", "dev", self._theirs)

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "link", "del", self._ours], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def worker_in(elsewhere: Elsewhere, place: HubWorkers, node: str) -> Iterator[None]:
    words = ["worker", f"{HUB}:{place.hub.port}", "--keys", str(place.keys.folder), "--node", node, "--allow", TINY]
    command = ["ip", "netns", "exec", elsewhere.name, sys.executable, "-c", "from palmette.cli import main; main()"]
    process = subprocess.Popen([*command, *words], stderr=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        process.kill()
        process.communicate()


@pytest.mark.thorough  # test_nat does the same among other things
@pytest.mark.namespaces
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2")
def test_a_worker_without_network_that_comes_back_under_another_address_takes_part(runs: Runs) -> None:
    with HubWorkers(runs.folder, "0.0.0.0") as place, Elsewhere() as elsewhere:
        with worker_in(elsewhere, place, "cloud"):
            place.start(["phone", "server"])
            assert eventually(lambda: "cloud" in place.hub.present(), 120)
            eventful = AtHub(runs, place, iterations=1500)

            def happens() -> None:
                elsewhere.pull()
                assert eventually(lambda: len(eventful.record["changes"]) == 1, 120)
                elsewhere.move()
                elsewhere.plug_in()

            assert eventful.go(happens) == 0
        eventful.assert_nothing_is_missing()
        lost, joined = eventful.record["changes"]
        assert "cloud" not in lost["nodes"]
        assert (joined["reason"], "cloud" in joined["nodes"]) == ("a node has joined", True)
        assert lines(eventful.out / "metrics.jsonl")
