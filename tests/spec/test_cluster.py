"""A cluster reads as people write it, and says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from palmette.errors import InputError
from palmette.spec.cluster import Cluster, Limits, Link, Node, Power, Source
from palmette.spec.files import load, validated
from tests.spec.faulty import DATA, lines, told

TWO = "nodes: {phone: {tier: device}, server: {tier: edge}}\n"


def test_the_example_of_the_formats_reads_into_si() -> None:
    cluster = load(Cluster, DATA / "cluster.yaml")
    assert cluster.nodes["phone"] == Node(
        tier="device",
        memory_bytes=2.0**30,
        power=Power(idle_w=1.9, busy_w=5.1, exponent=3.0),
        source=Source(samples=50000, private=True, data="digits"),
        limits=Limits(cpu_share=0.3, energy_j=7.2e9),
    )
    assert cluster.links[0] == Link(
        between=("phone", "server"), bandwidth_bps=5e6, latency_s=0.002, energy_j_per_bit=9e-8
    )
    assert cluster.links[1].duplex == "half"
    assert (cluster.links[1].latency_s, cluster.links[1].energy_j_per_bit) == (0, 0)
    assert cluster.nodes["server"].limits == Limits(cpu_share=1.0, energy_j=None)
    assert cluster.nodes["server"].power == Power(idle_w=7.0, busy_w=22.0, exponent=1.0)
    assert cluster.sets["gold"] == ("cloud",)


def test_a_link_may_have_a_bandwidth_for_each_direction(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(TWO + "links: [{between: [phone, server], up: 2 Mbit/s, down: 10 Mbit/s}]", encoding="utf-8")
    (link,) = load(Cluster, path).links
    assert (link.rates_bps, link.slower_bps) == ((2e6, 10e6), 2e6)
    assert (link.from_bps("phone"), link.from_bps("server")) == (2e6, 10e6)
    assert (link.scaled(2.0).rates_bps, link.scaled(5.0, 1.0).bandwidth_bps) == ((4e6, 20e6), 10e6)
    path.write_text(load(Cluster, path).to_yaml(), encoding="utf-8")
    assert load(Cluster, path).links == (link,)


def test_nodes_are_found_by_tier_and_by_source() -> None:
    cluster = load(Cluster, DATA / "cluster.yaml")
    assert [cluster.tier(tier) for tier in ("device", "edge", "cloud")] == [["phone"], ["server"], ["cloud"]]
    assert cluster.sources() == ["phone"]


def test_a_document_cannot_be_changed() -> None:
    cluster = load(Cluster, DATA / "cluster.yaml")
    with pytest.raises(ValidationError, match="frozen"):
        cluster.links[0].latency_s = 1.0  # type: ignore[misc]


def test_both_forms_of_a_quantity_read_alike(tmp_path: Path) -> None:
    written, si = tmp_path / "a.yaml", tmp_path / "b.json"
    written.write_text("nodes: {a: {tier: edge, memory: 1 GiB}}", encoding="utf-8")
    si.write_text('{"nodes": {"a": {"tier": "edge", "memory_bytes": 1073741824}}}', encoding="utf-8")
    assert load(Cluster, written) == load(Cluster, si)


def test_an_unknown_node_in_a_link_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    found = lines(Cluster, TWO + "links: [{between: [phnoe, server], bandwidth: 5 Mbit/s}]", tmp_path)
    assert found == ["links[0].between[0]: phnoe: no such node; did you mean phone?"]


def test_an_unknown_node_unlike_any_is_told_with_those_there_are(tmp_path: Path) -> None:
    found = lines(Cluster, TWO + "sets: {gold: [phone, xyz]}", tmp_path)
    assert found == ["sets.gold[1]: xyz: no such node; expected one of phone, server"]


def test_a_missing_unit_is_told_with_the_units_accepted(tmp_path: Path) -> None:
    (line,) = lines(Cluster, TWO + "links: [{between: [phone, server], bandwidth: 5}]", tmp_path)
    assert line.startswith("links[0].bandwidth: 5: expected a bandwidth with a unit (bit/s, kbit/s, Mbit/s, ")
    assert line.endswith("such as 5 Mbit/s")


@pytest.mark.parametrize(
    ("content", "field", "value"),
    [
        ("nodes: {a: {tier: edge, memory: 8}}", "nodes.a.memory", 8),
        ("nodes: {a: {tier: edge, memory: 8 GBit}}", "nodes.a.memory", "8 GBit"),
        ("nodes: {a: {tier: edge, memory: null}}", "nodes.a.memory", None),
        ("nodes: {a: {tier: edge, memory: 0 B}}", "nodes.a.memory", "0 B"),
        ("nodes: {a: {tier: edge, memory: 1e30 B}}", "nodes.a.memory", "1e30 B"),
        ("nodes: {a: {tier: edge, power: {idle: 1, busy: 2 W}}}", "nodes.a.power.idle", 1),
        ("nodes: {a: {tier: edge, power: {idle: -1 W, busy: 2 W}}}", "nodes.a.power.idle", "-1 W"),
        ("nodes: {a: {tier: edge, power: {idle: 1 W, busy: 1e400 W}}}", "nodes.a.power.busy", "1e400 W"),
        ("nodes: {a: {tier: edge, power: {idle: 1 W}}}", "nodes.a.power.busy", "missing"),
        ("nodes: {a: {tier: edge, power: 5 W}}", "nodes.a.power", "5 W"),
        ("nodes: {a: {tier: edge, power: {idle: 3 W, busy: 2 W}}}", "nodes.a.power.busy", "2.0 W"),
        ("nodes: {a: {tier: edge, power: {idle: 1 W, busy: 2 W, exponent: 0}}}", "nodes.a.power.exponent", 0),
        ("nodes: {a: {tier: edge, limits: {cpu: 130%}}}", "nodes.a.limits.cpu", "130%"),
        ("nodes: {a: {tier: edge, limits: {cpu: 0%}}}", "nodes.a.limits.cpu", "0%"),
        ("nodes: {a: {tier: edge, limits: {cpu: 0.3}}}", "nodes.a.limits.cpu", 0.3),
        ("nodes: {a: {tier: edge, source: {samples: 0}}}", "nodes.a.source.samples", 0),
        ("nodes: {a: {tier: edge, source: {samples: 1.5}}}", "nodes.a.source.samples", 1.5),
        ("nodes: {a: {tier: edge, source: {samples: 9, private: 1}}}", "nodes.a.source.private", 1),
        ("nodes: {a: {tier: fog}}", "nodes.a.tier", "fog"),
        ("nodes: {a: edge}", "nodes.a", "edge"),
        ("nodes: {a: }", "nodes.a", None),
        ("nodes: {}", "nodes", {}),
        ("nodes: [a, b]", "nodes", ["a", "b"]),
        ("nodes: {1: {tier: edge}}", "nodes.1", 1),
        ('nodes: {"": {tier: edge}}', "nodes.", ""),
        ("sets: {}", "nodes", "missing"),
        (TWO + "links: {}", "links", {}),
        (TWO + "links: [phone]", "links[0]", "phone"),
        (TWO + "links: [{between: [phone, server], bandwidth: -5 Mbit/s}]", "links[0].bandwidth", "-5 Mbit/s"),
        (TWO + "links: [{between: [phone, server], bandwidth: 0 bit/s}]", "links[0].bandwidth", "0 bit/s"),
        (TWO + "links: [{between: [phone, server], bandwidth: .inf}]", "links[0].bandwidth", float("inf")),
        (TWO + "links: [{between: [phone, server], bandwidth_bps: .inf}]", "links[0].bandwidth_bps", float("inf")),
        (TWO + "links: [{between: [phone, server]}]", "links[0].bandwidth", "missing"),
        (TWO + "links: [{between: [phone, server], up: 1 bit/s}]", "links[0].down", "missing"),
        (TWO + "links: [{between: [phone, server], down_bps: 1.0}]", "links[0].up", "missing"),
        (TWO + "links: [{between: [phone, server], up: 5}]", "links[0].up", 5),
        (TWO + "links: [{between: [phone, server], up: 0 bit/s, down: 1 bit/s}]", "links[0].up", "0 bit/s"),
        (TWO + "links: [{between: [phone, server], bandwidth: 1 bit/s, down: 1 bit/s}]", "links[0].down", "1 bit/s"),
        (
            TWO + "links: [{between: [phone, server], up: 1 bit/s, down: 1 bit/s, duplex: half}]",
            "links[0].duplex",
            "half",
        ),
        (TWO + "links: [{between: [phone, phone], bandwidth: 1 bit/s}]", "links[0].between", "phone"),
        (TWO + "links: [{between: [phone], bandwidth: 1 bit/s}]", "links[0].between[1]", "missing"),
        (TWO + "links: [{between: [phone, server], bandwidth: 1 bit/s, duplex: no}]", "links[0].duplex", False),
        (TWO + "sets: {gold: phone}", "sets.gold", "phone"),
    ],
)
def test_a_fault_is_told_with_its_field_and_value(tmp_path: Path, content: str, field: str, value: object) -> None:
    (fault,) = told(Cluster, content, tmp_path)
    assert (fault.field, fault.value) == (field, value)
    assert fault.expected


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("nodes: {a: {tier: edge, memory: 0 B}}", "nodes.a.memory: 0 B: expected more than 0 B"),
        ("nodes: {a: {tier: edge, limits: {cpu: 130%}}}", "nodes.a.limits.cpu: 130%: expected at most 100%"),
        (
            TWO + "links: [{between: [phone, server], bandwidth: -5 Mbit/s}]",
            "links[0].bandwidth: -5 Mbit/s: expected at least 1 bit/s",
        ),
    ],
)
def test_bounds_are_told_with_their_unit(tmp_path: Path, content: str, line: str) -> None:
    assert lines(Cluster, content, tmp_path) == [line]


def test_a_name_has_to_be_a_name_even_where_yaml_makes_it_a_number(tmp_path: Path) -> None:
    (line,) = lines(Cluster, "nodes: {1: {tier: edge}}", tmp_path)
    assert line == "nodes.1: 1: expected a string"


def test_nodes_joined_twice_are_told(tmp_path: Path) -> None:
    twice = "[{between: [phone, server], bandwidth: 1 bit/s}, {between: [server, phone], bandwidth: 1 bit/s}]"
    assert lines(Cluster, TWO + "links: " + twice, tmp_path) == [
        "links[1].between: server, phone: links[0] joins them already"
    ]


@pytest.mark.parametrize(
    ("content", "guess"),
    [
        ("nodes: {a: {teir: edge}}", "nodes.a.teir: edge: unknown field; did you mean tier?"),
        ("nodes: {a: {tier: edge, memroy: 1 B}}", "nodes.a.memroy: 1 B: unknown field; did you mean memory?"),
        (TWO + "lnks: []", "lnks: []: unknown field; did you mean links?"),
        (TWO + "color: red", "color: red: unknown field; expected one of carbon, nodes, links, sets"),
    ],
)
def test_unknown_fields_are_told_once_with_the_nearest(tmp_path: Path, content: str, guess: str) -> None:
    assert lines(Cluster, content, tmp_path) == [guess]


def test_a_quantity_in_both_forms_is_refused(tmp_path: Path) -> None:
    (line,) = lines(Cluster, "nodes: {a: {tier: edge, memory: 1 B, memory_bytes: 2}}", tmp_path)
    assert line == "nodes.a.memory: 1 B: memory_bytes says the same; expected one of the two"


def test_everything_wrong_with_a_file_is_told_at_once(tmp_path: Path) -> None:
    content = """
