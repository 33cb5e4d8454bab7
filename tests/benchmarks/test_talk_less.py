"""A replay in one process learns what a real run learns, and sends as many bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import palmette as pt
from benchmarks.talk_less import cut
from benchmarks.talk_less.kept_rows import KeptRows
from benchmarks.talk_less.methods import DEVICES, SAMPLES, cluster, methods, plan
from benchmarks.talk_less.replay import replayed
from benchmarks.talk_less.running import learnt
from benchmarks.talk_less.tasks import images, text

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
