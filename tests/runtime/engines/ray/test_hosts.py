"""Which host stands for which node, by what Ray says; and what is said where Ray is missing."""

from __future__ import annotations

import importlib.util
import socket
from typing import Any

import pytest

from palmette.errors import InputError, RunError
from palmette.runtime.engines.ray.hosts import addresses_of
from palmette.runtime.engines.ray.join import join, own_address, refuse_reserved
from palmette.runtime.engines.ray.library import ray_library


def host(address: str, *names: str, alive: bool = True) -> dict[str, Any]:
    return {"NodeManagerAddress": address, "Alive": alive, "Resources": {"CPU": 2.0, **dict.fromkeys(names, 1.0)}}


def test_a_host_stands_for_the_nodes_whose_names_are_its_resources() -> None:
    known = [host("10.0.0.1", "server", "gpu box"), host("10.0.0.2", "phone"), host("10.0.0.3", "phone", alive=False)]
    assert addresses_of(known, ["phone", "gpu box"]) == {"phone": "10.0.0.2", "gpu box": "10.0.0.1"}


def test_no_host_and_two_hosts_are_both_told() -> None:
    known = [host("10.0.0.1", "server"), host("10.0.0.2", "server")]
    missing = "no host of the Ray cluster stands for it; run on its machine:"
    with pytest.raises(InputError) as caught:
        addresses_of(known, ["server", "phone"])
    assert [str(fault) for fault in caught.value.faults] == [
        "--engine ray: server: 2 hosts of the Ray cluster stand for it (10.0.0.1, 10.0.0.2); expected one",
        f"--engine ray: phone: {missing} palmette cluster join ADDRESS --node phone",
    ]


@pytest.mark.parametrize("name", ["CPU", "GPU", "memory", "node:10.0.0.1"])
def test_names_that_ray_uses_itself_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="Ray has a resource of this name"):
        refuse_reserved(["phone", name])


def test_where_ray_is_missing_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else real(name))
    for call in (ray_library, lambda: join("10.0.0.1:6379", "phone")):
        with pytest.raises(InputError, match=r"pip install palmette\[ray\]"):
            call()


def test_the_address_of_this_machine_is_the_one_on_the_way_to_the_head() -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        assert own_address(address) == "127.0.0.1"
    with pytest.raises(RunError, match=f"no Ray head node answers at {address}: Connection refused"):
        own_address(address)


@pytest.mark.parametrize("address", ["", "10.0.0.1", "10.0.0.1:", ":6379", "10.0.0.1:port", "10.0.0.1:99999"])
def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="expected host:port, such as"):
        own_address(address)
