"""The pure part of the testbed of namespaces: who has which address, where packets go, what slows them down."""

from __future__ import annotations

import itertools

import pytest

from palmette.cost.routes import Routes
from palmette.spec.cluster import Link
from palmette.testbed.namespace_network import HEADER_OVERHEAD, NamespaceNetwork, TcpEndpoint, TcpFlow, shaping_rules
from tests.testbed.stand import cluster

LINE = (("phone", "hut", "5 Mbit/s"), ("hut", "tower", "3 Mbit/s"), ("tower", "cloud", "8 Mbit/s"))


def wired(links, *hosts):
    made = cluster(*links)
    return NamespaceNetwork(made, hosts, Routes(made))


def followed(network, a, b):
    """Where packets from one node to another go, by the lines of every node on the way alone."""
    at, path, to = a, [a], network.address(b)
    names = {network.address(node): node for node in network.nodes}
    while at != b:
        lines = network.address_commands(at)
        rules = dict(line.split()[3::2] for line in lines if line.startswith("rule"))
        table = rules.get(network.address(a)) if at != a else None
        (route,) = [
            words
            for words in (line.split() for line in lines if line.startswith(f"route add {to} "))
            if (words[words.index("table") + 1] if "table" in words else None) == table
        ]
        at = names[route[route.index("via") + 1]] if "via" in route else b
        path.append(at)
    return path


def test_only_what_lies_between_the_hosts_is_wired():
    links = (*LINE, ("cloud", "idle", "1 Mbit/s"))
    network = wired(links, "phone", "tower")
    assert network.nodes == ["phone", "hut", "tower"]
    assert [link.device for link in network.links] == ["link0", "link1"]


def test_every_node_has_an_address_of_its_own():
    network = wired(LINE, "phone", "cloud")
    assert [network.address(node) for node in network.nodes] == ["10.71.0.1", "10.71.0.2", "10.71.0.3", "10.71.0.4"]


def test_each_end_of_a_link_has_the_rate_of_its_direction():
    link = Link(between=("phone", "hut"), up_bps=2e6, down_bps=10e6)
    made = cluster(("phone", "hut", "1 Mbit/s")).model_copy(update={"links": (link,)})
    network = NamespaceNetwork(made, ("phone", "hut"), Routes(made))
    for node, bps in (("phone", 2e6), ("hut", 10e6)):
        (bucket,) = [line for line in network.shaping_commands(node, 2.0, []) if "tbf" in line]
        assert f"rate {round(bps / 2 * HEADER_OVERHEAD)}bit" in bucket
        assert network.rate_commands(node, 2.0) == [bucket.replace("qdisc add", "qdisc change")]


def test_a_lone_host_needs_no_links():
    network = wired(LINE, "hut")
    assert (network.nodes, network.links, network.shaping_commands("hut", 1.0, [])) == (["hut"], [], [])


def test_packets_pass_relays_both_ways():
    network = wired(LINE, "phone", "cloud")
    assert followed(network, "phone", "cloud") == ["phone", "hut", "tower", "cloud"]
    assert followed(network, "cloud", "phone") == ["cloud", "tower", "hut", "phone"]


