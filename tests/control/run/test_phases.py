"""Runs through phases with other nodes and smaller models: as one process that prunes at the same iterations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from palmette.cli import execute
from palmette.runtime.options import Options
from palmette.runtime.sync.difference_coding import SERVER
from palmette.runtime.training import loop
from palmette.runtime.training.checkpoint import last
from palmette.spec.exchange import Exchange
from palmette.spec.plan import Phase
from palmette.spec.sync import OuterOptimizer
from tests.cost.small import instance, phase, source
from tests.runtime.rig import off
from tests.runtime.world import TINY, Runs, alone, lines, losses, weights

RESIDUAL = "tests.runtime.networks:residual"


def chain(pruning: float, *nodes: str, depth: int = 5) -> Phase:
    """One source and a chain of as many instances as there are nodes, cut after the first layers."""
    placed = [
        instance(
            f"i{k}", k + 1, k + 1 if k + 1 < len(nodes) else depth, node, f"i{k + 1}" if k + 1 < len(nodes) else None
        )
        for k, node in enumerate(nodes)
    ]
    return phase(source("phone", 50, "i0"), *placed).model_copy(update={"pruning": pruning})


def federated(pruning: float, *nodes: str, depth: int = 5, epochs: int = 1) -> Phase:
    made = phase(
        *(source(node, 20, node) for node in nodes), *(instance(node, 1, depth, node) for node in nodes), sync="epoch"
    )
    return made.model_copy(update={"pruning": pruning, "epochs": epochs})


@pytest.mark.parametrize(
    "optimizer", ["adam", *(pytest.param(each, marks=pytest.mark.slow) for each in ("sgd", "momentum"))]
)
def test_pruned_phases_equal_one_process_that_prunes_at_the_same_iterations(runs: Runs, optimizer: str) -> None:
    out = runs.folder / "out"
    options = Options(optimizer=optimizer, lr=0.01, dtype="float64", seed=3)  # type: ignore[arg-type]
    phases = [chain(0.0, "cloud"), chain(0.25, "phone", "server", "cloud"), chain(0.5, "phone")]
    arguments = [*runs.arguments(TINY, *phases), "--iterations", "3", "--optimizer", optimizer, "--lr", "0.01"]
    assert execute([*arguments, "--dtype", "float64", "--seed", "3", "--quiet", "-o", str(out)]) == 0

    expected_losses, expected = alone(TINY, 50, 9, options, {3: 0.25, 6: 0.5})
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) < 1e-10


def test_the_layers_of_a_residual_network_keep_their_places(runs: Runs) -> None:
    out = runs.folder / "out"
    depth = len(json.loads(runs.profile(RESIDUAL).read_text())["layers"])
    phases = [chain(0.0, "phone", "cloud", depth=depth), chain(0.4, "server", "phone", depth=depth)]
    arguments = [*runs.arguments(RESIDUAL, *phases), "--iterations", "2", "--optimizer", "momentum", "--seed", "1"]
    assert execute([*arguments, "--dtype", "float64", "--quiet", "-o", str(out)]) == 0

    options = Options(optimizer="momentum", lr=0.01, dtype="float64", seed=1)
    expected_losses, expected = alone(RESIDUAL, 50, 4, options, {2: 0.4})
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) < 1e-10


def test_the_model_travels_with_its_optimizers_state_and_that_is_traced(runs: Runs) -> None:
    out = runs.folder / "out"
    phases = [chain(0.0, "phone", "cloud"), chain(0.5, "server")]
    arguments = [*runs.arguments(TINY, *phases), "--iterations", "2", "--optimizer", "adam", "--seed", "0"]
    assert execute([*arguments, "--quiet", "-o", str(out)]) == 0

    passed = [
        line
        for line in lines(out / "trace.jsonl")
        if line["iteration"] == 2 and line["instance"] in ("cloud", "server")
    ]
    sent = [(line["node"], line["instance"], line["bytes"]) for line in passed if line["op"] == "send"]
    whole = {name: value.numel() * 4 for name, value in weights(out).items()}
    first = sum(v.numel() * 4 for n, v in alone(TINY, 50, 0, Options())[1].items() if n.startswith("conv1"))
    scalar = 4  # Adam counts its steps for each weight
    assert sent[0] == ("phone", "cloud", 3 * first + 2 * scalar)
    assert sent[1] == ("cloud", "server", 3 * sum(whole.values()) + len(whole) * scalar)
    assert [line["op"] for line in passed if line["op"] == "update" and line["node"] == "cloud"] == ["update"]
    starts = [line["start_s"] for line in lines(out / "trace.jsonl") if line["op"] != "receive"]
    assert starts == sorted(starts)


def test_after_a_pruning_the_network_is_judged(runs: Runs) -> None:
    out = runs.folder / "out"
    phases = [chain(0.0, "phone"), chain(0.5, "phone")]
    assert execute([*runs.arguments(TINY, *phases), "--iterations", "2", "--quiet", "-o", str(out)]) == 0
    found = [line for line in lines(out / "metrics.jsonl") if line.get("phase") == 1]
    assert [(line["iteration"], line["pruning"]) for line in found] == [(2, 0.5)]
    assert 0 <= found[0]["accuracy"] <= 1
    written = json.loads((out / "run.json").read_text())
    assert written["iterations"] == 4
    assert written["energy_j"] > 0
    assert written["time_s"] > 0


@pytest.mark.parametrize("many", [2, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 3))])
def test_a_run_goes_on_from_any_of_its_phases(runs: Runs, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """Federated averaging on gold, silver and bronze; stopped at the end of an epoch, in or between phases."""
    phases = [
        federated(0.0, "cloud", "server"),
        federated(0.25, "server", "phone", epochs=2),
        federated(0.5, "phone", "cloud"),
    ]
    whole, stopped = runs.folder / "whole", runs.folder / "stopped"
    arguments = [
        *runs.arguments(TINY, *phases),
        "--optimizer",
        "momentum",
        "--dtype",
        "float64",
        "--seed",
        "4",
        "--quiet",
    ]
    assert execute([*arguments, "-o", str(whole)]) == 0
    usual, saves = loop.Training._save, []

    def save(self: loop.Training, *, best: bool = False) -> None:
        usual(self, best=best)
        saves.append(best)
        if len(saves) == many + 1:
            self.stop()

    monkeypatch.setattr(loop.Training, "_save", save)
    assert execute([*arguments, "-o", str(stopped)]) == 1
    monkeypatch.setattr(loop.Training, "_save", usual)
    assert execute(["run", "--resume", str(stopped), "--quiet"]) == 0

    assert off(weights(stopped), weights(whole)) == 0
    assert losses(stopped) == losses(whole)
    first, second = (lines(folder / "metrics.jsonl") for folder in (stopped, whole))
    assert [line["iteration"] for line in first] == [line["iteration"] for line in second]


def test_the_weights_of_a_pruned_run_can_be_gone_on_from(runs: Runs) -> None:
    first, second = runs.folder / "first", runs.folder / "second"
    assert execute([*runs.arguments(TINY, chain(0.5, "phone")), "--iterations", "2", "--quiet", "-o", str(first)]) == 0
    file = str(first / "model.safetensors")
    again = [*runs.arguments(TINY, chain(0.5, "cloud")), "--iterations", "1", "--init", file, "--lr", "1e-30"]
    assert execute([*again, "--quiet", "-o", str(second)]) == 0
    assert off(weights(first), weights(second)) < 1e-12
    smaller = [*runs.arguments(TINY, chain(0.6, "cloud")), "--iterations", "1", "--init", file]
    assert execute([*smaller, "--quiet", "-o", str(runs.folder / "third")]) == 0
    assert {n for n, w in weights(runs.folder / "third").items() if w.shape != weights(first)[n].shape}


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert execute([*arguments, "--quiet"]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    return found.err.splitlines()


def test_what_cannot_be_pruned_is_refused_with_one_line(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["-o", str(runs.folder / "out")]
    back = runs.arguments(TINY, chain(0.5, "phone"), chain(0.25, "phone"))
    expected = "0.5 is removed before and cannot be restored; expected at least that"
    assert said(capsys, *back, *out) == [f"palmette: phases[1].pruning: 0.25: {expected}"]
    profile = Path(runs.arguments(TINY, chain(0.5, "phone"))[3])
    fields = json.loads(profile.read_text())
    fields["variants"]["0.999"] = fields["variants"]["0.5"]
    profile.write_text(json.dumps(fields))
    plan = str(runs.plan(TINY, chain(0.0, "phone"), chain(0.999, "phone")))
    found = said(capsys, "run", plan, "--profile", str(profile), "--cluster", str(runs.cluster), *out)
    assert len(found) == 1
    assert found[0].startswith("palmette: phases[1].pruning: 0.999: the network cannot be pruned further than 0.9")
    whole = [*runs.arguments(TINY, chain(0.5, "phone")), "--iterations", "1", "--quiet"]
    assert execute([*whole, "-o", str(runs.folder / "half")]) == 0
    init = ["--init", str(runs.folder / "half" / "model.safetensors")]
    found = said(capsys, *runs.arguments(TINY, chain(0.0, "phone")), *out, *init)
    assert len(found) == 1
    assert "pruning: 0.5: the plan begins with 0" in found[0]


def test_a_phase_that_the_model_cannot_reach_is_refused(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    text = runs.cluster.read_text()
    runs.cluster.write_text(text.replace("  - {between: [server, cloud], bandwidth: 100 Mbit/s}\n", ""))
    found = said(
        capsys, *runs.arguments(TINY, chain(0.0, "phone"), federated(0.0, "cloud")), "-o", str(runs.folder / "x")
    )
    expected = "there is no path for the model; expected nodes that links join"
    assert found == [f"palmette: phases[1].instances: phone to cloud: {expected}"]


@pytest.mark.parametrize("sync", ["epoch", "async"])
def test_other_agreements_go_on_with_a_smaller_model(runs: Runs, sync: str) -> None:
    out = runs.folder / "out"
    second = federated(0.5, "server", "phone").model_copy(update={"sync": sync})
    arguments = [*runs.arguments(TINY, chain(0.0, "phone", "cloud"), second), "--iterations", "4", "--lr", "0.05"]
    assert execute([*arguments, "--quiet", "-o", str(out)]) == 0
    assert len(losses(out)) == 8
    assert all(torch.isfinite(value).all() for value in weights(out).values())


def test_windows_go_on_with_a_smaller_model_and_its_momentum(runs: Runs) -> None:
    """The outer momentum shrinks with the weights, and moves to another server; so does what codes left out."""
    out, windows = runs.folder / "out", {"sync": "every", "every": 2, "outer": OuterOptimizer()}
    windows |= {"exchange": Exchange(codec="topk", ratio=0.2)}
    first, second = federated(0.0, "phone", "cloud"), federated(0.5, "server", "phone")
    phases = [each.model_copy(update=windows) for each in (first, second)]
    arguments = [*runs.arguments(TINY, *phases), "--iterations", "4", "--optimizer", "adam", "--quiet"]
    assert execute([*arguments, "-o", str(out)]) == 0
    assert len(losses(out)) == 8
    kept = last(out / "checkpoints").checkpoint
    outer = {name.rpartition("/")[0]: value for name, value in kept.optimizer.items() if name.endswith("@")}
    assert outer
    assert all(value.shape == kept.weights[name].shape for name, value in outer.items())
    left = {name: value for name, value in kept.optimizer.items() if name.endswith(":residual")}
    assert {name.split(":")[1] for name in left} == {"phone", SERVER}
    assert all(value.shape == kept.weights[name.rpartition("/")[0]].shape for name, value in left.items())


@pytest.mark.slow
def test_a_distilled_phase_learns_from_the_model_before(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    phases = [federated(0.0, "phone", "cloud"), federated(0.5, "server", "phone")]
    out, other = runs.folder / "distilled", runs.folder / "pruned"
    arguments = [*runs.arguments(TINY, *phases), "--optimizer", "momentum", "--lr", "0.05", "--quiet"]
    assert execute([*arguments, "--compress", "distill", "-o", str(out)]) == 0
    assert execute([*arguments, "-o", str(other)]) == 0
    found, usual = (
        next(line["loss"] for line in lines(folder / "metrics.jsonl") if "pruning" in line) for folder in (out, other)
    )
    assert found < usual
    written = json.loads((out / "run.json").read_text())["plan"]["phases"]
    assert [each["compress"] for each in written] == ["distill", "distill"]
    text = runs.cluster.read_text()
    runs.cluster.write_text(text.replace("busy: 22 W}, source: {samples: 100}", "busy: 22 W}"))
    lacking = [federated(0.0, "phone").model_copy(update={"server": "server"}), federated(0.5, "phone")]
    refused = said(capsys, *runs.arguments(TINY, *lacking), "--compress", "distill", "-o", str(runs.folder / "refused"))
    where = "server, where the phase before meets, owns no data to distill with"
    assert refused == [f"palmette: phases[1].compress: distill: {where}; expected prune, or data there"]


@pytest.mark.slow
def test_samples_that_one_phase_uploads_are_there_in_the_next(runs: Runs) -> None:
    """Train where the data is, then where it has arrived meanwhile: as one process, and each sample crosses once."""
    out = runs.folder / "out"
    near = chain(0.0, "phone").model_copy(update={"upload": ("cloud",), "epochs": 1})
    far = chain(0.0, "cloud").model_copy(update={"ahead": True, "epochs": 1})
    kept = far.model_copy(update={"sources": tuple(e.model_copy(update={"delivery": "once"}) for e in far.sources)})
    arguments = [*runs.arguments(TINY, near, kept), "--dtype", "float64", "--seed", "3", "--lr", "0.01"]
    assert execute([*arguments, "--quiet", "-o", str(out)]) == 0

    expected_losses, expected = alone(TINY, 50, 54, Options(lr=0.01, dtype="float64", seed=3))
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) < 1e-10
    sent = [line for line in lines(out / "trace.jsonl") if (line["op"], line["node"]) == ("send", "phone")]
    uploaded = sum(line["bytes"] for line in sent if line["iteration"] < 27)
    assert uploaded == pytest.approx(1500 * 65, rel=0.01)  # 64 pixels and a label each
    weights_bytes = 1e5
    assert sum(line["bytes"] for line in sent if line["iteration"] >= 27) < weights_bytes
    assert not (out / "samples").exists()
