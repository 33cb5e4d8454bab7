"""What the testbed of namespaces reads off the machine, and what it says when it cannot work there."""

from __future__ import annotations

import sys

import pytest

from palmette.errors import InputError, RunError
from palmette.testbed import iproute
from palmette.testbed.namespace_network import TcpEndpoint, TcpFlow
from palmette.testbed.namespaces import refuse_half_duplex
from tests.testbed.stand import cluster, evaluator, split

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100470A:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100470A:9C40 0200470A:1F90 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is that of a little-endian machine")
def test_established_connections_are_read_and_listeners_are_not():
    assert iproute.parse_established(TABLE) == [
        TcpFlow(TcpEndpoint("10.71.0.1", 40000), TcpEndpoint("10.71.0.2", 8080))
    ]


def test_root_lacks_nothing_and_others_both_capabilities():
    assert iproute.missing_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n") == []
    assert iproute.missing_capabilities("CapEff:\t0000000000000000\n") == ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]


def test_without_ip_and_tc_the_error_names_them_and_paced(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(InputError, match=r"the command ip .* the command tc .* --testbed paced"):
        iproute.require_namespaces()


def test_without_root_the_error_says_so(monkeypatch):
    monkeypatch.setattr(iproute, "missing_capabilities", lambda _: ["CAP_NET_ADMIN"])
    with pytest.raises(InputError, match=r"needs root \(CAP_NET_ADMIN\).* --testbed paced"):
        iproute.require_namespaces()


def test_on_another_system_the_error_asks_for_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(InputError, match=r"needs Linux; --testbed paced"):
        iproute.require_namespaces()


def test_no_two_namespaces_have_the_same_name():
    assert len({*iproute.new_names(3), *iproute.new_names(3)}) == 6


def test_a_command_that_fails_says_what_it_said():
    with pytest.raises(RunError, match=r"ls /no: .*cannot access.*; --testbed paced"):
        iproute.run_command("ls", "/no")


def test_half_duplex_links_are_refused_where_the_plan_uses_them():
    made = cluster(("a", "b", "1 Mbit/s"), ("b", "c", "1 Mbit/s"), duplex="half")
    with pytest.raises(InputError, match=r"links\[0\].duplex: half \(a – b\).*--testbed paced") as refused:
        refuse_half_duplex(split("a", "b"), evaluator(made))
    assert len(refused.value.faults) == 1


def test_full_duplex_links_are_accepted():
    refuse_half_duplex(split("a", "b"), evaluator(cluster(("a", "b", "1 Mbit/s"))))
