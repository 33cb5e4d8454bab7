"""Options that several commands take, and how their faults are named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.errors import ArgumentFault, InputError, PalmetteError
from palmette.spec.limits import MOST_DILATION, MOST_SEED

if TYPE_CHECKING:
    from palmette.spec.profile import Profile

DATA_KINDS = "cifar10:FOLDER, folder:DIR, csv:FILE, tokens:FILE, hf:DIR or package.module:callable"

ClusterFile = Annotated[
    Path, typer.Option("--cluster", help="The cluster: nodes and links (YAML).", show_default=False)
]
ClusterFileIfGiven = Annotated[
    Path | None, typer.Option("--cluster", help="The cluster: nodes and links (YAML).", show_default=False)
]
ProfileFileIfGiven = Annotated[
    Path | None, typer.Option("--profile", help="The profile of the network (JSON).", show_default=False)
]
AnyClusterFile = Annotated[
    Path | None, typer.Option("--cluster", help="Use this cluster instead of the one in the plan.", show_default=False)
]
AnyProfileFile = Annotated[
    Path | None, typer.Option("--profile", help="Use this profile instead of the one in the plan.", show_default=False)
]
Measurements = Annotated[
    Path | None,
    typer.Option("--measurements", help="Measurements, for the strategy cluster (JSON).", show_default=False),
]
Learning = Annotated[
    Path | None, typer.Option("--learning", help="A learning curve, for RightTrain (JSON).", show_default=False)
]
Problem = Annotated[
    Path | None,
    typer.Option("--problem", help="Tables of models, nodes, costs and losses, for PACT (JSON).", show_default=False),
]
Lossy = Annotated[
    bool,
    typer.Option("--lossy", help="Allow layer outputs of 8 or 4 bits and, with --loss, codecs that the curve knows."),
]
Batch = Annotated[int, typer.Option("--batch", help="Samples per iteration.")]
GoalText = Annotated[
    str | None,
    typer.Option(
        "--goal", help="What to minimise: time, energy, power, edp, cost, carbon or a sum such as 0.3*time+0.7*energy."
    ),
]
Deadline = Annotated[str | None, typer.Option("--deadline", help="Time limit of the whole training, such as 2h.")]
IterationDeadline = Annotated[
    str | None, typer.Option("--iteration-deadline", help="Time limit of one iteration, such as 5s.")
]
Loss = Annotated[float | None, typer.Option("--loss", help="Target loss.")]
OptimizerName = Annotated[
    str,
    typer.Option("--optimizer", help="sgd, momentum, adam, adamw or any of torch.optim; they differ in memory."),
]
OptimizerNameIfGiven = Annotated[
    str | None,
    typer.Option(
        "--optimizer",
        help="The recipe's, or sgd (default), momentum, adam, adamw or any of torch.optim; they differ in memory.",
    ),
]
ExchangeCodecName = Annotated[
    str,
    typer.Option(
        "--exchange-codec",
        help="How gradients of replicas, or differences of windows, travel: none (default), bf16, int8, topk:RATIO or "
        "lowrank:RANK; what these leave out is sent later.",
    ),
]
Overlap = Annotated[
    bool,
    typer.Option(
        "--overlap",
        help="Send gradients of replicas during backward, last layers first, where that is faster.",
    ),
]
PlannedAccumulate = Annotated[
    int | None,
    typer.Option("--accumulate", min=1, help="Iterations whose gradients make one update; the recipe's if not given."),
]
PlannedDtype = Annotated[
    str | None, typer.Option("--dtype", help="float64: sizes and memory of training in double precision.")
]
LearningRate = Annotated[
    float | None, typer.Option("--lr", help="Learning rate; the default depends on the optimizer.")
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine", help="Where workers run: local (this machine), ray (hosts of a Ray cluster) or hub (they dial in)."
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Let nodes on other machines talk over gloo: not encrypted, and whoever is on the network can join in.",
    ),
]
TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Import and call the code that the given files name as package.module:callable; remembered for each file.",
    ),
]
TrainingDataName = Annotated[
    str | None,
    typer.Option(
        "--data",
        help=f"digits (default, or the recipe's), {DATA_KINDS}; "
        "where the sources name data in the cluster file, only for the evaluation.",
    ),
]
TransportName = Annotated[
    str, typer.Option("--transport", help="gloo (default) on a trusted network, tls on any other.")
]
KeysFolder = Annotated[
    Path | None,
    typer.Option("--keys", help="Folder of keys for tls (palmette keys); created for the run if not given."),
]
Listen = Annotated[
    str | None,
    typer.Option("--listen", help="Where engine hub waits for workers: host:port; 0.0.0.0:8443 if not given."),
]
HubName = Annotated[
    str | None, typer.Option("--hub", help="The node that relays messages for tls; chosen if not given.")
]
ModelName = Annotated[str, typer.Argument(help="A network of the zoo, such as lenet5, or package.module:callable.")]
ModelNameIfGiven = Annotated[
    str | None,
    typer.Argument(help="A network of the zoo, such as lenet5, or package.module:callable.", show_default=False),
]
RecipeName = Annotated[
    str | None,
    typer.Option("--recipe", help="Your training, package.module:recipe: network, data, loss.", show_default=False),
]
RecipeToProfile = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        help="Instead of a profile, your training, package.module:recipe: profiled first.",
        show_default=False,
    ),
]
Lora = Annotated[
    str | None,
    typer.Option(
        "--lora", help="Modules that get LoRA adapters, such as q_proj,v_proj; needs peft.", show_default=False
    ),
]
Rank = Annotated[int | None, typer.Option("--rank", help="Rank of the adapters, 8 if not given.", show_default=False)]
Freeze = Annotated[
    list[str] | None,
    typer.Option("--freeze", help="Weights or layers not to train, such as 'conv1.*'; may be repeated."),
]
PrecisionName = Annotated[
    str | None, typer.Option("--precision", help="Compute in bf16 or fp16, with weights of their own type.")
]
MixedPrecision = Annotated[bool, typer.Option("--mixed-precision", help="Compute in bfloat16, as --precision bf16.")]
InputShape = Annotated[str | None, typer.Option("--input-shape", help="Shape of one sample, such as 3,32,32.")]
Dilation = Annotated[
    float | None,
    typer.Option(
        "--dilation", min=1, max=MOST_DILATION, help="Slow down emulated time by this factor; chosen if not given."
    ),
]
PlannedEpochs = Annotated[
    int | None, typer.Option("--epochs", help="How many epochs the plan will be used for, the first included.")
]
InputForm = Annotated[
    str,
    typer.Option(
        "--input-as", help="How samples travel: stored, or tensor (the network's input), as the papers count them."
    ),
]
Robust = Annotated[
    float | None,
    typer.Option("--robust", help="Plan for what varying links reach for this share of the time, such as 0.9."),
]
InputFormIfGiven = Annotated[
    str | None,
    typer.Option("--input-as", help="How samples travel, instead of what the plan says: stored or tensor."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, help="Random seed.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Suppress progress output.")]
Figures = Annotated[Path, typer.Option("-o", "--output", help="Folder for figures and numbers.")]
FitAgain = Annotated[
    bool,
    typer.Option("--fit", help="Fit the machines to the claims anew, for minutes; else those found before are used."),
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write the result to this file.")]


def flag(argument: str) -> str:
    """The option of a Python argument, or of several with commas between them: the unit is in its value."""
    names = (name.removesuffix("_s").removesuffix("_bps") for name in argument.split(", "))
    return ", ".join("--" + name.replace("_", "-") for name in names)


def reason_of(error: PalmetteError) -> str:
    """What an error says on the command line: options in the place of Python arguments."""
    return error.message.naming(flag)


@contextmanager
def naming(file: Path | None, fields: str) -> Iterator[None]:
    """Add the file's name to faults about its ``fields`` that were found after it was read."""
    try:
        yield
    except InputError as error:
        raise InputError(
            replace(fault, file=str(file)) if file and fault.field.startswith(fields) and not fault.file else fault
            for fault in error.faults
        ) from None


