"""What a strategy decides, run: every tree leaves the weights of one process with the same batches."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor, nn

import palmette as pt
from palmette.compress.codec import CODERS
from palmette.runtime.data.batches import Batches
from palmette.runtime.options import Options
from palmette.runtime.worker.dropout import Draw, Drawing, replace_dropout
from palmette.spec.cluster import Cluster, Limits
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile, Times
from tests.plan.problems import link, node
from tests.runtime.rig import Rig, off, optimizer_of, random_layers

ELEMENTWISE = 1e-10
ITERATIONS = 8
LOSSLESS = {"hiertrain": {}, "jointdnn": {}, "jointdnn+": {}, "hybrid": {"seconds": 0.1}}


def rig_of(seed: int) -> Rig:
    draw = random.Random(seed)
    options = Options(dtype="float64", lr=0.05, seed=seed, optimizer=("sgd", "momentum", "adam")[seed % 3])
    return Rig(random_layers(draw, 6), (5,), options=options)


def cluster_of(draw: random.Random, private: bool) -> Cluster:
    return Cluster(
        nodes={
            "phone": node("device", samples=50, private=private),
            "server": node("edge", limits=Limits(cpu_share=draw.choice([1.0, 0.5]))),
            "cloud": node("cloud"),
        },
        links=(
            link("phone", "server", draw.uniform(0.01, 0.2), 1e-3),
            link("server", "cloud", draw.uniform(0.01, 0.2), 1e-3),
        ),
    )


def profile_of(draw: random.Random, rig: Rig, cluster: Cluster) -> Profile:
    """The rig's sizes with times that make it worth sharing: layers that suit one node or another."""

    def times() -> Times:
        def seconds(scale: float) -> tuple[float, ...]:
            return tuple(scale * draw.choice([0.1, 1.0, 4.0]) for _ in rig.layers)

        return Times(forward_s=seconds(1e-3), backward_s=seconds(2e-3), update_s=seconds(1e-5))

    sizes = rig.evaluator(cluster).profile
    return sizes.model_copy(update={"input_bytes": 40.0, "nodes": {name: times() for name in cluster.nodes}})


def planned(strategy: str, seed: int, rig: Rig) -> tuple[Plan, Cluster]:
    draw = random.Random(seed)
    cluster = cluster_of(draw, private=seed % 4 == 3)
    known = {"profile": profile_of(draw, rig, cluster), "cluster": cluster, "batch": 14}
    return pt.plan(strategy, **known, **LOSSLESS.get(strategy, {})), cluster


@pytest.mark.parametrize("strategy", LOSSLESS)
@pytest.mark.parametrize("seed", range(4))
def test_a_plan_equals_one_process(strategy: str, seed: int, tmp_path: Path) -> None:
    rig = replace(rig_of(seed), folder=tmp_path)
    plan, cluster = planned(strategy, seed, rig)
    equals_one_process(rig, plan.phases[0], cluster)


@pytest.mark.parametrize("strategy", ["jalad", "hybrid"])
def test_a_plan_with_8_bit_integers_equals_one_process_but_for_them(strategy: str, tmp_path: Path) -> None:
    rig = replace(rig_of(1), folder=tmp_path)
    plan, cluster = planned(strategy, 1, rig)
    (phase,) = plan.phases
    whole = tuple(instance.model_copy(update={"codec": "none"}) for instance in phase.instances)
    equals_one_process(rig, phase.model_copy(update={"instances": whole}), cluster)


def equals_one_process(rig: Rig, phase: Phase, cluster: Cluster) -> None:
    losses, held = rig.trained(phase, cluster, ITERATIONS)
    expected_losses, expected = rig.alone(phase.batch, ITERATIONS)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    assert all(off(weights, expected) <= ELEMENTWISE for weights in held.values())


def test_the_plans_of_the_tests_share_layers_and_samples() -> None:
    """So that their equality says something."""
    shared = set()
    for strategy in LOSSLESS:
        for seed in range(4):
            (phase,) = planned(strategy, seed, rig_of(seed))[0].phases
            if len({instance.node for instance in phase.instances}) > 1:
                shared.add(strategy)
    assert shared == set(LOSSLESS)


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_jalad_equals_one_process_with_8_bit_integers_on_its_cut(cut: int) -> None:
    rig = replace(rig_of(4), options=Options(dtype="float64", lr=0.05, seed=4))
    cluster = cluster_of(random.Random(4), private=False)
    known = profile_of(random.Random(4), rig, cluster)
    slow, fast = (tuple(x if (k < cut) is edge else 1e-9 for k in range(6)) for edge, x in ((False, 1.0), (True, 1.0)))
    update = {"server": slow, "cloud": fast}
    nodes = {name: known.nodes[name].model_copy(update={"forward_s": update.get(name, slow)}) for name in known.nodes}
    plan = pt.plan("jalad", profile=known.model_copy(update={"nodes": nodes}), cluster=cluster, batch=14)
    assert plan.decision["nodes"] == ["server"] * cut + ["cloud"] * (6 - cut)

    losses, held = rig.trained(plan.phases[0], cluster, ITERATIONS)
    expected_losses, expected = with_integers_after(cut, rig, plan.batch)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    assert all(off(weights, expected) <= ELEMENTWISE for weights in held.values())


def with_integers_after(cut: int, rig: Rig, batch: int) -> tuple[list[float], dict[str, Tensor]]:
    """A plain loop in which the output of a layer and its gradient are rounded to 8 bits."""

    def rounded(values: Tensor) -> Tensor:
        message = CODERS["int8"].compress(values.detach(), {})
        return CODERS["int8"].extract(message, tuple(values.shape), values.dtype)

    layers = [replace_dropout(layer, str(n)) for n, layer in enumerate(rig.fresh(), 1)]
    first, rest = nn.Sequential(*layers[:cut]).train(), nn.Sequential(*layers[cut:]).train()
    optimizer = optimizer_of(rig.options, [*first.parameters(), *rest.parameters()])
    batches, losses = Batches(len(rig.data), batch, rig.options.seed), []
    for number in range(ITERATIONS):
        inputs, labels = rig.data.batch(batches.indices(number))
        optimizer.zero_grad()
        with Drawing(Draw(rig.options.seed, number, range(batch))):
            output = first(inputs)
            arrived = rounded(output).requires_grad_()
            loss = nn.functional.cross_entropy(rest(arrived), labels)
            loss.backward()
            assert arrived.grad is not None
            if output.requires_grad:
                output.backward(rounded(arrived.grad))
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: value for layer in layers for name, value in layer.state_dict().items()}