nodes:
  phone: {tier: devise, memory: 5}
  server: {tier: edge, power: {idle: 3 W, busy: 2 W}}
links:
  - {between: [phnoe, server], bandwidth: -5 Mbit/s}
  - {between: [server, server], bandwidht: 5 Mbit/s}
sets: {gold: [clod]}
"""
    assert [fault.field for fault in told(Cluster, content, tmp_path)] == [
        "nodes.phone.memory",
        "nodes.phone.tier",
        "nodes.server.power.busy",
        "links[0].bandwidth",
        "links[1].bandwidht",
        "links[0].between[0]",
        "links[1].between",
        "sets.gold[0]",
    ]


@pytest.mark.parametrize("name", ["a\nb", "a\r\nb", "a\x1b[31mb", "a\x00b", "a\u2028b", "a\tb"])
def test_control_characters_in_names_do_not_break_a_line(tmp_path: Path, name: str) -> None:
    content = {
        "nodes": {name: {"tier": "fog", name: 1}, "c": {"tier": "edge"}},
        "links": [{"between": [name * 2, "c"], "bandwidth": name}],
        "sets": {name: [name + "!"]},
    }
    found = lines(Cluster, content, tmp_path, ".json")
    assert [line.rpartition(": ")[2] for line in found].count("expected a name without control characters") == 4


def test_half_a_surrogate_pair_among_the_names_does_not_break_a_line(tmp_path: Path) -> None:
    content = {"nodes": {"\ud800": {"tier": "edge"}}, "sets": {"gold": ["a"]}}
    found = lines(Cluster, content, tmp_path, ".json")
    assert found[-1] == r"sets.gold[0]: a: no such node; expected one of \ud800"


def test_a_cluster_is_written_as_a_person_would_and_without_defaults() -> None:
    cluster = Cluster(
        nodes={"a": Node(tier="edge", memory_bytes=2.0**31), "b": Node(tier="cloud", limits=Limits(energy_j=3600.0))},
        links=(Link(between=("a", "b"), bandwidth_bps=1e6),),
    )
    assert cluster.to_yaml().splitlines() == [
        "nodes:",
        "  a:",
        "    tier: edge",
        "    memory: 2 GiB",
        "  b:",
        "    tier: cloud",
        "    limits:",
        "      energy: 1 Wh",
        "links:",
        "- between:",
        "  - a",
        "  - b",
        "  bandwidth: 1 Mbit/s",
    ]


def test_a_thousand_nodes_with_wrong_links_are_told_in_time(tmp_path: Path) -> None:
    content = {
        "nodes": {f"device{k}": {"tier": "device"} for k in range(1000)},
        "links": [{"between": [f"device{k}", f"devise{k}"], "bandwidth": "1 Mbit/s"} for k in range(30)],
    }
    assert len(told(Cluster, content, tmp_path, ".json")) == 30


def test_of_very_many_wrong_names_only_the_first_are_guessed() -> None:
    """A guess looks at all names, so that as many guesses as names would take minutes."""
    nodes = {f"node{k}": {"tier": "device"} for k in range(300)}
    links = [{"between": ["node0", f"nod{k}"], "bandwidth_bps": 1e6} for k in range(1, 300)]
    with pytest.raises(InputError) as refused:
        validated(Cluster, {"nodes": nodes, "links": links})
    said = [fault.expected for fault in refused.value.faults]
    assert len(said) == 299
    assert said[0].startswith("no such node; did you mean node")
    assert said[-1] == "no such node"


PRICED = """\
carbon: 300 g/kWh
nodes:
  phone: {tier: device, source: {samples: 10}}
  cloud: {tier: cloud, price: 0.4 EUR/h, carbon: 0.05 kg/kWh}
