"""A folder with clusters, profiles and plans for real runs, and one process that trains the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from palmette.compress.networks import prune_network
from palmette.compress.pruning import prune
from palmette.control.run.trust import remember
from palmette.measure.layer_sizes import batch_norm_channels
from palmette.runtime.data.batches import Batches
from palmette.runtime.engines.local import ProcessCrew
from palmette.runtime.options import Options
from palmette.runtime.worker.dropout import Draw, Drawing, replace_dropout
from palmette.spec.plan import Phase
from palmette.zoo.capture import LayerChain, state
from palmette.zoo.data import load_data
from palmette.zoo.models import Network, load_network
from tests.runtime.plain import PlainUpdates

NODES = ("phone", "server", "cloud")
CLUSTER = """\
nodes:
  phone: {tier: device, power: {idle: 2 W, busy: 5 W}, source: {samples: 1500}}
  server: {tier: edge, power: {idle: 7 W, busy: 22 W}, source: {samples: 100}}
  cloud: {tier: cloud, power: {idle: 90 W, busy: 300 W}, source: {samples: 100}}
links:
  - {between: [phone, server], bandwidth: 200 Mbit/s, latency: 1 ms}
  - {between: [server, cloud], bandwidth: 100 Mbit/s}
"""
ROOT = Path(__file__).parents[2]
TINY = "tests.runtime.networks:tiny"


class Runs:
    """Files for ``palmette run`` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = folder / "cluster.yaml"
        self.cluster.write_text(CLUSTER)

    def profile(self, model: str, second: float = 2e-5, pruned: Sequence[float] = ()) -> Path:
        """A profile with the network's real sizes, and the same time for every layer, also of smaller networks."""
        network = load_network(model, seed=0)
        size = torch.empty((), dtype=network.dtype).element_size()
        fields = {
            "format": "palmette.profile/1",
            "model": model,
            "input_bytes": torch.Size(network.input_shape).numel() * size,
            **_table(network, second),
            "variants": {str(each): _table(prune_network(network, each)[0], second) for each in pruned},
        }
        return self._write(f"profile-{''.join(c for c in model if c.isalnum())}.json", fields)

    def plan(self, model: str, *phases: Phase) -> Path:
        fields = {
            "format": "palmette.plan/1",
            "model": model,
            "batch": phases[0].batch,
            "phases": [phase.model_dump(mode="json") for phase in phases],
        }
        file = self._write("plan.json", fields)
        remember(file)  # it names code of ours
        return file

    def arguments(self, model: str, *phases: Phase) -> list[str]:
        """``run PLAN --profile … --cluster … --testbed none``."""
        pruned = sorted({phase.pruning for phase in phases} - {0.0})
        files = ["--profile", str(self.profile(model, pruned=pruned)), "--cluster", str(self.cluster), "--trust-code"]
        return ["run", str(self.plan(model, *phases)), *files, "--testbed", "none"]

    def _write(self, name: str, fields: dict[str, Any]) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(fields))
        return path


def _table(network: Network, second: float) -> dict[str, Any]:
    many, size = len(network.layers), torch.empty((), dtype=network.dtype).element_size()
    listed = [
        {
            "name": layer.name,
            "parameter_bytes": sum(w.numel() * w.element_size() for w in layer.module.parameters()),
            "output_bytes": torch.Size(layer.output_shape).numel() * size,
            "batch_norm_channels": norms,
            "output_channels": layer.output_shape[0],
        }
        for layer, norms in zip(network.layers, batch_norm_channels(network), strict=True)
    ]
    times = {"forward_s": [second] * many, "backward_s": [2 * second] * many, "update_s": [second] * many}
    return {"layers": listed, "nodes": dict.fromkeys(NODES, times)}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses(folder: Path) -> list[float]:
    """The loss of every iteration, in the order of the file."""
    return [line["loss"] for line in lines(folder / "metrics.jsonl") if "accuracy" not in line]


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def alone(
    model: str,
    batch: int,
    iterations: int,
    options: Options,
    pruned: Mapping[int, float] | None = None,
    *,
    data: str = "digits",
) -> tuple[list[float], dict[str, Tensor]]:
    """One process with the whole network on the whole batches of the data; ``pruned`` before some iterations."""
    network, pruned = load_network(model, seed=options.seed), pruned or {}
    dtype: torch.dtype = getattr(torch, options.dtype)
    layers = [replace_dropout(layer.module.to(dtype), str(n)) for n, layer in enumerate(network.layers, 1)]
    whole = LayerChain(layers).train()
    named = {name: weight for layer in network.layers for name, weight in layer.module.named_parameters()}
    updates = PlainUpdates(named, options, iterations)
    part = load_data(data, network.input_shape).train
    batches, found, origin = Batches(len(part), batch, options.seed), [], None
    for number in range(iterations):
        inputs, labels = part.batch(batches.indices(number))
        if number in pruned:
            origin = prune(
                whole, inputs[:2].to(dtype), pruned[number], origin=origin, optimizer=updates.optimizer
            ).origin
        with Drawing(Draw(options.seed, number, range(batch))):
            loss = nn.functional.cross_entropy(whole(inputs.to(dtype)), labels)
        updates.step(loss)
        found.append(loss.item())
    return found, {name: value.detach().clone() for name, value in state(network.layers).items()}


@contextmanager
def hired() -> Iterator[list[ProcessCrew]]:
    """All crews of processes that are hired meanwhile."""
    crews: list[ProcessCrew] = []
    usual = ProcessCrew.__init__

    def noted(self: ProcessCrew, *arguments: Any, **more: Any) -> None:
        crews.append(self)
        usual(self, *arguments, **more)

    ProcessCrew.__init__ = noted  # type: ignore[method-assign]
    try:
        yield crews
    finally:
        ProcessCrew.__init__ = usual  # type: ignore[method-assign]


def alive(pid: int) -> bool:
    """Whether a process is there and not just waiting to be buried."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def descendants(pid: int) -> list[int]:
    """The processes that come from this one."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = parent(int(path.name))
        except OSError:
            continue
    found, fresh = [], [pid]
    while fresh:
        fresh = [child for child, of in parents.items() if of in fresh]
        found += fresh
    return found
