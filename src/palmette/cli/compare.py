"""``palmette compare``: every strategy that applies, best first."""

from __future__ import annotations

from palmette.cli import options as opt
from palmette.cli import parsing
from palmette.cli.run_places import HolderName, HubKeys, LimitsAt, limited_at_hub


def compare(
    cluster: opt.ClusterFile,
    profile: opt.ProfileFileIfGiven = None,
    recipe: opt.RecipeToProfile = None,
    lora: opt.Lora = None,
    rank: opt.Rank = None,
    freeze: opt.Freeze = None,
    precision: opt.PrecisionName = None,
    mixed_precision: opt.MixedPrecision = False,
    batch: opt.Batch = 32,
    goal: opt.GoalText = "time",
    deadline: opt.Deadline = None,
    iteration_deadline: opt.IterationDeadline = None,
    loss: opt.Loss = None,
    epochs: opt.PlannedEpochs = None,
    input_as: opt.InputForm = "stored",
    exchange_codec: opt.ExchangeCodecName = "none",
    overlap: opt.Overlap = False,
    robust: opt.Robust = None,
    optimizer: opt.OptimizerNameIfGiven = None,
    accumulate: opt.PlannedAccumulate = None,
    dtype: opt.PlannedDtype = None,
    seed: opt.Seed = 0,
    measurements: opt.Measurements = None,
    learning: opt.Learning = None,
    problem: opt.Problem = None,
    lossy: opt.Lossy = False,
    at: LimitsAt = None,
    keys: HubKeys = None,
    name: HolderName = None,
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compare the plans of every strategy that applies, best first.

    Example: palmette compare --profile profile.json --cluster cluster.yaml --goal energy --epochs 20
    """
    import palmette as pt
    from palmette.cli.plan import load_documents
    from palmette.cli.show.comparison import comparison_json, show_comparison
    from palmette.cli.show.console import print_json
    from palmette.cli.show.profile_progress import profile_progress
    from palmette.runtime.options import checked_precision
    from palmette.spec.plan import known_input_as

    known = opt.profile_or_recipe(profile, recipe, lora, rank)
    assert known is not None
    with opt.naming(cluster, "nodes"), profile_progress(quiet or json_, "") as progress:
        found = pt.compare(
            profile=known,
            cluster=limited_at_hub(pt.load_cluster(cluster), at, keys, name),
            batch=batch,
            goal=parsing.parse_goal("time" if goal is None else goal, deadline, iteration_deadline, loss),
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
            lossy=lossy,
            progress=progress,
            **load_documents(measurements=measurements, learning=learning, problem=problem),
        )
        if not found.plans:
            found.refuse()
    if json_:
        print_json(comparison_json(found))
    else:
        show_comparison(found)
