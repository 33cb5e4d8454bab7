"""``palmette run``: executes a plan, or continues a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palmette.cli import options as opt
from palmette.cli import parsing
from palmette.cli.run_places import HolderName
from palmette.cli.run_session import await_workers, execute_run
from palmette.errors import ArgumentFault, Fault, InputError, shown

if TYPE_CHECKING:
    from palmette.control.run.request import CommonRequest
    from palmette.control.run.session import TrainingSession
    from palmette.spec.cluster import Cluster
    from palmette.spec.plan import Plan
    from palmette.spec.profile import Profile


def run(
    context: typer.Context,
    plan: Annotated[Path | None, typer.Argument(help="The plan (JSON).", show_default=False)] = None,
    profile: opt.AnyProfileFile = None,
    cluster: opt.AnyClusterFile = None,
    recipe: opt.RecipeName = None,
    data: opt.TrainingDataName = None,
    iterations: Annotated[int | None, typer.Option("--iterations", min=1, help="Iterations to train.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Epochs to train.")] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            "--optimizer", help="sgd (default), momentum, adamw or another of torch.optim, or package.module:callable."
        ),
    ] = None,
    lr: opt.LearningRate = None,
    weight_decay: Annotated[
        float | None, typer.Option("--weight-decay", help="Weight decay; the default is the optimizer's.")
    ] = None,
    momentum: Annotated[
        float | None, typer.Option("--momentum", help="Momentum, for optimizers that have one; the default is theirs.")
    ] = None,
    nesterov: Annotated[
        bool | None, typer.Option("--nesterov", help="Nesterov's momentum.", show_default=False)
    ] = None,
    optimizer_options: Annotated[
        str | None,
        typer.Option("--optimizer-options", help="Further options of the optimizer: 'betas=(0.9, 0.95), eps=1e-6'."),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--groups", help="Other options for some weights: '*.bias: weight_decay=0'; may be repeated."),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule", help="Learning rate over the run: constant (default), linear or cosine (down to 0)."
        ),
    ] = None,
    warmup: Annotated[
        int | None, typer.Option("--warmup", min=0, help="Iterations in which the learning rate rises to its value.")
    ] = None,
    clip_norm: Annotated[
        float | None, typer.Option("--clip-norm", help="Scale gradients down where the norm of all exceeds this.")
    ] = None,
    accumulate: Annotated[
        int | None, typer.Option("--accumulate", min=1, help="Iterations whose mean gradient makes one update.")
    ] = None,
    early_stop: Annotated[
        str | None,
        typer.Option(
            "--early-stop",
            help="Stop when a metric of held-out data was not better in so many evaluations: loss:3, f1:3:max.",
        ),
    ] = None,
    stop_at: Annotated[
        str | None,
        typer.Option("--stop-at", help="Stop when a metric of held-out data is reached: loss:0.3, f1:0.8:max."),
    ] = None,
    seed: opt.Seed = 0,
    engine: opt.EngineName = "local",
    testbed: Annotated[
        str,
        typer.Option(
            "--testbed",
            help="Emulate the cluster: paced (default) or namespaces; none for real machines, as on ray.",
        ),
    ] = "",
    dilation: opt.Dilation = None,
    transport: opt.TransportName = "",
    keys: opt.KeysFolder = None,
    hub: opt.HubName = None,
    insecure: opt.Insecure = False,
    trust_code: opt.TrustCode = False,
    listen: opt.Listen = None,
    init: Annotated[
        Path | None,
        typer.Option("--init", help="Start from these weights: safetensors, or a state_dict saved by torch.save."),
    ] = None,
    keep_samples: Annotated[
        Path | None,
        typer.Option("--keep-samples", help="Folder where nodes keep samples of other nodes for later runs."),
    ] = None,
    compress: Annotated[
        str | None,
        typer.Option("--compress", help="How to make models smaller, prune or distill, instead of as in the plan."),
    ] = None,
    freeze: opt.Freeze = None,
    lora: opt.Lora = None,
    rank: opt.Rank = None,
    dtype: Annotated[str, typer.Option("--dtype", help="Type of the weights: float32 or float64.")] = "float32",
    precision: opt.PrecisionName = None,
    loss_scale: Annotated[
        float, typer.Option("--loss-scale", help="Factor of gradients on their way through the network, for fp16.")
    ] = 1024.0,
    mixed_precision: opt.MixedPrecision = False,
    input_shape: opt.InputShape = None,
    replan: Annotated[
        bool, typer.Option("--replan/--no-replan", help="Plan again when a node is lost or joins, instead of stopping.")
    ] = True,
    drift: Annotated[
        float, typer.Option("--drift", min=0.05, help="Plan again when a link's bandwidth is off by this fraction.")
    ] = 0.5,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Continue without a lost node even if its data is lost too.")
    ] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(
            "--track", help="Log to tensorboard[:DIR], mlflow[:URI] or wandb[:PROJECT], too; may be repeated."
        ),
    ] = None,
    meter: Annotated[
        list[str] | None,
        typer.Option(
            "--meter",
            help="A node's power meter: NODE=replay:FILE (the log of a plug or a battery) or, of this machine, "
            "NODE=zeus; may be repeated.",
        ),
    ] = None,
    trace: Annotated[
        str,
        typer.Option(
            "--trace", help="summed: all operations of some iterations, sums of the rest; full: all operations."
        ),
    ] = "summed",
    patience: Annotated[
        str,
        typer.Option("--patience", help="How long workers keep their state for --resume when this process dies."),
    ] = "24h",
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Continue the run in this folder, or the one of this name at a hub.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run without this terminal, here or at a hub: see palmette ls.")
    ] = False,
    at: Annotated[
        str | None,
        typer.Option("--at", help="With --detach: the hub (palmette hub) that executes the run: host:port."),
    ] = None,
    name: HolderName = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print progress as lines, every few seconds, instead of a bar.")
    ] = False,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for what the run writes.")] = Path("run"),
    force: Annotated[bool, typer.Option("--force", help="Replace the run that the folder of -o holds.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print run.json when the run ends.")] = False,
    quiet: opt.Quiet = False,
) -> None:
    """Execute a plan: train the network.

    Example: palmette run plan.json --data digits --iterations 20 --seed 0 -o run
    """
    from palmette.cli.detach import resume_at_hub, run_here, submit

    if at is not None and not detach:
        raise InputError(ArgumentFault("at", at, "a run at a hub has no terminal; expected --detach with it"))
    if detach and at is None:
        raise typer.Exit(run_here(context.obj, output if resume is None else resume, new=resume is None and not force))
    if resume is not None and at is not None:
        resume_at_hub(str(resume), at, keys, name)
        return
    if resume is not None:
        if force:
            raise InputError(ArgumentFault("force", True, "a run is continued, not replaced; expected --resume alone"))
        _resume_run(context, resume, (recipe, data, optimizer), (lora, rank))
        return
    known, for_profile, for_cluster = _read_inputs(plan, profile, cluster)  # before torch, which may be missing

    from palmette.control.prune import known_compression
    from palmette.control.run.recipes import refuse_other_adapters, requested_recipe
    from palmette.control.run.request import Request, training_options
    from palmette.control.run.session import prepare
    from palmette.control.run.trust import cluster_code, plan_code, refuse_untrusted
    from palmette.control.run.validation import refuse_unrunnable
    from palmette.cost.estimate import evaluator
    from palmette.spec.plan import Inputs

    refuse_other_adapters(known.model, lora, rank)
    refuse_unrunnable(known, evaluator(for_profile, for_cluster))
    named = {str(plan): plan_code(known) if recipe is None else set()}
    named.setdefault(str(cluster or plan), set()).update(cluster_code(for_cluster))
    refuse_untrusted(named, trust=trust_code, typed=[data])
    request = Request(
        **_start_and_length(known, init, iterations, epochs),
        recipe=recipe,
        data=data,
        engine=engine,
        testbed=testbed,
        dilation=dilation,
        transport=transport,
        keys=None if keys is None or at is not None else str(keys),
        hub=hub,
        insecure=insecure,
        listen=listen,
        keep_samples=None if keep_samples is None else str(keep_samples.absolute()),
        input_shape=parsing.parse_shape(input_shape),
        cluster_file=None if cluster is None else str(cluster.absolute()),
        replan=replan,
        allow_data_loss=allow_data_loss,
        compress=None if compress is None else known_compression(compress),
        drift=drift,
        track=tuple(track or ()),
        meter=tuple(meter or ()),
        trace=trace,
        patience_s=parsing.parse_seconds("patience", patience),
        options=training_options(
            requested_recipe(known.model, recipe),
            optimizer=optimizer,
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            optimizer_options=optimizer_options and parsing.parse_keywords("optimizer_options", optimizer_options),
            groups=groups and parsing.parse_groups(groups),
            schedule=schedule,
            warmup=warmup,
            clip_norm=clip_norm,
            accumulate=accumulate,
            early_stop=early_stop,
            stop_at=stop_at,
            seed=seed,
            dtype=dtype,
            precision=precision,
            loss_scale=loss_scale,
            mixed_precision=mixed_precision,
            freeze=tuple(freeze or ()),
        ),
    )
    if at is not None:
        whole = known.model_copy(update={"inputs": Inputs(cluster=for_cluster, profile=for_profile)})
        submit(whole, request, at, keys, name)
        return
    await_workers(request, known.nodes(), quiet)
    session = prepare(known, for_profile, for_cluster, request, output, force=force)
    execute_run(session, json_=json_, quiet=quiet, lines=lines)


def _read_inputs(plan: Path | None, profile: Path | None, cluster: Path | None) -> tuple[Plan, Profile, Cluster]:
    """The plan, and the profile and the cluster that it is run for.

    Raises:
        InputError: a file is missing, or cannot be read.
    """
    import palmette as pt
    from palmette.spec.plan import inputs_of

    if plan is None:
        raise InputError(Fault("PLAN", "missing", "expected a plan file, or --resume DIR"))
    known = pt.load_plan(plan)
    found = inputs_of(
        known, pt.load_profile(profile) if profile else None, pt.load_cluster(cluster) if cluster else None
    )
    return known, *found


def _resume_run(
    context: typer.Context, folder: Path, typed: tuple[str | None, ...], adapters: tuple[str | None, int | None]
) -> None:
    """Continue a run by its own options; those that were typed beside have to be the same."""
    from palmette.control.run.recipes import refuse_other_adapters
    from palmette.control.run.session import resume

    given = context.params

    def announce(request: CommonRequest, plan: Plan) -> None:
        await_workers(request, plan.nodes(), given["quiet"])

    session = resume(folder, insecure=given["insecure"], trust_code=given["trust_code"], typed=typed, announce=announce)
    _refuse_other_options(session, folder, context)
    refuse_other_adapters(session.plan.model, *adapters)
    execute_run(session, json_=given["json_"], quiet=given["quiet"], lines=given["lines"])


def _start_and_length(plan: Plan, init: Path | None, iterations: int | None, epochs: int | None) -> dict[str, Any]:
    """Where a run starts and how long it is: as the options say, else as a plan that continues a pre-training says."""
    pretrained = plan.decision if isinstance(plan.decision.get("init"), str) else {}
    weights = str(init) if init is not None else pretrained.get("init")
    if iterations is None and epochs is None:
        iterations = pretrained.get("steps")
    return {"init": weights, "iterations": iterations, "epochs": epochs}


def _refuse_other_options(session: TrainingSession, folder: Path, context: typer.Context) -> None:
    """Refuse options beside ``--resume`` that differ from those of the run: it continues as it began.

    Raises:
        InputError: names each of them.
    """
    from palmette.control.run.request import to_record

    known = to_record(session.request) | {"output": str(folder)}
    wrong = []
    for parameter in context.command.params:
        name = str(parameter.name)
        value, source = context.params.get(name), context.get_parameter_source(name)
        value = str(value) if isinstance(value, Path) else value
        given = source is not None and source.name == "COMMANDLINE"
        if name in known and given and not _same(_recorded(name, value), known[name]):
            expected = f"this run began with {shown(known[name])}; expected the same, or --resume alone"
            wrong.append(Fault(parameter.opts[-1], value, expected))
    if wrong:
        raise InputError(wrong)


_RECORDED: Mapping[str, Callable[[Any], Any]] = {
    "optimizer": lambda value: value if ":" in value else value.lower(),
    "optimizer_options": lambda value: json.loads(json.dumps(parsing.parse_keywords("optimizer_options", value))),
    "groups": lambda value: json.loads(json.dumps(parsing.parse_groups(value))),
}
"""From an option's value to how a run records it, where that is not the same."""


def _recorded(name: str, value: Any) -> Any:
    return _RECORDED[name](value) if name in _RECORDED else value


def _same(given: Any, known: Any) -> bool:
    if isinstance(given, str) and isinstance(known, tuple):  # --input-shape
        given = tuple(map(int, filter(str.isdecimal, given.split(","))))
    return bool((tuple(given) if isinstance(given, list) else given) == known)
