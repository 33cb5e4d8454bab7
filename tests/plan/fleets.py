"""A fleet of 24: twenty phones with private data behind three edge servers and a cloud."""

from __future__ import annotations

from palmette.spec.cluster import Cluster, Link, Node, Power, Source
from palmette.spec.profile import Layer, Profile, Times

PHONES, EDGES = 20, 3
BATCH = 200
_EDGE_SPEEDS, _EDGE_IDLE_W = (1.0, 0.8, 0.6), (7.0, 6.0, 5.0)
# A small convolutional network on 32 × 32 images: name, bytes of weights, of one output, floating-point operations.
_LAYERS = (
    ("conv1", 3_584, 65_536, 1.8e6),
    ("pool1", 0, 16_384, 0.1e6),
    ("conv2", 73_984, 32_768, 9.4e6),
    ("pool2", 0, 8_192, 0.05e6),
    ("conv3", 295_424, 16_384, 9.4e6),
    ("pool3", 0, 4_096, 0.02e6),
    ("dense1", 524_800, 512, 0.26e6),
    ("dense2", 5_160, 40, 0.003e6),
)


def fleet(private: bool | str = True) -> tuple[Profile, Cluster]:
    """The profile and the cluster. Phones are equal; links and edge servers are not."""
    phones = [f"phone{k}" for k in range(PHONES)]
    edges = [f"edge{k}" for k in range(EDGES)]
    nodes = {name: _phone(private) for name in phones}
    for name, idle_w in zip(edges, _EDGE_IDLE_W, strict=True):
        nodes[name] = Node(tier="edge", power=Power(idle_w=idle_w, busy_w=3 * idle_w))
    nodes["cloud"] = Node(tier="cloud", power=Power(idle_w=90.0, busy_w=300.0))
    links = [_link(name, edges[k % EDGES], 40.0 - 10.0 * (k % EDGES), 90e-9) for k, name in enumerate(phones)]
    links += [_link(name, "cloud", mbps, 20e-9) for name, mbps in zip(edges, (100.0, 80.0, 50.0), strict=True)]
    links += [_link("edge0", "edge1", 200.0, 5e-9), _link("edge1", "edge2", 200.0, 5e-9)]
    rates = dict.fromkeys(phones, 4e9) | dict(zip(edges, (60e9 * s for s in _EDGE_SPEEDS), strict=True))
    rates["cloud"] = 2000e9
    return _profile(rates), Cluster(nodes=nodes, links=tuple(links))


def _phone(private: bool | str) -> Node:
    return Node(tier="device", power=Power(idle_w=1.0, busy_w=4.0), source=Source(samples=500, private=private))


def _link(a: str, b: str, mbps: float, energy: float) -> Link:
    return Link(between=(a, b), bandwidth_bps=mbps * 1e6, latency_s=0.003, energy_j_per_bit=energy)


def _profile(rates: dict[str, float]) -> Profile:
    def times(rate: float) -> Times:
        forward = tuple(flops / rate for *_, flops in _LAYERS)
        return Times(
            forward_s=forward,
            backward_s=tuple(2 * each for each in forward),
            update_s=tuple(2 * size / rate for _, size, _, _ in _LAYERS),
            forward_call_s=(2e5 / rate,) * len(_LAYERS),
            backward_call_s=(4e5 / rate,) * len(_LAYERS),
        )

    layers = tuple(Layer(name=n, parameter_bytes=p, output_bytes=o, flops=f) for n, p, o, f in _LAYERS)
    return Profile(
        model="small-cnn", input_bytes=3_072, layers=layers, nodes={name: times(rate) for name, rate in rates.items()}
    )
