"""The worlds: who owns which data, what may become of it, and over which links; and the images themselves.

A board with a camera owns the images, an edge server and a cloud with a GPU stand behind it: ``phone`` ── uplink ──
``edge`` ── 100 Mbit/s ── ``cloud``. Hardware is the catalogue's.
"""

from __future__ import annotations

import pickle
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from palmette.spec.cluster import Cluster
from palmette.spec.profile import Profile
from palmette.zoo.data.cifar10_files import read_cifar10
from palmette.zoo.hardware_defaults import fill_hardware_defaults

HARDWARE = {"phone": "raspberry-pi-4", "edge": "nuc-i3-7100u-4", "cloud": "xeon-gtx-1080-ti"}
UPLINKS_MBIT, EPOCHS, BATCH = (5.0, 20.0, 100.0), (1, 5, 20), 64
BACKBONE_MBIT, UPLINK_LATENCY_MS, BACKBONE_LATENCY_MS = 100.0, 5, 10
ARCHIVE = Path(__file__).resolve().parents[3] / "shared" / "data" / "cifar-10-python-24k.tar.xz"
IMAGES, DIGITS = 20_000, 1_500
OWNERS = 4
SMALL_STORAGE = "8 MiB"

Rule = Literal["open", "private", "stream", "small storage", "private owners"]
"""What may become of the data: copied at will; never leave its node; be used once; not fit elsewhere; have owners."""


class World(NamedTuple):
    """A training, and the cluster that it is for."""

    model: str
    rule: Rule
    uplink_mbit: float
    epochs: int
    samples: int
    cluster: Cluster

    @property
    def may_be_copied(self) -> bool:
        """Whether a user may copy the data, and keep the copy."""
        return self.rule == "open"

    @property
    def may_leave(self) -> bool:
        """Whether samples may leave their node."""
        return self.rule in ("open", "stream", "small storage")

    @property
    def iterations(self) -> int:
        """Of the whole training."""
        return self.epochs * -(-self.samples // BATCH)

    def sample_bytes(self, profile: Profile) -> float:
        """One stored sample."""
        return profile.sample_bytes or profile.input_bytes


def world(model: str, rule: Rule, uplink_mbit: float, epochs: int, samples: int) -> World:
    """A world in which samples are owned under a rule; a stream is used once, whatever is asked for."""
    owners = [f"phone{k}" for k in range(1, OWNERS + 1)] if rule == "private owners" else ["phone"]
    source: dict[str, Any] = {"samples": samples // len(owners)}
    source |= {"private": True} if rule in ("private", "private owners") else {}
    source |= {"stream": True} if rule == "stream" else {}
    keeps = {"storage": SMALL_STORAGE} if rule == "small storage" else {}
    nodes: dict[str, Any] = {
        name: {"tier": "device", "hardware": HARDWARE["phone"], "source": source} for name in owners
    }
    nodes |= {tier: {"tier": tier, "hardware": HARDWARE[tier], **keeps} for tier in ("edge", "cloud")}
    links = [_link(name, "edge", uplink_mbit, UPLINK_LATENCY_MS) for name in owners]
    links.append(_link("edge", "cloud", BACKBONE_MBIT, BACKBONE_LATENCY_MS))
    cluster = fill_hardware_defaults(Cluster.model_validate({"nodes": nodes, "links": links}))
    return World(model, rule, uplink_mbit, 1 if rule == "stream" else epochs, samples, cluster)


def _link(a: str, b: str, bandwidth_mbit: float, latency_ms: float) -> dict[str, Any]:
    return {"between": [a, b], "bandwidth": f"{bandwidth_mbit} Mbit/s", "latency": f"{latency_ms} ms"}


class Images(NamedTuple):
    """Data by its name, and how many samples there are to train on."""

    data: str
    samples: int


@contextmanager
def images(path: Path, samples: int) -> Iterator[Images]:
    """So many of CIFAR-10's images in a temporary folder; the digits where the archive is missing."""
    if not path.exists():
        yield Images("digits", min(samples, DIGITS))
        return
    with TemporaryDirectory() as folder:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        if samples < IMAGES:
            keep_first(Path(folder) / "cifar-10-batches-py", samples)
        yield Images(f"cifar10:{folder}/cifar-10-batches-py", samples)


def keep_first(folder: Path, samples: int) -> None:
    """Cut the images to train on to the first ones, in files of equal size."""
    train, _ = read_cifar10(folder)
    files = sorted(folder.glob("data_batch_*"))
    part = samples // len(files)
    for k, path in enumerate(files):
        own = slice(k * part, (k + 1) * part)
        content = {b"data": train.pixels[own].reshape(part, -1), b"labels": train.labels[own].tolist()}
        path.write_bytes(pickle.dumps(content))
