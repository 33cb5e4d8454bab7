"""Random plans at a hub, which orders them by names and numbers: the weights are those over gloo, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import pytest

from palmette.cli import execute
from palmette.errors import InputError
from palmette.spec.cluster import Cluster
from palmette.spec.files import load, validated
from palmette.spec.plan import Phase
from tests.control.hub_workers import HubWorkers
from tests.control.run.test_hub import place  # noqa: F401  (a fixture)
from tests.cost.random_trees import random_phase
from tests.runtime.world import NODES, TINY, Runs, weights
from tests.thorough import mostly_thorough

OUTER = {"lr": 0.7, "momentum": 0.5}


def random_run(seed: int, cluster: Cluster) -> tuple[Phase, list[str]]:
    """A phase, and options of a run; one that is refused is drawn again."""
    draw = random.Random(seed)
    while True:
        fields = random_phase(draw, cluster, 5).model_dump()
        for each in fields["sources"]:
            each |= {"samples": draw.randint(2, 6), "delivery": draw.choice(["each", "once"]), "epoch_samples": None}
        for each in fields["instances"]:
            each["recompute"] = draw.random() < 0.2
        fields |= random_agreement(draw)
        options = ["--optimizer", draw.choice(["sgd", "momentum", "adam"])]
        options += draw.choice([[], ["--accumulate", "2"], ["--schedule", "cosine"]])
        try:
            return validated(Phase, fields), options
        except InputError:
            continue


def random_agreement(draw: random.Random) -> dict[str, Any]:
    """How replicas agree, and what travels."""
    sync = draw.choice(["step", "every", "epoch", "epoch"])
    codec = {"exchange": {"codec": draw.choice(["bf16", "int8", "topk"])}} if draw.random() < 0.4 else {}
    if sync == "step":
        norm, order = draw.choice(["parts", "whole"]), draw.choice(["fifo", "1f1b", "zero-bubble"])
        chosen = {"overlap": draw.random() < 0.5, "ahead": draw.random() < 0.5, "batch_norm": norm, "order": order}
        return {"sync": sync, "meet": draw.choice([None, *NODES]), **chosen, **codec}
    common = {"sync": sync, "server": draw.choice([None, *NODES]), "outer": draw.choice([None, OUTER])}
    if sync == "every":
        turns = {"turns": {"fragments": 2, "delay": draw.randint(0, 1)}} if draw.random() < 0.5 else {}
        return {**common, "every": draw.randint(2, 5), **(turns or codec)}
    rounds = draw.choice([{}, codec, {"clients": draw.randint(1, 3)}, {"secure_aggregation": True}])
    return {**common, "local_epochs": draw.randint(1, 2), **rounds}


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_thorough(range(60), 6))
def test_weights_are_those_over_gloo(runs: Runs, place: HubWorkers, seed: int) -> None:  # noqa: F811
    place.start()
    phase, options = random_run(seed, load(Cluster, runs.cluster))
    for name, more in (("hub", place.options), ("local", [])):
        arguments = [*runs.arguments(TINY, phase), *more, "--iterations", "7", "--quiet", *options]
        assert execute([*arguments, "-o", str(runs.folder / name)]) == 0
    hub, local = weights(runs.folder / "hub"), weights(runs.folder / "local")
    assert all(hub[key].equal(local[key]) for key in local)
