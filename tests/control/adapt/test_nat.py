"""Workers in three networks that let nobody in: one behind a proxy, one whose address changes, one that goes dark."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from benchmarks.home_networks import HomeNetwork, remove_left_networks, why_no_networks
from tests.control.adapt.test_networks_at_hub import Proxy
from tests.control.adapt.test_recovery_at_hub import AtHub
from tests.control.hub_workers import HubWorkers
from tests.runtime.world import NODES, TINY, Runs
from tests.testbed.test_namespaces import eventually

DARK_S = 20.0


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.namespaces
@pytest.mark.skipif(why_no_networks("nft") is not None, reason=str(why_no_networks("nft")))
def test_nobody_gets_into_such_a_network_because_of_its_router() -> None:
    with HomeNetwork(4) as home, home.listener(8000) as listening:
        try:
            time.sleep(1)  # it listens by then, which the last assertion holds
            assert not home.lets_in(8000)
            home.open()
            assert eventually(lambda: home.lets_in(8000), 10)
        finally:
            listening.kill()


@pytest.mark.namespaces
@pytest.mark.skipif(why_no_networks("nft") is not None, reason=str(why_no_networks("nft")))
def test_networks_of_tests_that_were_killed_are_removed_with_their_processes() -> None:
    killed = "from benchmarks.home_networks import HomeNetwork; import os\nwith HomeNetwork(5) as home: "
    killed += "print(home.machine, home.listener(8000).pid, flush=True); os.kill(os.getpid(), 9)"
    with subprocess.Popen([sys.executable, "-c", killed], stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        name, pid = made.stdout.readline().split()
    with HomeNetwork(26) as home:
        listed = subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout
        assert name not in listed
        assert eventually(lambda: not _runs(int(pid)), 10)
        remove_left_networks()
        listed = subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout
        assert home.machine in listed, "its process lives"


@pytest.mark.namespaces
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(why_no_networks("nft") is not None, reason=str(why_no_networks("nft")))
def test_weights_are_those_of_one_process_from_behind_nat(runs: Runs) -> None:
    """Both home networks use the same addresses inside; the phone, which has the data, is at the hub by a proxy."""
    with HubWorkers(runs.folder, "0.0.0.0") as place, HomeNetwork(1) as moves, HomeNetwork(2) as dark:
        keys, port = place.keys.folder, place.hub.port
        with HomeNetwork(3) as third:
            proxy = Proxy(third.hub)
            with (
                third.worker(keys, "phone", port, "--allow", TINY, https_proxy=proxy.address, no_proxy=""),
                moves.worker(keys, "server", port, "--allow", TINY),
                dark.worker(keys, "cloud", port, "--allow", TINY),
            ):
                assert eventually(lambda: set(NODES) <= place.hub.present(), 120)
                eventful = AtHub(runs, place, iterations=2500)

                def happens() -> None:
                    dark.pull()
                    pulled_s = time.monotonic()
                    assert eventually(lambda: len(eventful.record["changes"]) == 1, 60)
                    moves.change_address()
                    assert eventually(lambda: len(eventful.record["changes"]) >= 2, 60)
                    time.sleep(max(0.0, DARK_S - (time.monotonic() - pulled_s)))
                    dark.plug_in()

                assert eventful.go(happens) == 0
            proxy.close()
        eventful.assert_nothing_is_missing()
        changes = eventful.record["changes"]
        assert "cloud" not in changes[0]["nodes"]
        joined = [change for change in changes if change["reason"] == "a node has joined"]
        assert set(NODES) <= set(joined[-1]["nodes"]), "also the one whose address has changed"
        assert set(proxy.asked) == {f"{third.hub}:{port}"}
