"""A replay in one process learns what a real run learns, and sends as many bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import palmette as pt
from benchmarks.talk_less import auto, cut, flower
from benchmarks.talk_less.kept_rows import KeptRows
from benchmarks.talk_less.methods import DEVICES, SAMPLES, cluster, methods, plan
from benchmarks.talk_less.replay import _Steps, replayed
from benchmarks.talk_less.running import learnt
from benchmarks.talk_less.tasks import images, text
from palmette.spec.estimate import Estimate

ITERATIONS = 100


@pytest.mark.slow
@pytest.mark.parametrize("name", ["step", "step, lowrank:2", "every 32", "diloco 50, int8", "federated"])
def test_a_replay_learns_what_a_real_run_learns(name: str) -> None:
    task = text(len(DEVICES) * SAMPLES * ITERATIONS)
    profile = pt.profile(task.recipe(ITERATIONS), cluster=cluster(5.0, len(task.train)))
    fields = methods() | {"every 32": methods()["every 10"] | {"every": 32}}  # the last window of an epoch is shorter
    made = plan(profile.model, len(profile.layers), fields[name])
    real, replay = learnt(task, made, profile, ITERATIONS), replayed(task, made.phases[0], ITERATIONS)
    assert [at for at, _ in replay["evaluations"]] == [at for at, _ in real["evaluations"]]
    for (_, one), (_, other) in zip(replay["evaluations"], real["evaluations"], strict=True):
        assert one == pytest.approx(other, abs=2e-4)  # written with four digits
    assert replay["bytes_an_iteration"] == pytest.approx(real["bytes_an_iteration"], rel=1e-12)


@pytest.mark.slow
def test_a_replay_of_a_cut_network_learns_what_a_real_run_learns(tmp_path: Path) -> None:
    task = images(tmp_path / "none", 5 * cut.BATCH)
    world, iterations = cut.cluster(5.0, len(task.train)), 5 * cut.EPOCHS
    profile = pt.profile(task.recipe(iterations), cluster=world)
    made = cut.plan(profile, "int4-delta")
    pt.run(
        made, tmp_path, profile=profile, cluster=world, recipe=task.recipe(iterations), testbed="none", trace="full",
        progress=False, replan=False,
    )  # fmt: skip
    noted, trace = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("metrics.jsonl", "trace.jsonl")
    )
    sent = [sum(x["bytes"] for x in trace if x["op"] == "send" and x["iteration"] // 5 == k) for k in range(cut.EPOCHS)]
    found = cut.replayed(task, "int4-delta")
    assert found["losses"] == pytest.approx([x["loss"] for x in noted if "accuracy" in x], abs=2e-4)
    assert found["bytes"] == sent
    estimate = pt.estimate(made, profile=profile, cluster=world)
    assert [estimate.first_epoch_bytes, *(cut.EPOCHS - 1) * [estimate.epoch_bytes]] == sent


def test_what_was_trained_is_kept_by_setting_and_method(tmp_path: Path) -> None:
    path, made = tmp_path / "rows.json", []

    def row(name: str, setting: tuple[object, ...]) -> dict[str, object]:
        return KeptRows(path, setting).row(name, lambda: made.append(name) or {"of": name})

    for _ in range(2):
        assert row("step", ("text", 100)) == {"of": "step"}
        assert row("diloco", ("text", 100)) == {"of": "diloco"}
    assert row("step", ("text", 200)) == {"of": "step"}
    assert made == ["step", "diloco", "step"]


def test_what_auto_chose_is_found_among_the_methods_only_where_each_device_has_the_network() -> None:
    made = plan("a network", 3, methods()["diloco 50, int8"]).phases[0]
    fields = auto.agreement(made, depth=3)
    assert fields is not None
    assert plan("a network", 3, fields).phases[0] == made
    assert auto.agreement(made, depth=4) is None


@pytest.mark.parametrize(("epochs", "trained"), [(1, 50), (2, 50), (3, 100), (16, 400)])
def test_a_plan_is_trained_as_long_as_it_says_in_whole_evaluations(epochs: int, trained: int) -> None:
    made = plan("a network", 3, methods()["step"])
    phase = made.phases[0].model_copy(update={"epochs": epochs})
    estimate = Estimate(iteration_s=0.1, epoch_batches=25)
    planned = made.model_copy(update={"phases": (phase,), "estimate": estimate})
    assert auto.planned_iterations(planned) == 25 * epochs
    assert auto.trained_iterations(planned) == trained


def test_the_warm_up_of_a_replay_may_be_that_of_a_longer_training() -> None:
    made, task = plan("a network", 1, methods()["step"]).phases[0], text(64)
    own, longer = (_Steps(task, made, 100, 0) for _ in range(2))
    longer.warm = 60
    rates = []
    for each in (own, longer):
        optimizer = each.optimizer(each.model)
        each.set_rate(optimizer, 9)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([task.lr, task.lr / 6])


def test_samples_on_the_way_cost_evenly_and_an_upload_all_at_once() -> None:
    estimate = Estimate(iteration_s=0.1, epoch_s=60.0, first_epoch_s=100.0, epoch_batches=600)
    whole = plan("a network", 3, methods()["step"]).model_copy(update={"estimate": estimate})
    way = whole.phases[0].model_copy(update={"ahead": True})
    on_the_way = whole.model_copy(update={"phases": (way,)})
    assert auto.seconds_of(whole, 450) == pytest.approx(40 + 45)
    assert auto.seconds_of(on_the_way, 450) == pytest.approx(75)
    assert auto.seconds_of(whole, 1200) == auto.seconds_of(on_the_way, 1200) == pytest.approx(160)


def test_flowers_waiting_and_a_busy_machine_are_subtracted_but_no_link_is_faster_than_it_is() -> None:
    def done(bandwidth_mbit: float, number: int, round_s: float, computed_s: float) -> flower._Round:
        return flower._Round(bandwidth_mbit, number, round_s, computed_s, 1_250_000 if number >= 0 else 0)

    rounds = [done(5, -1, 4, 0), done(5, 0, 9, 1), done(5, 1, 12, 4), done(100, -1, 6, 0), done(100, 2, 4, 1)]
    found = flower._summed(rounds, computing_s=2.0)
    assert found["waiting_s"] == 5
    assert found["computed_too_long_s"] == {"5": 0.5, "100": 0.0}
    assert found["iteration_s"]["5"] * 50 == pytest.approx(10.5 - 5 - 0.5)
    assert found["iteration_s"]["100"] * 50 == pytest.approx(2 + 0.05 * flower.HEADER_OVERHEAD**-1)
    assert found["iteration_s_with_waiting"] == {"5": 10.5 / 50, "100": 4 / 50}


def test_all_rounds_of_a_training_are_shared_by_the_bandwidths() -> None:
    turns = flower._turns(8, [5.0, 20.0, 100.0])
    assert [number for _, number in turns if number >= 0] == list(range(8))
    assert [at for at, number in turns if number >= 0] == [5.0] * 2 + [20.0] * 3 + [100.0] * 3
    assert {at for at, number in turns[1:] if number < 0} == {5.0, 20.0, 100.0}
