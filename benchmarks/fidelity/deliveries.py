"""Cases in which samples are kept, streamed, or travel ahead: iterations of the first epoch and of later ones.

    python -m benchmarks.fidelity --deliveries

Samples are pictures of 3,072 bytes, as CIFAR-10's are, so that they need some time on their way. Where branches on
several nodes keep samples, some still have to be sent in later epochs: the estimate is for the second to the tenth.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.fidelity.cases import Tree, cluster, plan, trees
from palmette.control.run.request import FULL_TRACE, Request
from palmette.control.run.session import TrainingSession, prepare
from palmette.cost.delivery import first_fractions, later_fractions, sending_sources
from palmette.measure.profiling import load_samples, profile_network
from palmette.runtime.options import Options
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.spec.tree import Delivery
from palmette.zoo.models import load_network

MODEL, BATCH = "lenet5", 48
BRANCHES = ("hiertrain-like", "three-replicas")
# Branches that keep samples are run for ten epochs, so not on slow links. At 1 Gbit/s latency is most of a transfer.
BANDWIDTHS_MBIT = {
    "all-cloud": (5.0, 20.0, 100.0, 1000.0),
    "there-and-back": (5.0, 20.0, 100.0),
    "hiertrain-like": (20.0, 100.0),
    "three-replicas": (100.0,),
}
QUICK_BANDWIDTH_MBIT = 20.0
# Mean and deviation of a picture's bytes.
MIDDLE, DEVIATION = 127.5, 73.9


class Way(NamedTuple):
    """How samples reach other nodes."""

    name: str
    delivery: Delivery
    ahead: bool

    @property
    def stream(self) -> bool:
        """Whether samples are always new."""
        return self.delivery == "each"


WAYS = (Way("kept", "once", False), Way("kept, ahead", "once", True), Way("streamed, ahead", "each", True))


class Length(NamedTuple):
    """How long a case is run: iterations of an epoch, and epochs."""

    epoch: int
    epochs: int

    @property
    def samples(self) -> int:
        """Of the data."""
        return self.epoch * BATCH


def length(tree: str, way: Way) -> Length:
    """Ten epochs where samples that were kept on one node come to another; of a stream there is one."""
    if way.stream:
        return Length(40, 1)
    return Length(10, 10) if tree in BRANCHES else Length(20, 2)


class Case(NamedTuple):
    """A tree whose samples are delivered in one way."""

    tree: str
    way: Way
    bandwidth_mbit: float
    plan: Plan
    profile: Profile
    cluster: Cluster

    @property
    def length(self) -> Length:
        """How long it is run."""
        return length(self.tree, self.way)

    @property
    def spans(self) -> dict[str, range]:
        """The iterations of the first epoch and of later ones; of a stream, which has no later ones, all."""
        epoch, epochs = self.length
        first = range(1, epoch)
        return {"all": first} if self.way.stream else {"first": first, "later": range(epoch + 1, epoch * epochs)}


class Pictures:
    """Random pictures of three bytes a pixel, with random labels."""

    classes = 10

    def __init__(self, samples: int, seed: int) -> None:
        made = np.random.default_rng(seed)
        self._pixels = made.integers(0, 256, (samples, 3, 32, 32), dtype=np.uint8)
        self._labels = made.integers(0, self.classes, samples)

    def __len__(self) -> int:
        return len(self._labels)

    def stored(self, number: int) -> bytes:
        """A picture as it is stored."""
        return self._pixels[number].tobytes()

    def decode(self, stored: bytes) -> Tensor:
        """A picture as the network takes it."""
        pixels = np.frombuffer(stored, dtype=np.uint8).reshape(3, 32, 32).astype(np.float32)
        return torch.from_numpy((pixels - MIDDLE) / DEVIATION)

    def label(self, number: int) -> int:
        """The label of a picture."""
        return int(self._labels[number])


def pictures_480(train: bool) -> Pictures:
    """The pictures to train on, or a few to evaluate on."""
    return Pictures(480 if train else BATCH, int(not train))


def pictures_960(train: bool) -> Pictures:
    """The same for longer epochs."""
    return Pictures(960 if train else BATCH, int(not train))


def pictures_1920(train: bool) -> Pictures:
    """The same for a stream, which uses each once."""
    return Pictures(1920 if train else BATCH, int(not train))


def data_name(samples: int) -> str:
    """Where to find so many pictures."""
    return f"{__name__}:pictures_{samples}"


def delivery_trees(layers: int) -> dict[str, Tree]:
    """One node, branches on several, replicas; and a chain whose gradients take the samples' way."""
    usual = trees(layers, BATCH)
    back = [("A", (1, 2), "server", "B"), ("B", (3, layers), "phone", None)]
    return {
        "all-cloud": usual["all-cloud"],
        "there-and-back": ({"A": BATCH}, back),
        "hiertrain-like": usual["hiertrain-like"],
        "three-replicas": usual["three-replicas"],
    }


