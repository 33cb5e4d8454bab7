"""Is ``auto`` ever worse than what a user would do without Palmette? Copy the data and train there, DDP, pipelining.

    python -m benchmarks.upload_first [--model lenet5] [--uplink 20] [--epochs 5] [--rule open] [--how rivals] [--quick]

Prints JSON: a case for each world, with the seconds of the whole training for each contender, who won, and ``auto``'s
by the best rival's; those that were really run on the paced testbed, on fewer images; the worst ratio and the best.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import palmette as pt
from benchmarks.command import parser, print_result, progress
from benchmarks.upload_first.rivals import rivals
from benchmarks.upload_first.running import MOST_WALL_S, expected_wall_s, here_s, run_in_turns, same_training
from benchmarks.upload_first.side_by_side import Machine, side_by_side
from benchmarks.upload_first.worlds import (
    ARCHIVE,
    BATCH,
    EPOCHS,
    IMAGES,
    UPLINKS_MBIT,
    Images,
    Rule,
    World,
    images,
    world,
)
from palmette.cost.estimate import evaluator
from palmette.errors import Infeasible
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile

MODELS = ("lenet5", "vgg11small")
RUN_IMAGES, ROUNDS = 1_000, 2
# Epochs of the worlds in which nothing can be copied: each is like the other.
FEW_EPOCHS = 5
RULES: tuple[Rule, ...] = get_args(Rule)
HOW = ("simulated", "run", "rivals")
BEATEN = 1.03
Rows = list[dict[str, Any]]


def worlds(models: list[str], rules: list[Rule], uplinks: list[float], epochs: list[int], many: int) -> Iterator[World]:
    """All worlds; the number of epochs matters only where data can be copied."""
    for model in models:
        for rule in rules:
            for uplink in uplinks:
                for each in epochs if rule == "open" else [FEW_EPOCHS]:
                    yield world(model, rule, uplink, each, many)


def planned(strategy: str, where: World, profile: Profile) -> Plan | None:
    """The plan of a strategy; None where there is none."""
    try:
        return pt.plan(strategy, profile=profile, cluster=where.cluster, batch=BATCH, epochs=where.epochs)
    except Infeasible:
        return None


def total_s(plan: Plan) -> float:
    """Seconds of the whole training by the event clock."""
    assert plan.estimate is not None, "made for a number of epochs"
    assert plan.estimate.total_s is not None, "made for a number of epochs"
    return plan.estimate.total_s


def described(plan: Plan) -> str:
    """A plan in a line."""
    places = [f"{i.layers[0]}–{i.layers[1]} on {i.node}" for phase in plan.phases for i in phase.instances]
    return f"{plan.decision.get('strategy', plan.strategy)}: {', '.join(dict.fromkeys(places))}"


def case(where: World, profile: Profile) -> dict[str, Any]:
    """A world by the event clock."""
    auto, upload = planned("auto", where, profile), planned("upload", where, profile)
    assert auto is not None, "every world can be trained on"
    others = rivals(where, evaluator(profile, where.cluster))
    seconds = {"auto": total_s(auto)} | {kind: way.time_s for kind, way in others.items()}
    same = [kind for kind, way in others.items() if way.same_batches]
    best, of_all = (min(kinds, key=lambda kind: others[kind].time_s) for kinds in (same, others))
    found = {
        **about(where),
        "how": "simulated",
        "seconds": seconds,
        "upload_plan_s": None if upload is None else total_s(upload),
        "what": {"auto": described(auto)} | {kind: way.what for kind, way in others.items()},
        "won": min(seconds, key=seconds.__getitem__),
        "best_rival": best,
        "ratio": seconds["auto"] / seconds[best],
        "best_of_all": of_all,
        "ratio_to_all": seconds["auto"] / seconds[of_all],
    }
    progress(f"{about(where)}: {found['ratio']:.3f} of {best} ({found['what'][best]}); {found['what']['auto']}")
    return found


def about(where: World) -> dict[str, Any]:
    """A world in a row."""
    return {
        "model": where.model,
        "rule": where.rule,
        "uplink_mbit": where.uplink_mbit,
        "epochs": where.epochs,
        "samples": where.samples,
    }


def run_case(where: World, profile: Profile, data: str, machine_s: float, rounds: int) -> dict[str, Any] | None:
    """A world for real; None where both plans are the same, or a run takes too long."""
    auto, upload = planned("auto", where, profile), planned("upload", where, profile)
    if auto is None or upload is None or same_training(auto, upload):
        return None
    plans = {"auto": auto, "upload": upload}
    if max(expected_wall_s(plan, machine_s) for plan in plans.values()) > MOST_WALL_S:
        return None
    progress(f"{about(where)} for real")
    ran = run_in_turns(plans, where, data, rounds)
    best_s = min(way.time_s for way in rivals(where, evaluator(profile, where.cluster)).values())
    return {
        **about(where),
        "how": "run",
        **ran,
        "estimates_s": {name: total_s(plan) for name, plan in plans.items()},
        "best_rival_simulated_s": best_s,
        "what": {name: described(plan) for name, plan in plans.items()},
        "ratio": ran["seconds"]["auto"] / ran["seconds"]["upload"],
        "ratio_to_all": ran["seconds"]["auto"] / min(best_s, ran["seconds"]["upload"]),
    }


def profiles(models: list[str], data: str) -> dict[str, Profile]:
    """Networks on all hardware, with the stored size of samples and the time to decode one."""
    one, several = (world("", rule, 5.0, 1, IMAGES).cluster for rule in ("open", "private owners"))
    cluster = one.model_copy(update={"nodes": one.nodes | several.nodes})
    return {model: pt.profile(model, cluster=cluster, data=data) for model in models}


def simulated(given: Any, shown: Images) -> list[dict[str, Any]]:
    """All worlds by the event clock."""
    known = profiles(given.model, shown.data)
    asked = worlds(given.model, given.rule, given.uplink, given.epochs, shown.samples)
    return [case(where, known[where.model]) for where in asked]


def really_run(given: Any, shown: Images, rounds: int) -> list[dict[str, Any]]:
    """The worlds in which one node may have all data, with fewer images, for real."""
    known, rows = profiles(given.model, shown.data), []
    for model in given.model:
        machine_s = here_s(world(model, "open", 5.0, 1, shown.samples))
        for where in worlds([model], given.rule, given.uplink, given.epochs, shown.samples):
            row = run_case(where, known[model], shown.data, machine_s, rounds)
            if row is not None:
                rows.append(row)
    return rows


def beside_rivals(given: Any, shown: Images) -> list[dict[str, Any]]:
    """The same worlds in namespaces, with the rivals for real."""
    known, rows = profiles(given.model, shown.data), []
    for where in worlds(given.model, given.rule, given.uplink, given.epochs, shown.samples):
        profile, auto = known[where.model], planned("auto", where, known[where.model])
        assert auto is not None, "every world can be trained on"
        progress(f"{about(where)} beside its rivals")
        prices = evaluator(profile, where.cluster)
        found = side_by_side(auto, where, prices, Machine(shown.data, here_s(where), given.rounds))
        if found is not None:
            what = {kind: way.what for kind, way in rivals(where, prices).items()}
            rows.append({**about(where), "how": "rivals", **found, "what": {"auto": described(auto), **what}})
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The worst and the best ratio, and where they are."""
    if not rows:
        return {"cases": 0}
    worst = max(rows, key=_ratio)
    best, worst_to_all = min(rows, key=_ratio_to_all), max(rows, key=_ratio_to_all)
    return {
        "cases": len(rows),
        "worst_ratio": _ratio(worst),
        "worst_where": _place(worst),
        "worst_ratio_to_all": _ratio_to_all(worst_to_all),
        "worst_where_to_all": _place(worst_to_all, "ratio_to_all"),
        "best_factor": 1 / _ratio_to_all(best),
        "best_where": _place(best, "ratio_to_all"),
        "beaten_by_more_than_3_percent": [_place(row) for row in rows if _ratio(row) > BEATEN],
        "beaten_to_all": [_place(row, "ratio_to_all") for row in rows if _ratio_to_all(row) > max(BEATEN, _ratio(row))],
    }