def test_packets_take_the_path_that_the_price_assumes():
    grid = [("a", "b"), ("b", "c"), ("d", "e"), ("e", "f"), ("g", "h"), ("h", "i")]
    grid += [("a", "d"), ("b", "e"), ("c", "f"), ("d", "g"), ("e", "h"), ("f", "i")]
    links = [(a, b, f"{1 + 7 * k % 5} Mbit/s") for k, (a, b) in enumerate(grid)]
    made = cluster(*links)
    hosts, routes = ("a", "c", "e", "g", "i"), Routes(made)
    network = NamespaceNetwork(made, hosts, routes)
    numbers = {frozenset(link.between): k for k, link in enumerate(made.links)}
    for a, b in itertools.permutations(hosts, 2):
        hops = [numbers[frozenset(hop)] for hop in itertools.pairwise(followed(network, a, b))]
        assert hops == [resource // 2 for resource in routes.between(a, b).resources]


def test_latency_is_that_of_the_whole_route():
    made = cluster(*LINE, latency="2 ms")
    assert NamespaceNetwork(made, ("phone", "cloud"), Routes(made)).latency_s("phone", "cloud") == pytest.approx(0.006)


def test_a_link_is_slowed_down_by_headers_and_dilation():
    network = wired(LINE, "phone", "hut")
    (bucket,) = [line for line in network.shaping_commands("phone", 10.0, []) if "tbf" in line]
    assert f"rate {round(0.5e6 * HEADER_OVERHEAD)}bit" in bucket


def test_a_rate_is_changed_to_what_it_would_have_been():
    network = wired(LINE, "phone", "hut")
    (changed,) = network.rate_commands("phone", 3.0)
    assert changed.replace("change", "add") in network.shaping_commands("phone", 3.0, [])


@pytest.mark.parametrize(("bandwidth_bps", "burst"), [(1e4, 1600), (5e6, 1600), (100e6, 6535), (1e18, 6250000)])
def test_a_bucket_is_small_but_for_fast_links(bandwidth_bps, burst):
    (bucket,) = [line for line in shaping_rules("link0", bandwidth_bps, []) if "tbf" in line]
    assert f"burst {burst} " in bucket


def test_a_link_slower_than_a_byte_a_second_still_has_a_rate():
    (bucket,) = [line for line in shaping_rules("link0", 0.001, []) if "tbf" in line]
    assert "rate 8bit" in bucket


def test_flows_take_turns_where_they_leave_a_node_and_nowhere_else():
    network = wired(LINE, "phone", "hut", "cloud")
    phone, hut, cloud = (TcpEndpoint(network.address(node), 40000) for node in ("phone", "hut", "cloud"))
    foreign = TcpEndpoint("10.9.9.9", 1)
    flows = [TcpFlow(phone, cloud), TcpFlow(hut, cloud), TcpFlow(cloud, phone), TcpFlow(foreign, cloud)]

    def turns(node, device):
        lines = [
            line for line in network.shaping_commands(node, 1.0, flows) if f"dev {device} " in line and "sport" in line
        ]
        return {line.split("ip src ")[1].split()[0] for line in lines}

    assert turns("phone", "link0") == {phone.address}
    assert turns("hut", "link1") == {phone.address, hut.address}
    assert turns("hut", "link0") == {cloud.address}
    assert turns("cloud", "link2") == {cloud.address}


def test_classes_of_many_flows_have_names_of_their_own():
    flows = [TcpFlow(TcpEndpoint("10.71.0.1", port), TcpEndpoint("10.71.0.2", 1)) for port in range(40)]
    named = [
        line.split("classid ")[1].split()[0] for line in shaping_rules("link0", 1e6, flows) if "classid 13:" in line
    ]
    assert len(set(named)) == 41
    assert named[15] == "13:10"  # tc reads them as hexadecimal


def test_marked_packets_of_each_flow_wait_for_all_others():
    flow = TcpFlow(TcpEndpoint("10.71.0.1", 5), TcpEndpoint("10.71.0.2", 6))
    lines = shaping_rules("link0", 1e6, [flow], background=True)
    classes = [line.split("classid ")[1].split() for line in lines if "classid 13:" in line]
    assert [(words[0], words[-1]) for words in classes] == [("13:1", "0"), ("13:2", "0"), ("13:3", "1")]
    unmarked, marked = (line for line in lines if "sport 5 " in line)
    assert "prio 2 u32 match ip src 10.71.0.1" in unmarked
    assert "prio 1 u32 match u8 0x8 0xfc at 1 match ip src 10.71.0.1" in marked
    assert (unmarked.split()[-1], marked.split()[-1]) == ("13:2", "13:3")


def test_without_background_traffic_there_are_no_classes_for_it():
    flow = TcpFlow(TcpEndpoint("10.71.0.1", 5), TcpEndpoint("10.71.0.2", 6))
    assert not [line for line in shaping_rules("link0", 1e6, [flow]) if "classid 13:3" in line or "0xfc" in line]


def test_send_buffers_are_small_on_slow_links_and_bounded_on_fast_ones():
    sizes = [wired([("a", "b", rate)], "a", "b").send_buffer_bytes("a") for rate in ("1 Mbit/s", "100 Mbit/s")]
    assert sizes == [65536, 1250000]
    assert wired([("a", "b", "100 Gbit/s")], "a", "b").send_buffer_bytes("a") == 4 * 2**20
