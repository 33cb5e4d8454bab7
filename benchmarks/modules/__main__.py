"""Networks of others across nodes: how many layers they are cut into, and whether training equals one process.

    python -m benchmarks.modules [--only gpt2 --only unet] [--more] [--keep FILE] [--table docs/modules.md] [--quick]

For each network: its layers, the plan of ``hybrid`` on three tiers, and a real run of 5 iterations on two cuts, in
float64, beside a plain PyTorch loop. Prints JSON; ``--table`` also writes a page. With ``--keep``, what was found is in
a file after every network, and is not found again. Networks of transformers are left out where that is not installed.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import palmette as pt
from benchmarks.command import parser, print_result, progress
from benchmarks.modules.more_of_transformers import MORE
from benchmarks.modules.networks import NETWORKS, OTHERS, recipe
from palmette.errors import PalmetteError
from palmette.runtime.data.batches import Batches
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Plan
from palmette.zoo.capture import as_bundle, notes
from palmette.zoo.capture.bundle import plain_structure
from palmette.zoo.models import Network, load_network

ITERATIONS, BATCH, LR = 5, 12, 0.05
QUICK = ("mobilenet_v3", "unet", "tied")
ALL = {**NETWORKS, **MORE}
CLUSTER = {
    "nodes": {
        "laptop": {"tier": "device", "host": "local", "source": {"samples": 48}},
        "edge": {"tier": "edge", "host": "local"},
        "cloud": {"tier": "cloud", "host": "local"},
    },
    "links": [
        {"between": ["laptop", "edge"], "bandwidth_bps": 100e6, "latency_s": 0.001},
        {"between": ["edge", "cloud"], "bandwidth_bps": 100e6, "latency_s": 0.001},
    ],
}


def two_cuts(network: Network) -> Plan:
    """Thirds of the layers on laptop, edge and cloud; fewer where there are not as many layers."""
    depth = len(network.layers)
    ends = sorted({max(1, depth // 3), max(1, 2 * depth // 3), depth})
    runs = list(zip([1, *(end + 1 for end in ends[:-1])], ends, strict=True))
    nodes = ("laptop", "edge", "cloud")[: len(runs)]
    instances = [
        {"id": node, "layers": run, "node": node, "into": nodes[k + 1] if k + 1 < len(runs) else None}
        for k, (node, run) in enumerate(zip(nodes, runs, strict=True))
    ]
    phase = {"sources": [{"node": "laptop", "samples": BATCH, "into": nodes[0]}], "instances": instances}
    return validated(Plan, {"model": network.name, "batch": BATCH, "phases": [phase]})


def one_process(made: pt.Recipe) -> dict[str, torch.Tensor]:
    """The module itself in a plain loop, in float64."""
    module = copy.deepcopy(made.model).double().train()  # type: ignore[union-attr]
    data, batches = made.data[0], Batches(len(made.data[0]), BATCH, 0)
    optimizer = torch.optim.SGD([each for each in module.parameters() if each.requires_grad], lr=LR)
    for iteration in range(ITERATIONS):
        rows = torch.as_tensor(batches.indices(iteration))
        given, targets = data.inputs, data.targets[rows]
        named = isinstance(given, dict)
        chosen = {name: _double(each[rows]) for name, each in given.items()} if named else _double(given[rows])
        outputs = plain_structure(module(**chosen) if named else module(*as_bundle(chosen)))
        loss = made.loss(outputs, _double(targets)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return dict(module.state_dict())


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def case(name: str) -> dict[str, Any]:
    """A network: cut, planned, trained, compared."""
    progress(f"{name} …")
    made, cluster = recipe(ALL[name]), validated(Cluster, CLUSTER)
    network = load_network(made)
    found: dict[str, Any] = {
        "layers": len(network.layers),
        "tensors_at_cuts": [len(layer.outputs) for layer in network.layers[:-1]],
        "notes": list(notes(network.layers)),
    }
    profile = pt.profile(made, cluster=cluster)
    hybrid = pt.plan("hybrid", profile=profile, cluster=cluster, batch=BATCH)
    found["hybrid"] = [f"{i.layers[0]}–{i.layers[1]} on {i.node}" for i in hybrid.phases[0].instances]
    plan, expected = two_cuts(network), one_process(made)
    with tempfile.TemporaryDirectory() as folder:
        exact = Path(folder) / "exact"
        options: dict[str, Any] = {"profile": profile, "cluster": cluster, "recipe": made, "lr": LR, "progress": False}
        pt.run(plan, exact, **options, iterations=ITERATIONS, dtype="float64")
        weights = load_file(exact / "model.safetensors")
        measured_s = pt.run(plan, Path(folder) / "timed", **options, iterations=ITERATIONS).iteration_s
    off = max(float((weights[each] - expected[each]).abs().max()) for each in weights if each in expected)
    estimated_s = pt.estimate(plan, profile=profile, cluster=cluster).iteration_s
    found |= {"off": off, "equal": off <= 1e-9, "measured_s": measured_s, "estimated_s": estimated_s}
    progress(f"{name}: {found['layers']} layers, off by {off:.1e}")
    return found


def table(cases: dict[str, Any]) -> str:
    """A page about all of them."""
    rows = [
        f"| `{name}` | {found['layers']} | {max(found['tensors_at_cuts'], default=1)} | {', '.join(found['hybrid'])} | "
        f"{found['off']:.0e} | {1e3 * found['measured_s']:.1f} / {1e3 * found['estimated_s']:.1f} ms |"
        for name, found in cases.items()
        if "layers" in found
    ]
    failed = [f"- `{name}`: {found['refused']}" for name, found in cases.items() if "refused" in found]
    whole = [f"- `{name}`: {note}" for name, found in cases.items() for note in found.get("notes", ())]
    return "\n".join(
        [
            "# Networks of others",
            "",
            "Written by `python -m benchmarks.modules --table docs/modules.md`. Small configurations with random",
            "weights, as they come from transformers, and odd ones: how many layers each is cut into, how many tensors",
            "a cut carries at most, what `hybrid` plans for three equal machines, how far weights are from plain",
            "PyTorch after 5 iterations over two cuts in float64, and an iteration in float32, measured and estimated.",
            "",
            "| network | layers | tensors | `hybrid` | off | measured / estimated |",
            "|---|---|---|---|---|---|",
            *rows,
            *(["", "Refused:", "", *failed] if failed else []),
            *(["", "What `palmette profile` says of them:", "", *whole] if whole else []),
            "",
        ]
    )


def tried(names: Iterable[str], kept: Path | None) -> dict[str, Any]:
    """What is found about networks, by name, also those that a file has already; it is written after each."""
    cases: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept is not None and kept.exists() else {}
    for name in names:
        if name in cases:
            continue
        try:
            cases[name] = case(name)
        except PalmetteError as error:
            cases[name] = {"refused": str(error)}
            progress(f"{name}: {error}")
        if kept is not None:
            kept.write_text(json.dumps(cases, indent=1), encoding="utf-8")
    return {name: cases[name] for name in ALL if name in cases}


def main() -> None:
    """Try all networks, or some."""
    arguments = parser(__doc__, quick=", ".join(QUICK))
    arguments.add_argument("--only", action="append", choices=list(ALL), help="only this network; may be repeated")
    arguments.add_argument("--more", action="store_true", help="also more networks of transformers")
    arguments.add_argument("--keep", type=Path, help="a file of what is found; networks in it are not tried again")
    arguments.add_argument("--table", type=Path, help="also write a page about them")
    given = arguments.parse_args()
    chosen = given.only or (QUICK if given.quick else ALL if given.more else NETWORKS)
    if importlib.util.find_spec("transformers") is None:
        chosen = [name for name in chosen if ALL[name] not in (*OTHERS, *MORE.values())]
    cases = tried(chosen, given.keep)
    trained = [found for found in cases.values() if "off" in found]
    print_result(
        {
            "networks": cases,
            "equal": sum(found["equal"] for found in trained),
            "of": len(cases),
            "median_layers": statistics.median(found["layers"] for found in trained) if trained else 0,
        }
    )
    if given.table is not None:
        given.table.write_text(table(cases), encoding="utf-8")


if __name__ == "__main__":
    main()