def model_or_recipe(model: str | None, recipe: str | None, lora: str | None = None, rank: int | None = None) -> str:
    """The name of a network or of a recipe, of which one has to be given, with adapters.

    Raises:
        InputError: there is none, or both, or the adapters cannot be used.
    """
    given = [name for name in (model, recipe) if name is not None]
    if len(given) != 1:
        raise InputError(ArgumentFault("recipe", recipe or "missing", "expected either MODEL or a recipe"))
    return _with_adapters(given[0], lora, rank)


def _with_adapters(model: str, lora: str | None, rank: int | None) -> str:
    if lora is None and rank is None:
        return model
    from palmette.zoo.adapters import requested_adapters

    adapters = requested_adapters(lora, rank)
    assert adapters is not None, "a rank alone is refused"
    return adapters.named(model)


def profile_or_recipe(
    profile: Path | None, recipe: str | None, lora: str | None, rank: int | None, *, needed: bool = True
) -> Profile | str | None:
    """The profile in a file, or the name of a recipe that is to be profiled, with adapters; at most one is given.

    Raises:
        InputError: both are given, none although one is ``needed``, what is given cannot be read, or adapters are given
            for a profile.
    """
    from palmette.api import load_profile

    if profile is not None and recipe is not None:
        raise InputError(ArgumentFault("recipe", recipe, "expected either a profile or a recipe, not both"))
    if needed and profile is None and recipe is None:
        raise InputError(ArgumentFault("profile", "missing", "expected one, or a recipe to profile"))
    if recipe is not None:
        from palmette.zoo.recipes.loading import load_recipe

        load_recipe(recipe)
        return _with_adapters(recipe, lora, rank)
    for name, value in (("lora", lora), ("rank", rank)):
        if value is not None:
            raise InputError(ArgumentFault(name, value, "a profile knows its adapters; expected this with a recipe"))
    return None if profile is None else load_profile(profile)