def _ratio(row: dict[str, Any]) -> float:
    return float(row["ratio"])


def _ratio_to_all(row: dict[str, Any]) -> float:
    return float(row["ratio_to_all"])


def _place(row: dict[str, Any], which: str = "ratio") -> str:
    return f"{row['model']}, {row['rule']}, {row['uplink_mbit']:g} Mbit/s, epochs {row['epochs']}: {row[which]:.3f}"


def main() -> None:
    """Play all worlds, run some, and print what came out."""
    options = parser(__doc__, "LeNet-5 on digits at 20 Mbit/s, 1 and 5 epochs, one of them for real")
    options.add_argument("--model", action="append", choices=MODELS, help="default: both")
    options.add_argument("--rule", action="append", choices=RULES, help="what may become of the data; default: all")
    options.add_argument("--uplink", action="append", type=float, help="in Mbit/s; default: 5, 20 and 100")
    options.add_argument("--epochs", action="append", type=int, help="default: 1, 5 and 20")
    options.add_argument("--archive", type=Path, default=ARCHIVE, help="CIFAR-10 as a tar file; digits if missing")
    options.add_argument("--how", action="append", choices=HOW, help="by the clock, for real, beside real rivals")
    options.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each contender in a real run")
    given = options.parse_args()
    began, busy = time.monotonic(), os.getloadavg()[0]
    quick = given.quick
    given.how = given.how or list(HOW)
    given.model = given.model or list(MODELS[:1] if quick else MODELS)
    given.rule = given.rule or list(RULES[:1] if quick else RULES)
    given.uplink = given.uplink or ([20.0] if quick else list(UPLINKS_MBIT))
    given.epochs = given.epochs or ([1, 5] if quick else list(EPOCHS))
    rows, ran, beside = quick_rows(given) if quick else all_rows(given)
    found = {"seconds": time.monotonic() - began, "load_average": [busy, os.getloadavg()[0]]}
    found |= {"cases": rows, "runs": ran, "beside_rivals": beside}
    print_result({**found, "simulated": summary(rows), "run": summary(ran), "rivals": summary(beside)})


def all_rows(given: Any) -> tuple[Rows, Rows, Rows]:
    """All cases, those that were run, and those that were run beside their rivals."""
    rows, ran, beside = Rows(), Rows(), Rows()
    if "simulated" in given.how:
        with images(given.archive, IMAGES) as shown:
            rows = simulated(given, shown)
    if "run" in given.how:
        with images(given.archive, RUN_IMAGES) as shown:
            ran = really_run(given, shown, given.rounds)
    if "rivals" in given.how:
        with images(given.archive, RUN_IMAGES) as shown:
            beside = beside_rivals(given, shown)
    return rows, ran, beside


def quick_rows(given: Any) -> tuple[Rows, Rows, Rows]:
    """A few cases on the digits, the shortest of them run once."""
    shown = Images("digits", 1_500)
    rows = simulated(given, shown)
    given.epochs = given.epochs[:1]
    return rows, really_run(given, shown, 1), []


if __name__ == "__main__":
    main()
