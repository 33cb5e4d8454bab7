"""``palmette init``: a few questions, and a cluster file and a training file to start from; or a recipe file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palmette.cli import options as opt
from palmette.cli.options import reason_of
from palmette.errors import ArgumentFault, Fault, InputError, expected_name

if TYPE_CHECKING:
    from palmette.zoo.cluster_template import ClusterTemplate

TIERS = ("device", "edge", "cloud")
ENGINES = ("local", "ray", "hub")  # the names alone: their registry needs torch, and this command does not
STDIN = "stdin"
QUESTIONS = {
    "devices": "How many devices (phones, boards) take part",
    "edges": "How many edge servers",
    "clouds": "How many cloud servers",
    "device_hardware": "What is a device (palmette hardware lists what is known)",
    "edge_hardware": "What is an edge server",
    "cloud_hardware": "What is a cloud server",
    "bandwidth": "How fast are the links near the devices (an empty line is a guess, and marked so)",
    "cloud_bandwidth": "How fast are the links to the cloud",
    "samples": "How many training samples does each device own",
    "private": "Must raw data stay where it is",
    "sample": "How large is a sample on disk, such as 3 KiB",
    "stream": "Are samples always new, like a camera's",
    "storage": "How much may servers keep of samples on disk, such as 32 GiB",
}
TRAINING_QUESTIONS = {
    "model": "Which network (palmette profile --help), or recipe of your own, such as training:recipe",
    "data": "Which data",
    "goal": "What to minimise: time, energy, cost, carbon, or a sum such as 0.3*time+0.7*energy",
    "epochs": "How many epochs",
}
# Asked last, and left at their defaults where the answers end before them, as those about the training are.
LATER = ("sample", "stream", "storage")
BANDWIDTHS = ("bandwidth", "cloud_bandwidth")
PLAIN = (*BANDWIDTHS, "samples", "private", *LATER)


def init(
    file: Annotated[Path, typer.Argument(help="The cluster file to write.")] = Path("cluster.yaml"),
    devices: Annotated[int | None, typer.Option("--devices", help="Number of devices.")] = None,
    edges: Annotated[int | None, typer.Option("--edges", help="Number of edge servers.")] = None,
    clouds: Annotated[int | None, typer.Option("--clouds", help="Number of cloud servers.")] = None,
    device_hardware: Annotated[
        str | None, typer.Option("--device-hardware", help="What a device is, from palmette hardware.")
    ] = None,
    edge_hardware: Annotated[
        str | None, typer.Option("--edge-hardware", help="What an edge server is, from palmette hardware.")
    ] = None,
    cloud_hardware: Annotated[
        str | None, typer.Option("--cloud-hardware", help="What a cloud server is, from palmette hardware.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option("--bandwidth", help="Bandwidth of the links to the devices, such as '20 Mbit/s'.")
    ] = None,
    cloud_bandwidth: Annotated[
        str | None, typer.Option("--cloud-bandwidth", help="Bandwidth of the links to the cloud, such as '20 Mbit/s'.")
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", help="Training samples on each device.")] = None,
    private: Annotated[
        bool | None, typer.Option("--private/--public", help="Whether raw data must stay on its device.")
    ] = None,
    sample: Annotated[
        str | None, typer.Option("--sample", help="Size of a sample as it is stored, such as '3 KiB'.")
    ] = None,
    stream: Annotated[
        bool | None, typer.Option("--stream/--no-stream", help="Whether samples are always new and are used once.")
    ] = None,
    storage: Annotated[
        str | None, typer.Option("--storage", help="Disk space for samples on each server, such as '32 GiB'.")
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option("--training", help="The training file to write; training.yaml in the same folder if not given."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="The network to train, or package.module:recipe.")
    ] = None,
    data: Annotated[str | None, typer.Option("--data", help="The data to train on.")] = None,
    goal: Annotated[str | None, typer.Option("--goal", help="What to minimise.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Epochs to train.")] = None,
    engine: Annotated[
        str, typer.Option("--engine", help="Where to train: local, ray, or hub, whose workers are then asked for.")
    ] = "local",
    keys: opt.KeysFolder = None,
    listen: opt.Listen = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for workers that dial in, with engine hub.")
    ] = 30.0,
    local: Annotated[str | None, typer.Option("--local", help="The node that this machine is.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask no questions; use the defaults.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite the cluster file; the training file, too, if options are about it."),
    ] = False,
    recipe: Annotated[
        Path | None,
        typer.Option("--recipe", help="Write a recipe file for your own training instead."),
    ] = None,
) -> None:
    """Ask a few questions and write a cluster file and, beside it, a training file, with comments.

    With --engine hub, the nodes are the workers that dial in, and their links are measured.

    Example: palmette init cluster.yaml --devices 2 --bandwidth '40 Mbit/s' --yes
    """
    from palmette.spec.files import write_text
    from palmette.zoo.cluster_template import render_cluster

    if recipe is not None:
        _write_recipe(recipe, force)
        return
    given = {
        "devices": devices,
        "edges": edges,
        "clouds": clouds,
        "device_hardware": device_hardware,
        "edge_hardware": edge_hardware,
        "cloud_hardware": cloud_hardware,
        "bandwidth": bandwidth,
        "cloud_bandwidth": cloud_bandwidth,
        "samples": samples,
        "private": private,
        "sample": sample,
        "stream": stream,
        "storage": storage,
    }
    if engine not in ENGINES:
        raise InputError(ArgumentFault("engine", engine, expected_name(engine, "engine", list(ENGINES))))
    named = {"model": model, "data": data, "goal": goal, "epochs": epochs}
    written = training or file.with_name("training.yaml")
    # One that is there stays, since it may be for another cluster, unless options are about it.
    stays = written.exists() and training is None and not any(named.values())
    for each in [file] if stays else [file, written]:
        _refuse_unreadable(each)
        _refuse_existing(each, force)
    _refuse_unusable(named, written)
    run: dict[str, str] = {}
    if engine == "hub":
        cluster, run = _dialled_in(keys, listen, wait, given, ask=not yes)
    else:
        cluster = render_cluster(replace(_sketch(_answers(given, ask=not yes)), local=local))
    text = "" if stays else _training(file, written, named, {"engine": engine, "run": run}, ask=not yes)
    write_text(file, cluster)  # only now, so that who stops at a question can start again
    print(f"{file}: written")
    if stays:
        print(f"{written}: exists and was not changed; --training FILE writes another one")
    else:
        write_text(written, text)
        print(f"{written}: written. Next: palmette up {shlex.quote(str(written))}")


def _dialled_in(
    keys: Path | None, listen: str | None, wait_s: float, given: Mapping[str, Any], *, ask: bool
) -> tuple[str, dict[str, str]]:
    """The cluster of the workers that dial in, with measured links; and how to meet them again."""
    from palmette.control.up.dialled_in import likely_tier, workers_at
    from palmette.spec.cluster import Source

    if keys is None:
        raise InputError(ArgumentFault("keys", "missing", "expected the folder of the hub's keys: palmette keys init"))
    print(f"palmette: waiting up to {wait_s:g} s for workers at {listen or 'port 8443'}", file=sys.stderr)
    found = workers_at(listen, keys, wait_s)
    print(f"palmette: connected: {', '.join(found.nodes)}", file=sys.stderr)
    tiers, sources = {}, {}
    for node in found.nodes:
        tiers[node] = _ask_tier(node, likely_tier(node)) if ask else likely_tier(node)
    default = next((node for tier in TIERS for node in found.nodes if tiers[node] == tier), found.nodes[0])
    for node in found.nodes:
        usual = given["samples"] or (50_000 if tiers[node] == tiers[default] else 0)
        samples = _ask_again(f"How many training samples does {node} own", usual) if ask else usual
        if samples:
            sources[node] = Source(samples=samples, private=bool(given["private"]))
    if not sources:
        raise InputError(ArgumentFault("samples", 0, "no node owns data; expected one that does"))
    made = found.cluster(tiers, sources, lambda line: print(f"palmette: {line}", file=sys.stderr))
    run = {"keys": str(keys.absolute())} | ({} if listen is None else {"listen": listen})
    head = (
        "# The workers that are connected to the hub; links as they were measured. palmette check reads this file.\n\n"
    )
    return head + made.to_yaml(), run


def _ask_again(question: str, default: Any) -> Any:
    """A valid answer; on a terminal the question is asked until there is one."""
    while True:
        try:
            return _ask(question, default)
        except InputError as error:
            if error.faults[0].field == STDIN or not sys.stdin.isatty():
                raise
            print(f"palmette: {reason_of(error)}", file=sys.stderr)


def _ask_tier(node: str, likely: str) -> str:
    """The tier of a node; on a terminal the question is asked until there is one."""
    while True:
        answer = str(_ask(f"Which tier is {node}: device, edge or cloud", likely))
        if answer in TIERS:
            return answer
        error = InputError(Fault(node, answer, expected_name(answer, "tier", list(TIERS))))
        if not sys.stdin.isatty():
            raise error
        print(f"palmette: {reason_of(error)}", file=sys.stderr)


def _refuse_unreadable(file: Path) -> None:
    """Refuse a name under which a file would be read as JSON."""
    if file.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(Fault("", "the file", "expected a name that ends in .yaml", str(file)))


def _refuse_existing(file: Path, force: bool) -> None:
    if file.exists() and not force:
        raise InputError(Fault("", "file exists", "choose another name or pass --force", str(file)))


def _refuse_unusable(given: Mapping[str, Any], file: Path) -> None:
    """Refuse options about the training that cannot be used, before anything is asked."""
    from palmette.zoo.training_template import TrainingTemplate, render_training

    render_training(TrainingTemplate(**{name: value for name, value in given.items() if value is not None}), str(file))


def _training(cluster: Path, file: Path, given: Mapping[str, Any], where: Mapping[str, Any], *, ask: bool) -> str:
    """The text of the training file, after the questions about it."""
    from palmette.zoo.training_template import TrainingTemplate, render_training

    named = cluster.name if cluster.parent == file.parent else str(cluster.absolute())
    known = {name: value for name, value in given.items() if value is not None}
    answers = asdict(TrainingTemplate(cluster=named, **where)) | known
    for name, question in TRAINING_QUESTIONS.items():
        if ask and name not in known:
            answers[name] = _ask_training(name, question, answers, file)
    return render_training(TrainingTemplate(**answers), str(file))


def _ask_training(name: str, question: str, answers: Mapping[str, Any], file: Path) -> Any:
    """A valid answer about the training, the default where the answers have ended."""
    from palmette.zoo.training_template import TrainingTemplate, render_training

    while True:
        try:
            answer = _ask(question, answers[name])
            render_training(TrainingTemplate(**{**answers, name: answer}), str(file))
            return answer
        except InputError as error:
            if error.faults[0].field == STDIN:
                return answers[name]
            if not sys.stdin.isatty():
                raise
            print(f"palmette: {reason_of(error)}", file=sys.stderr)


def _write_recipe(file: Path, force: bool) -> None:
    from palmette.spec.files import write_text
    from palmette.zoo.recipes.template import render_recipe

    if file.suffix != ".py" or not file.stem.isidentifier():
        raise InputError(ArgumentFault("recipe", str(file), "expected the name of a Python file, such as training.py"))
    _refuse_existing(file, force)
    write_text(file, render_recipe(file.stem))
    print(f"{file}: written. Next: palmette profile --recipe {file.stem}:recipe --cluster cluster.yaml -o profile.json")


def _answers(given: Mapping[str, Any], *, ask: bool) -> dict[str, Any]:
    from palmette.zoo.cluster_template import ClusterTemplate

    default = ClusterTemplate()
    answers = {f"{tier}s": default.counts[tier] for tier in TIERS} | {
        f"{tier}_hardware": default.hardware[tier] for tier in TIERS
    }
    answers |= {name: getattr(default, name) for name in PLAIN}
    usual = dict(answers)
    for name, question in QUESTIONS.items():
        if given.get(name) is not None:
            answers[name] = given[name]
        elif ask and _is_relevant(name, answers):
            answers[name] = _ask_until_valid(name, question, answers)
    guessed = [name for name in BANDWIDTHS if given.get(name) is None and answers[name] == usual[name]]
    return answers | {"guessed": frozenset(guessed)}


def _sketch(answers: Mapping[str, Any]) -> ClusterTemplate:
    from palmette.zoo.cluster_template import ClusterTemplate

    return ClusterTemplate(
        counts={tier: answers[f"{tier}s"] for tier in TIERS},
        hardware={tier: answers[f"{tier}_hardware"] for tier in TIERS},
        guessed=answers.get("guessed", frozenset()),
        **{name: answers[name] for name in PLAIN},
    )


def _ask_until_valid(name: str, question: str, answers: Mapping[str, Any]) -> Any:
    """A valid answer: on a terminal the question is asked until there is one."""
    from palmette.zoo.cluster_template import find_faults

    while True:
        try:
            answer = _ask(question, answers[name])
            faults = [
                fault for fault in find_faults(_sketch({**answers, name: answer})) if name in fault.field.split(", ")
            ]
            if not faults:
                return answer
            raise InputError(faults)
        except InputError as error:
            ended = error.faults[0].field == STDIN
            if ended and name in LATER:
                return answers[name]
            if ended or not sys.stdin.isatty():
                raise
            print(f"palmette: {reason_of(error)}", file=sys.stderr)


def _is_relevant(name: str, answers: Mapping[str, Any]) -> bool:
    """Whether a question still makes sense after the answers so far."""
    tier = name.removesuffix("_hardware")
    if tier != name:
        return bool(answers[f"{tier}s"])
    if name == "cloud_bandwidth":
        return bool(answers["clouds"])
    return True


def _ask(question: str, default: Any) -> Any:
    """An answer of the default's type; an empty line is the default."""
    shown = {True: "yes", False: "no"}[default] if isinstance(default, bool) else default or "none"
    print(f"{question}? [{shown}] ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
        raise InputError(Fault(STDIN, "end of file", f"expected an answer to: {question}? Or pass --yes"))
    text = line.strip()
    if not text:
        return default
    if isinstance(default, bool):
        if text.lower() not in ("y", "yes", "n", "no"):
            raise InputError(Fault(question, text, "expected yes or no"))
        return text.lower().startswith("y")
    if isinstance(default, int):
        if not text.isdecimal():
            raise InputError(Fault(question, text, "expected a whole number"))
        return int(text)
    return text
