"""Runs whose workers dial in: the same weights as in one process, whatever the tree and the sync."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from palmette.cli import execute
from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.runtime.options import Options
from palmette.runtime.training.evaluation import evaluate
from palmette.zoo.capture import load_state
from palmette.zoo.data import load_data
from palmette.zoo.models import load_network
from palmette.zoo.recipes.objective import classification
from tests.control.hub_workers import HubWorkers
from tests.control.run.test_processes import assert_equal, trees
from tests.control.run.test_tls import receivers
from tests.cost.small import instance, phase, source
from tests.runtime.rig import relatively_off
from tests.runtime.world import CLUSTER, NODES, TINY, Runs, alone, lines, weights

DOUBLE = Options(optimizer="momentum", lr=0.05, seed=3, dtype="float64")
DIGITS = {
    name: f"tests.runtime.networks:{called}"
    for name, called in (("mine", "small_digits"), ("yours", "large_digits"), ("others", "turned_digits"))
}
CHOSEN = ["--optimizer", "momentum", "--lr", "0.05", "--seed", "3", "--dtype", "float64", "--quiet"]


@pytest.fixture
def place(runs: Runs) -> Iterator[HubWorkers]:
    """A call has one thread, as on the local engine: several would round differently."""
    runs.cluster.write_text(CLUSTER.replace("tier:", "threads: 1, tier:"))
    with HubWorkers(runs.folder) as made:
        yield made


def test_weights_equal_those_of_one_process(runs: Runs, place: HubWorkers) -> None:
    """Samples travel ahead, on a connection of their own."""
    place.start()
    assert_equal(runs, TINY, trees(5)["hierarchy"].model_copy(update={"ahead": True}), DOUBLE, *place.options)


@pytest.mark.slow
@pytest.mark.parametrize("name", trees(5))
def test_weights_equal_those_of_one_process_for_every_tree(runs: Runs, place: HubWorkers, name: str) -> None:
    place.start()
    assert_equal(runs, TINY, trees(5)[name], DOUBLE, *place.options)


@pytest.mark.slow
def test_a_network_of_the_zoo_needs_no_permission(runs: Runs, place: HubWorkers) -> None:
    place.start(allowed=AllowedNames())
    assert_equal(runs, "lenet5", trees(7)["hierarchy"], DOUBLE, *place.options, iterations=5)


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["epoch", "every", "async"])
def test_other_syncs(runs: Runs, place: HubWorkers, sync: str) -> None:
    """But for ``async`` the weights are those over gloo, bit for bit."""
    place.start()
    windows = {"every": 3, "outer": {}} if sync == "every" else {}
    parts = [*(source(at, 6, at) for at in NODES), *(instance(at, 1, 5, at) for at in NODES)]
    tree = phase(*parts, sync=sync, server="server", **windows)
    for name, more in (("hub", place.options), ("local", [])):
        arguments = [*runs.arguments(TINY, tree), *more, "--iterations", "4", "--quiet"]
        assert execute([*arguments, "-o", str(runs.folder / name)]) == 0
    record = json.loads((runs.folder / "hub" / "run.json").read_text())
    assert (record["ended"], record["transport"], record["iterations"]) == ("done", "tls", 4)
    assert "server" in receivers(runs.folder / "hub"), "weights or gradients went to the parameter server"
    if sync != "async":
        hub, local = weights(runs.folder / "hub"), weights(runs.folder / "local")
        assert all(hub[key].equal(local[key]) for key in local)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [{"clients": 2}, {"secure_aggregation": True}])
def test_rounds_of_some_clients_and_of_masked_weights(runs: Runs, place: HubWorkers, rounds: dict[str, Any]) -> None:
    """The weights are those over gloo, bit for bit: masks change nothing in sums of whole numbers."""
    place.start()
    parts = [*(source(at, 6, at) for at in NODES), *(instance(at, 1, 5, at) for at in NODES)]
    tree = phase(*parts, sync="epoch", server="server", **rounds)
    for name, more in (("hub", place.options), ("local", [])):
        arguments = [*runs.arguments(TINY, tree), *more, "--iterations", "4", "--quiet"]
        assert execute([*arguments, "-o", str(runs.folder / name)]) == 0
    hub, local = weights(runs.folder / "hub"), weights(runs.folder / "local")
    assert all(hub[key].equal(local[key]) for key in local)


@pytest.mark.slow
def test_deltas_to_outputs_that_both_ends_keep(runs: Runs, place: HubWorkers) -> None:
    """An epoch is three iterations; from then on deltas travel, and the weights are those over gloo, bit for bit."""
    place.start()
    front = instance("front", 1, 2, "phone", "back", codec="int4-delta")
    tree = phase(source("phone", 500, "front"), front, instance("back", 3, 5, "cloud"))
    for name, more in (("hub", place.options), ("local", [])):
        arguments = [*runs.arguments(TINY, tree), *CHOSEN, *more, "--iterations", "7"]
        assert execute([*arguments, "-o", str(runs.folder / name)]) == 0
    sent = [
        line["bytes"]
        for line in lines(runs.folder / "hub" / "trace.jsonl")
        if (line["op"], line["node"]) == ("send", "phone")
    ]
    assert len(sent) == 7
    assert max(sent[3:]) < min(sent[:3])
    assert relatively_off(weights(runs.folder / "hub"), weights(runs.folder / "local")) == 0


@pytest.mark.slow
def test_phases_with_smaller_models_and_a_hand_over(runs: Runs, place: HubWorkers) -> None:
    place.start(allowed=AllowedNames())
    places = (("phone", 0.0), ("cloud", 0.3))
    phases = [
        phase(source("phone", 12, "all"), instance("all", 1, 7, at), epochs=1, pruning=pruning)
        for at, pruning in places
    ]
    for name, more in (("hub", place.options), ("local", [])):
        arguments = [*runs.arguments("lenet5", *phases), *more, *CHOSEN]
        assert execute([*arguments, "-o", str(runs.folder / name)]) == 0
    hub, local = weights(runs.folder / "hub"), weights(runs.folder / "local")
    assert relatively_off(hub, local) <= 1e-12


@pytest.mark.slow
def test_a_worker_outlives_runs_and_grows_no_threads(runs: Runs, place: HubWorkers) -> None:
    place.start()
    arguments = [*runs.arguments(TINY, trees(5)["cut in three"]), *place.options, *CHOSEN, "--iterations", "3"]
    threads = []
    for number in range(3):
        assert execute([*arguments, "-o", str(runs.folder / str(number))]) == 0
        threads.append(threading.active_count())
    assert threads[2] <= threads[0] + 2
    one, other = weights(runs.folder / "0"), weights(runs.folder / "2")
    assert all(one[key].equal(other[key]) for key in one)
    assert all(len([line for line in said if "connected" in line]) == 1 for said in place.said.values())


def test_once_ends_with_the_hub(runs: Runs, place: HubWorkers) -> None:
    place.start(once=True)
    tree = trees(5)["cut in three"]
    arguments = [*runs.arguments(TINY, tree), *place.options, *CHOSEN, "--iterations", "2"]
    assert execute([*arguments, "-o", str(runs.folder / "out")]) == 0
    place.hub.close()
    place.join()
    assert not place.errors
    assert relatively_off(weights(runs.folder / "out"), alone(TINY, 12, 2, DOUBLE)[1]) <= 1e-12


def test_once_ends_with_a_run_that_did_not_use_the_node(runs: Runs, place: HubWorkers) -> None:
    place.start(["phone"])
    place.start(["cloud"], once=True)
    arguments = [*runs.arguments(TINY, trees(5)["alone"]), *place.options, *CHOSEN, "--iterations", "2"]
    assert execute([*arguments, "-o", str(runs.folder / "out")]) == 0
    place.workers.pop("phone").close()
    place.hub.close()
    place.join()
    assert place.said["cloud"][-1] == "the run is over; it did not use node cloud"


class TestRefusals:
    def refused(self, runs: Runs, capsys: pytest.CaptureFixture[str], *more: str, model: str = TINY) -> str:
        capsys.readouterr()
        tree = trees(5)["cut in three"]
        arguments = [*runs.arguments(model, tree), "--iterations", "2", "--quiet", *more]
        code = execute([*arguments, "-o", str(runs.folder / "out")])
        said = capsys.readouterr()
        assert (code != 0, said.out) == (True, "")
        (line,) = said.err.splitlines()
        return line

    def test_code_that_is_not_allowed(self, runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str]) -> None:
        place.start(["phone", "cloud"])
        place.start(["server"], AllowedNames())
        said = self.refused(runs, capsys, *place.options)
        assert f"node server: {TINY} is not allowed here; its owner may: palmette worker --allow {TINY}" in said

    def test_no_keys(self, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
        assert "--keys: missing: expected a folder" in self.refused(runs, capsys, "--engine", "hub")

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["--transport", "gloo"], "--transport: gloo: engine hub has its own; expected tls"),
            (["--hub", "phone"], "--hub: phone: workers meet at engine hub itself; expected none"),
            (["--listen", "nowhere"], "--listen: nowhere: expected host:port, such as 0.0.0.0:8443"),
            (["--testbed", "paced"], "--testbed: paced: the hosts of engine hub are real; expected none"),
        ],
    )
    def test_options(
        self, runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str], words: list[str], says: str
    ) -> None:
        assert self.refused(runs, capsys, *place.options, *words) == f"palmette: {says}"

    def test_listen_without_a_hub(self, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
        said = self.refused(runs, capsys, "--listen", "127.0.0.1:8443")
        assert said == "palmette: --listen: 127.0.0.1:8443: engine local does not listen; expected --engine hub"


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["step", "epoch"])
def test_owners_evaluate_on_their_own_data(runs: Runs, place: HubWorkers, sync: str) -> None:
    """What they report is of the data that is theirs, not of what the engine has under that name."""
    text = runs.cluster.read_text()
    for known, name in (("samples: 1500}", "mine"), ("samples: 100}", "yours")):
        text = text.replace(known, f'samples: 300, private: true, data: "{DIGITS[name]}"}}', 1)
    runs.cluster.write_text(text)
    here = AllowedNames(frozenset({TINY, *DIGITS.values()}), {DIGITS["mine"]: DIGITS["others"]})
    place.start(allowed=here)
    parts = [
        *(source(at, 6, at) for at in ("phone", "server")),
        *(instance(at, 1, 5, at) for at in ("phone", "server")),
    ]
    out = runs.folder / "out"
    chosen = [*runs.arguments(TINY, phase(*parts, sync=sync)), *place.options, "--epochs", "1", *CHOSEN]
    assert execute([*chosen, "-o", str(out)]) == 0
    (found,) = (line for line in lines(out / "metrics.jsonl") if "accuracy" in line)
    network = load_network(TINY, seed=0)
    for layer in network.layers:
        layer.module.double()
    load_state(network.layers, weights(out))
    for node, name in (("phone", "others"), ("server", "yours")):
        part = load_data(DIGITS[name], (1, 8, 8)).held_out
        expected = evaluate(network, part, classification(network.classes), DOUBLE)
        assert found["owners"][node]["loss"] == pytest.approx(expected.loss, rel=1e-12)
        assert found["owners"][node]["samples"] == len(part)
