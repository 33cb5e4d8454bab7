"""The setting of HierTrain's evaluation, section VI: its machines, links, networks and bandwidths.

A Raspberry Pi 3, an Intel NUC with one core in use (1 to 4 in Fig. 11) and a workstation with a GTX 1080 Ti;
5 Mbit/s between device and edge server, 1.5 to 5 Mbit/s between edge server and cloud; LeNet-5 on 32×32×3 in 10 classes
and AlexNet on 64×64×3 in 200.
"""

from __future__ import annotations

from palmette.measure.profiling import profile_network
from palmette.spec.cluster import Cluster, Link, Node, Source
from palmette.spec.profile import Profile
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.models import load_network

DEVICE_EDGE_MBPS = 5.0
EDGE_CLOUD_MBPS = (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
NETWORKS = {"AlexNet": "alexnet?classes=200&size=64", "LeNet-5": "lenet5"}
TABLE_2_SIZE = "?classes=200&size=64"
TABLE_2 = {"LeNet": "lenet5"} | {
    name: f"{zoo}{TABLE_2_SIZE}"
    for name, zoo in {
        "AlexNet": "alexnet",
        "VGG-16": "vgg16",
        "VGG-19": "vgg19",
        "googLeNet": "googlenet",
        "ResNet-34": "resnet34",
    }.items()
}


def machines(edge_cloud_mbps: float, cores: int = 1) -> Cluster:
    """The paper's three machines; only one core of the edge server is in use unless said otherwise."""
    nodes = {
        "device": Node(tier="device", hardware="raspberry-pi-3", source=Source(samples=50_000)),
        "edge": Node(tier="edge", hardware=f"nuc-i3-7100u-{cores}"),
        "cloud": Node(tier="cloud", hardware="xeon-gtx-1080-ti"),
    }
    links = (
        Link(between=("device", "edge"), bandwidth_bps=DEVICE_EDGE_MBPS * 1e6),
        Link(between=("edge", "cloud"), bandwidth_bps=edge_cloud_mbps * 1e6),
    )
    return fill_hardware_defaults(Cluster(nodes=nodes, links=links))


def catalogue_profile(network: str, cores: int = 1) -> Profile:
    """What the catalogue's roofline predicts for a network on these machines."""
    return profile_network(load_network(network), machines(EDGE_CLOUD_MBPS[0], cores))
