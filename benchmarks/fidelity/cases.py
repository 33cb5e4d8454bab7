"""The ordinary cases: five trees of LeNet-5 and AlexNet on three nodes in a row, at several bandwidths."""

from __future__ import annotations

from collections.abc import Iterator

from palmette.measure.profiling import profile_network
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.models import load_network

BANDWIDTHS_MBIT = (1.5, 5.0, 20.0, 100.0)
# Whole replicas of AlexNet exchange 94 MB each way.
REPLICA_BANDWIDTHS_MBIT = {"lenet5": BANDWIDTHS_MBIT, "alexnet?size=32&classes=10": (50.0, 100.0)}
BATCHES = {"lenet5": 48, "alexnet?size=32&classes=10": 12}

Tree = tuple[dict[str, int], list[tuple[str, tuple[int, int], str, str | None]]]


def trees(layers: int, batch: int) -> dict[str, Tree]:
    """Five trees: samples into instances, and instances as (id, layers, node, into)."""
    third, cut, deep = batch // 3, 2, 4
    return {
        "all-cloud": ({"A": batch}, [("A", (1, layers), "cloud", None)]),
        "split-in-two": ({"A": batch}, [("A", (1, cut), "phone", "B"), ("B", (cut + 1, layers), "server", None)]),
        "split-in-three": (
            {"A": batch},
            [
                ("A", (1, cut), "phone", "B"),
                ("B", (cut + 1, deep), "server", "C"),
                ("C", (deep + 1, layers), "cloud", None),
            ],
        ),
        "hiertrain-like": (
            {"S": third, "L": third, "O1": batch - 2 * third},
            [
                ("S", (1, cut), "phone", "O2"),
                ("L", (1, deep), "server", "O3"),
                ("O1", (1, cut), "cloud", "O2"),
                ("O2", (cut + 1, deep), "cloud", "O3"),
                ("O3", (deep + 1, layers), "cloud", None),
            ],
        ),
        "three-replicas": (
            {"A": third, "B": third, "C": batch - 2 * third},
            [(k, (1, layers), node, None) for k, node in zip("ABC", ("cloud", "server", "phone"), strict=True)],
        ),
    }


def cluster(bandwidth_mbit: float) -> Cluster:
    """Three tiers in a row; none of the nodes is much faster than one core of an ordinary machine."""
    return fill_hardware_defaults(
        Cluster.model_validate(
            {
                "nodes": {
                    "phone": {"tier": "device", "hardware": "raspberry-pi-4", "source": {"samples": 1500}},
                    "server": {"tier": "edge", "hardware": "nuc-i3-7100u-1"},
                    "cloud": {"tier": "cloud", "hardware": "nuc-i3-7100u-4"},
                },
                "links": [
                    {"between": ["phone", "server"], "bandwidth": f"{bandwidth_mbit} Mbit/s", "latency": "2 ms"},
                    {"between": ["server", "cloud"], "bandwidth": f"{bandwidth_mbit} Mbit/s", "latency": "5 ms"},
                ],
            }
        )
    )


def plan(model: str, tree: Tree) -> Plan:
    """A tree as a plan."""
    fed, instances = tree
    phase = Phase.model_validate(
        {
            "sources": [{"node": "phone", "samples": many, "into": into} for into, many in fed.items()],
            "instances": [{"id": i, "layers": run, "node": n, "into": into} for i, run, n, into in instances],
        }
    )
    return Plan(model=model, batch=sum(fed.values()), phases=(phase,))


def cases(
    models: list[str], bandwidths: list[float], quick: bool
) -> Iterator[tuple[str, str, float, Plan, Profile, Cluster]]:
    """Every network, tree and bandwidth, or only those asked for."""
    for model in models:
        network = load_network(model)
        profile = profile_network(network, cluster(5.0), [])
        for name, tree in trees(len(network.layers), BATCHES[model]).items():
            wanted = REPLICA_BANDWIDTHS_MBIT[model] if name == "three-replicas" else BANDWIDTHS_MBIT
            asked = [bandwidth for bandwidth in wanted if not bandwidths or bandwidth in bandwidths]
            for bandwidth in (asked[-2:-1] or asked) if quick else asked:
                yield model, name, bandwidth, plan(model, tree), profile, cluster(bandwidth)