def delivery_cases(bandwidths: list[float], quick: bool) -> Iterator[Case]:
    """Every tree, way and bandwidth, or only those asked for."""
    network = load_network(MODEL)
    profile = profile_network(network, cluster(5.0), [], samples=load_samples(network, data_name(480), "stored"))
    made = delivery_trees(len(network.layers))
    for name in ["all-cloud"] if quick else made:
        wanted = [QUICK_BANDWIDTH_MBIT] if quick else BANDWIDTHS_MBIT[name]
        for way in WAYS[1:2] if quick else WAYS:
            for bandwidth in [each for each in wanted if not bandwidths or each in bandwidths]:
                where = with_samples(cluster(bandwidth), length(name, way).samples, stream=way.stream)
                yield Case(name, way, bandwidth, delivered(plan(MODEL, made[name]), way), profile, where)


def with_samples(where: Cluster, samples: int, *, stream: bool) -> Cluster:
    """The cluster with so many pictures on its phone."""
    phone = where.nodes["phone"]
    assert phone.source is not None, "the phone owns the data"
    source = phone.source.model_copy(update={"samples": samples, "stream": stream})
    nodes = where.nodes | {"phone": phone.model_copy(update={"source": source})}
    return where.model_copy(update={"nodes": nodes})


def delivered(made: Plan, way: Way) -> Plan:
    """The plan with its samples delivered like this."""
    (phase,) = made.phases
    sources = tuple(source.model_copy(update={"delivery": way.delivery}) for source in phase.sources)
    return made.model_copy(update={"phases": (phase.model_copy(update={"sources": sources, "ahead": way.ahead}),)})


def delivery_rows(case: Case, testbed: str, transport: str) -> list[dict[str, Any]]:
    """Run a case; a row for the first epoch and one for the later ones, or one for a stream.

    A run whose dilation was increased is repeated with the last one: meanwhile samples have travelled ahead, and the
    next iterations do not wait for any.
    """
    found = run_case(case, testbed, transport, None)
    if found.widened:
        found = run_case(case, testbed, transport, found.dilation)
    about: dict[str, Any] = {"testbed": testbed, "transport": transport, "model": MODEL, "tree": case.tree}
    about |= {"bandwidth_mbit": case.bandwidth_mbit, "delivery": case.way.name}
    about |= {"dilation": found.dilation, "load_average": os.getloadavg()[0]}
    rows = []
    for which, span in case.spans.items():
        times_s, sizes = [found.took_s[k] for k in span], [found.sent_bytes[k] for k in span]
        rows.append({**about, "epochs": which, **compared(found.session, which, times_s, sizes)})
    return rows


class DeliveryRun(NamedTuple):
    """What came out of a run: seconds of each iteration, and the bytes of samples that were sent for it."""

    session: TrainingSession
    dilation: float
    widened: bool
    took_s: list[float]
    sent_bytes: Mapping[int, float]


def run_case(case: Case, testbed: str, transport: str, dilation: float | None) -> DeliveryRun:
    """Run a case, with a fixed dilation if one is given."""
    data, options = data_name(case.length.samples), Options(seed=1, lr=0.001)
    where: dict[str, Any] = {"testbed": testbed, "transport": transport, "dilation": dilation}
    request = Request(
        trace=FULL_TRACE,
        data=data,
        iterations=case.length.epoch * case.length.epochs,
        replan=False,
        options=options,
        **where,
    )
    with tempfile.TemporaryDirectory() as folder:
        session = prepare(case.plan, case.profile, case.cluster, request, Path(folder))
        outcome = session.run(lambda _: None, lambda _: None)
        took_s, sent_bytes = iterations_s(Path(folder)), sample_bytes(Path(folder), case.plan.phases[0])
    return DeliveryRun(session, outcome.dilation, bool(outcome.dilation_increases), took_s, sent_bytes)


def compared(running: TrainingSession, which: str, took_s: list[float], sent_bytes: list[float]) -> dict[str, float]:
    """Measured iterations and the bytes of their samples beside the estimates."""
    (phase,), prices = running.plan.phases, running.evaluator
    price, first = prices.price(phase), which == "first"
    estimated_s = price.first_epoch_iteration_s if first else price.iteration_s
    fractions = first_fractions(phase) if first else later_fractions(phase, prices.cluster)
    parts = zip(phase.sources, fractions, strict=True)
    sizes = prices.sizes(phase.pruning)
    expected = sum(part * each.samples * sizes.sample_bytes(each.node, phase.input_as) for each, part in parts)
    measured_s, sent = statistics.median(took_s), statistics.mean(sent_bytes)
    return {
        "measured_s": measured_s,
        "estimated_s": estimated_s,
        "error": measured_s / estimated_s - 1,
        "sample_bytes": sent,
        "estimated_sample_bytes": expected,
        "bytes_error": sent / expected - 1 if expected else sent,
    }


def iterations_s(folder: Path) -> list[float]:
    """Seconds of each iteration, by its number."""
    return [line["iteration_s"] for line in lines(folder / "metrics.jsonl") if "iteration_s" in line]


def sample_bytes(folder: Path, phase: Phase) -> Mapping[int, float]:
    """Bytes of samples that were sent for each iteration: from their owner, into an instance on another node."""
    fed = {phase.sources[k].into for k in sending_sources(phase)}
    found: dict[int, float] = defaultdict(float)
    for line in lines(folder / "trace.jsonl"):
        if line["op"] == "send" and line["node"] == "phone" and line["instance"] in fed:
            found[line["iteration"]] += line["bytes"]
    return found


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file that a run has written."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)