"""


def test_prices_and_intensities_read_and_write_as_a_person_would(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(PRICED, encoding="utf-8")
    cluster = load(Cluster, tmp_path / "c.yaml")
    assert cluster.currency == "EUR"
    price = cluster.nodes["cloud"].price
    assert price is not None
    assert price.per_hour == 0.4
    assert [cluster.carbon_of(name) for name in cluster.nodes] == [300, 50]
    written = cluster.to_yaml()
    assert "price: 0.4 EUR/h" in written
    assert "carbon: 300 g/kWh" in written
    (tmp_path / "again.yaml").write_text(written, encoding="utf-8")
    assert load(Cluster, tmp_path / "again.yaml") == cluster


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("0.4 EUR/h", "0.4", "nodes.cloud.price: 0.4: expected a price with its currency, such as 0.4 EUR/h"),
        ("0.4 EUR/h", "-1 EUR/h", "expected a price with its currency, such as 0.4 EUR/h"),
        ("0.05 kg/kWh", "50", "nodes.cloud.carbon: 50: expected a carbon intensity with a unit"),
        ("{samples: 10}", "{samples: 10}, price: 1 USD/h", "expected one currency in a cluster; phone has USD"),
    ],
)
def test_a_price_that_cannot_be_read_is_told(tmp_path: Path, before: str, after: str, line: str) -> None:
    (tmp_path / "c.yaml").write_text(PRICED.replace(before, after), encoding="utf-8")
    with pytest.raises(InputError) as told:
        load(Cluster, tmp_path / "c.yaml")
    assert line in str(told.value)
    assert len(str(told.value).splitlines()) == 1
