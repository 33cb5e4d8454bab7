"""``palmette plan STRATEGY``: one command per strategy, with the common options and its own.

The commands are created when ``plan`` is called, so that ``palmette --help`` need not load any strategy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from operator import getitem
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from palmette.cli import options as opt
from palmette.cli import parsing
from palmette.cli.run_places import HolderName, HubKeys, LimitsAt, limited_at_hub
from palmette.errors import ArgumentFault, InputError

# The options of all planners in the order of the help; required ones first.
FILES: dict[str, tuple[Any, Any]] = {
    "cluster": (opt.ClusterFile, inspect.Parameter.empty),
    "profile": (opt.ProfileFileIfGiven, None),
    "recipe": (opt.RecipeToProfile, None),
    "lora": (opt.Lora, None),
    "rank": (opt.Rank, None),
    "freeze": (opt.Freeze, None),
    "precision": (opt.PrecisionName, None),
    "mixed_precision": (opt.MixedPrecision, False),
}
HUB_OPTIONS: dict[str, tuple[Any, Any]] = {"at": (LimitsAt, None), "keys": (HubKeys, None), "name": (HolderName, None)}
FILES_IF_GIVEN = FILES | {"cluster": (opt.ClusterFileIfGiven, None)}
COMMON: dict[str, tuple[Any, Any]] = {
    "batch": (opt.Batch, 32),
    "goal": (opt.GoalText, None),
    "deadline": (opt.Deadline, None),
    "iteration_deadline": (opt.IterationDeadline, None),
    "loss": (opt.Loss, None),
    "epochs": (opt.PlannedEpochs, None),
    "input_as": (opt.InputForm, "stored"),
    "exchange_codec": (opt.ExchangeCodecName, "none"),
    "overlap": (opt.Overlap, False),
    "robust": (opt.Robust, None),
    "optimizer": (opt.OptimizerNameIfGiven, None),
    "accumulate": (opt.PlannedAccumulate, None),
    "dtype": (opt.PlannedDtype, None),
    "seed": (opt.Seed, 0),
    "json_": (opt.Json, False),
    "quiet": (opt.Quiet, False),
    "output": (opt.Output, None),
}


class Strategies(TyperGroup):
    """The group ``plan``, whose commands are the strategies."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every strategy's name."""
        from palmette.plan.core.registry import strategies

        return list(strategies())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of one strategy; an unknown one is an error that names the nearest."""
        from palmette.plan.core.registry import find

        return typer.main.get_command(_app(find(cmd_name)))


plan = typer.Typer(
    cls=Strategies,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Decide which node computes which layers: one command per strategy.\n\n"
    "Example: palmette plan all-edge --profile profile.json --cluster cluster.yaml -o plan.json",
)


def _app(kind: Any) -> typer.Typer:
    from palmette.plan.core.make_plan import document_type

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    files = ["--profile profile.json", "--cluster cluster.yaml"] if kind.needs_profile else []
    hints = get_type_hints(kind)
    needed = [option.name for option in fields(kind) if option.default is MISSING]
    tables = [option.name for option in fields(kind) if document_type(hints[option.name])]
    files += [f"--{name} {name}.json" for name in needed or (tables if not kind.needs_profile else [])]
    if "learning" in needed:  # a learning curve is for training to a target loss
        files.append("--loss 0.3")
    if kind.changes_nodes:  # when to change depends on how long the training is
        files.append("--epochs 20")
    example = f"palmette plan {kind.name} {' '.join(files)} -o plan.json"
    app.command(
        kind.name, short_help=kind.summary, help=f"{kind.summary[0].upper()}{kind.summary[1:]}.\n\nExample: {example}"
    )(_command(kind))
    return app


def _command(kind: Any) -> Callable[..., None]:
    own = _own_options(kind)

    def command(**given: Any) -> None:
        _make_plan(kind, {name: given.pop(name) for name in own}, **given)

    parameters = (FILES if kind.needs_profile else FILES_IF_GIVEN) | COMMON | HUB_OPTIONS | own
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in parameters.items()
        ]
    )
    command.__annotations__ = {name: annotation for name, (annotation, _) in parameters.items()}
    return command


def _own_options(kind: Any) -> dict[str, tuple[Any, Any]]:
    from palmette.plan.core.make_plan import document_type

    hints = get_type_hints(kind)
    own = {}
    for option in fields(kind):
        default = inspect.Parameter.empty if option.default is MISSING else option.default
        hint = Path if document_type(hints[option.name]) else hints[option.name]
        name = option.name.replace("_", "-")
        flag = f"--{name}/--no-{name}" if default is True else f"--{name}"
        info = typer.Option(flag, help=option.metadata.get("help", ""))
        annotation = getitem(Annotated, (hint | None if default is None else hint, info))
        own[option.name] = (annotation, default)
    return own


def _load_files(kind: Any, own: dict[str, Any]) -> dict[str, Any]:
    """A strategy's own options, with documents in the place of the files that hold them.

    Raises:
        InputError: a file cannot be read; holds every fault.
    """
    from palmette.plan.core.make_plan import document_type
    from palmette.spec.files import load

    hints = get_type_hints(kind)
    return {
        name: load(held, value) if isinstance(value, Path) and (held := document_type(hints[name])) else value
        for name, value in own.items()
    }


def load_documents(**files: Path | None) -> dict[str, Any]:
    """Documents that several strategies take as options, by option; those that are not given are left out.

    Raises:
        InputError: a file cannot be read, or no strategy takes it.
    """
    from palmette.plan.core.make_plan import document_type
    from palmette.plan.core.registry import strategies

    found: dict[str, Any] = {}
    for name, file in files.items():
        if file is None:
            continue
        kind = next((kind for kind in strategies().values() if document_type(get_type_hints(kind).get(name))), None)
        if kind is None:
            raise InputError(ArgumentFault(name, str(file), "no strategy takes it"))
        found |= _load_files(kind, {name: file})
    return found


def _make_plan(  # one argument per option
    kind: Any,
    own: dict[str, Any],
    *,
    profile: Path | None,
    cluster: Path | None,
    recipe: str | None,
    lora: str | None,
    rank: int | None,
    freeze: list[str] | None,
    precision: str | None,
    mixed_precision: bool,
    batch: int,
    goal: str | None,
    deadline: str | None,
    iteration_deadline: str | None,
    loss: float | None,
    epochs: int | None,
    input_as: str,
    exchange_codec: str,
    overlap: bool,
    robust: float | None,
    optimizer: str | None,
    accumulate: int | None,
    dtype: str | None,
    seed: int,
    json_: bool,
    quiet: bool,
    output: Path | None,
    at: str | None,
    keys: Path | None,
    name: str | None,
) -> None:
    """Make a plan and print it, or write it to a file."""
    import palmette as pt
    from palmette.cli.show.plan import show_plan
    from palmette.cli.show.planning_progress import planning_progress
    from palmette.cli.show.profile_progress import profile_progress
    from palmette.runtime.options import checked_precision
    from palmette.spec.files import write_text
    from palmette.spec.plan import known_input_as

    if at is not None and cluster is None:
        raise InputError(ArgumentFault("at", at, "limits are those of a cluster's nodes; expected --cluster with it"))
    silent = quiet or json_
    with (
        opt.naming(cluster, "nodes"),
        planning_progress(silent or recipe is not None, kind.name) as planning,
        profile_progress(silent or recipe is None) as measuring,
    ):
        made = pt.plan(
            kind.name,
            profile=opt.profile_or_recipe(profile, recipe, lora, rank, needed=kind.needs_profile),
            cluster=limited_at_hub(pt.load_cluster(cluster), at, keys, name) if cluster else None,
            batch=batch,
            goal=parsing.parse_goal(kind.default_goal if goal is None else goal, deadline, iteration_deadline, loss),
            optimizer=optimizer,
            accumulate=accumulate,
            dtype=dtype,
            seed=seed,
            epochs=epochs,
            input_as=known_input_as(input_as),
            exchange_codec=exchange_codec,
            overlap=overlap,
            robust=robust,
            freeze=freeze or (),
            precision=checked_precision(precision, mixed=mixed_precision),
            progress=planning if recipe is None else measuring,
            **_load_files(kind, own),
        )
    if output is not None:
        write_text(output, made.to_json())
    if json_:
        print(made.to_json(), end="")
    else:
        show_plan(made)
        _show_decision(made.decision)


def _show_decision(decision: dict[str, Any]) -> None:
    """Print what stands in a decision beside the tree: a bound, a ranking of devices, a schedule, what is uncertain."""
    from palmette.cli.show.device_choice import show_choice
    from palmette.cli.show.lower_bound import show_gap
    from palmette.cli.show.schedule import show_schedule

    if {"goal", "value", "lower_bound"} <= decision.keys():
        show_gap(decision["goal"], decision["value"], decision["lower_bound"])
    if {"devices", "ranking"} <= decision.keys():
        show_choice(decision)
    if "schedule" in decision:
        show_schedule(decision)
    told = [decision[name] for name in ("margin", "learning_rate") if name in decision]
    for note in [*decision.get("beyond", ()), *told]:
        print(f"note: {note}")
