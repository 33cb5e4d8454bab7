"""Messages leave this machine in the clear only where the user has said so."""

from __future__ import annotations

import pytest

from palmette.control.run.engines import refuse_open_network
from palmette.control.run.request import Request, from_record, to_record
from palmette.errors import InputError

AWAY = {"phone": "127.0.0.1", "server": "10.0.0.1"}


def test_gloo_to_another_machine_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        refuse_open_network(Request(), AWAY)
    assert str(caught.value).startswith("insecure: not given: server (10.0.0.1) would be reached over gloo, where")
    refuse_open_network(Request(insecure=True), AWAY)


@pytest.mark.parametrize(
    "addresses", [{}, {"phone": "10.0.0.1"}, {"phone": "127.0.0.1", "server": "127.0.0.2"}, {"a": "::1", "b": "::1"}]
)
def test_one_node_and_this_machine_need_no_permission(addresses: dict[str, str]) -> None:
    refuse_open_network(Request(), addresses)


def test_a_name_may_mean_any_machine() -> None:
    with pytest.raises(InputError, match=r"a \(localhost\) and b"):
        refuse_open_network(Request(), {"a": "localhost", "b": "::2"})


def test_a_file_gives_no_permission() -> None:
    written = to_record(Request(insecure=True))
    assert "insecure" not in written
    assert not from_record(written | {"insecure": True}, "run.json").insecure
    assert from_record(written, "run.json", insecure=True).insecure
