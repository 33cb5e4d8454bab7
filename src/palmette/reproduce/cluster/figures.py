"""Gu et al.'s Figs. 2 and 5 to 7: what bandwidth costs a device, how often the best cluster is chosen, what that gains,
and what the pre-training costs.

The table that the choice is made on holds each device alone and predicted factors, as ``palmette pretrain`` writes
them. The truth is the event clock's, with all devices of a cluster at once (``simulation``): ``simulated``. The choice
is also made four times on tables as noisy as short measurements are: ``accuracy_noisy``. ``measured`` is another source
of cases: layer times of this machine, pre-training and clusters that are really trained.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from palmette.measure.communication_factors import StandaloneDevice, factor_fields, predict_factors
from palmette.plan.cluster.strategy import ClusterChoice
from palmette.plan.core.make_plan import make_plan
from palmette.plan.core.strategy import PlanRequest
from palmette.reproduce.cluster.catalogue import CatalogueCases
from palmette.reproduce.cluster.claims import claims
from palmette.reproduce.cluster.fitted import fits
from palmette.reproduce.cluster.paper import (
    BATCH,
    MBPS,
    MODELS,
    PRETRAINED_STEPS,
    STEPS,
    CaseSource,
    ClusterCase,
    ClusterCost,
    Devices,
    beside_desktop,
)
from palmette.reproduce.fitted import with_verdicts
from palmette.reproduce.progress import Progress, Record, silent
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.measurements import Measurements

# The paper repeats each case four times; windows of steps agree within 2%, its regression is off by up to 2.2%.
REPETITIONS, STEP_NOISE, POWER_NOISE = 4, 0.02, 0.022
# Typical seconds of all figures on two cores; said before anything is known of this machine.
TYPICAL_S = 60.0
# More where the machines are fitted again.
FIT_S = 30.0
WORKERS = ("jtx2", "jtx1")
GOALS = ("time", "power", "energy", "edp")


def reproduce(progress: Progress = silent) -> Record:
    """Figs. 5 to 7 and the claims about them, with the catalogue's layer times."""
    return reproduce_from(CatalogueCases(progress), progress)


def reproduce_from(source: CaseSource, progress: Progress = silent, *, fit_again: bool = False) -> Record:
    """All cases of a source, their summary, and the paper's claims beside them, also with fitted machines."""
    cases = [evaluate_case(name, each) for name in MODELS for each in source.cases(name)]
    made: Record = {
        "format": "palmette.reproduction/1",
        "paper": "Gu et al.",
        "how": source.how,
        "batch": BATCH,
        "steps": STEPS,
        "figures": {"2": over_bandwidth(cases)},
        "cases": cases,
        **summary(cases),
    }
    fit = fits(fit_again, progress)
    return made | {"claims": with_verdicts(claims(made), [fit]), "fit": fit}


def with_noise(alone: dict[str, StandaloneDevice], rng: np.random.Generator) -> dict[str, StandaloneDevice]:
    """Devices as a short measurement and a regression would find them."""
    return {
        name: StandaloneDevice(
            each.step_s * float(rng.normal(1.0, STEP_NOISE)),
            each.power_w * float(rng.normal(1.0, POWER_NOISE)),
            each.idle_w,
        )
        for name, each in alone.items()
    }


def measurements_of(name: str, case: ClusterCase, alone: dict[str, StandaloneDevice]) -> Measurements:
    """The table that a pre-training would write for devices with these times and powers."""
    devices = {}
    for device, each in alone.items():
        by_server = {
            server: predict_factors(each, case.parameter_bytes, path.bandwidth_bps, path.latency_s)
            for (a, server), path in case.paths.items()
            if a == device and alone[server].step_s <= each.step_s
        }
        known = {"step_s": each.step_s, "build_s": case.builds_s[device], "power_w": each.power_w}
        devices[device] = known | factor_fields(by_server, min(alone, key=lambda one: alone[one].step_s))
    return Measurements.model_validate({"model": name, "batch": BATCH, "steps": STEPS, "devices": devices})


def over_bandwidth(cases: list[Record]) -> Record:
    """Fig. 2: seconds and watts of a device's step beside the desktop's server, over those at the highest bandwidth."""
    groups = [(name, device) for name in MODELS for device in WORKERS]
    found = {(case["model"], case["mbps"]): case["beside_desktop"] for case in cases}

    def relative(what: str, mbps: float) -> list[float]:
        return [found[name, mbps][device][what] / found[name, MBPS[0]][device][what] for name, device in groups]

    return {
        "groups": [f"{name} {device}" for name, device in groups],
        "mbps": list(MBPS),
        "time": [relative("time_s", mbps) for mbps in MBPS],
        "power": [relative("power_w", mbps) for mbps in MBPS],
    }


def evaluate_case(name: str, case: ClusterCase) -> Record:
    """A network at a bandwidth: what was chosen for each goal, what would have been best, and the overhead."""
    table = measurements_of(name, case, case.alone)
    rng = np.random.default_rng([list(MODELS).index(name), int(case.mbps)])
    noisy = [measurements_of(name, case, with_noise(case.alone, rng)) for _ in range(REPETITIONS)]
    guess = {
        tuple(row["devices"]): ClusterCost(row["time_s"], row["power_w"]) for row in _decision(table, "time")["ranking"]
    }
    return {
        "model": name,
        "mbps": case.mbps,
        "how": _by_cluster(case.how),
        "beside_desktop": {device: beside_desktop(table, device)._asdict() for device in WORKERS},
        "goals": choices(table, case.truth),
        "repeated": [choices(each, case.truth) for each in noisy],
        "time_error": _by_cluster({m: abs(guess[m].time_s / true.time_s - 1) for m, true in case.truth.items()}),
        "truth": _by_cluster({members: true._asdict() for members, true in case.truth.items()}),
        "estimate": _by_cluster({members: guess[members]._asdict() for members in case.truth}),
    }


def choices(table: Measurements, truth: dict[Devices, ClusterCost]) -> Record:
    """For each goal the chosen cluster, and its rank by true costs."""
    rows = {}
    for goal in GOALS:
        chosen = tuple(_decision(table, goal)["devices"])
        order = sorted(truth, key=lambda members: truth[members].of(goal))
        best, second = truth[order[0]].of(goal), truth[order[1]].of(goal)
        rows[goal] = {
            "chosen": chosen,
            "best": order[0],
            "place": order.index(chosen) + 1,
            "gain": 1 - best / second,
            "overhead": overhead(table, truth[chosen]),
        }
    return rows


def _decision(table: Measurements, goal: str) -> Record:
    return make_plan(ClusterChoice(measurements=table), PlanRequest(goal=Goal(weights=parse_weights(goal)))).decision


def _by_cluster(values: dict[Devices, Any]) -> Record:
    return {"+".join(members): value for members, value in values.items()}


def overhead(table: Measurements, chosen: ClusterCost) -> float:
    """What pre-training adds to the training: all devices pre-train in parallel, and those steps count once."""
    pretraining_s = max(device.build_s + PRETRAINED_STEPS * device.step_s for device in table.devices.values())
    return pretraining_s / chosen.time_s - PRETRAINED_STEPS / STEPS


def summary(cases: list[Record]) -> Record:
    """Accuracy by network and by goal, gains, errors of the estimated time and overheads."""

    def accuracy(rows: list[Record]) -> Record:
        return {
            "cases": len(rows),
            "best": sum(row["place"] == 1 for row in rows) / len(rows),
            "best_two": sum(row["place"] <= 2 for row in rows) / len(rows),
        }

    every = [(each["model"], goal, row) for each in cases for goal, row in each["goals"].items()]
    noisy = [row for each in cases for goals in each.get("repeated", ()) for row in goals.values()]
    models = dict.fromkeys(each["model"] for each in cases)
    errors = [(c["model"], c["how"][m], error) for c in cases for m, error in c["time_error"].items()]
    trained = [model for model, how, _ in errors if how == "measured"]
    return {
        "accuracy": accuracy([row for _, _, row in every]),
        "accuracy_noisy": accuracy(noisy) if noisy else None,
        "accuracy_by_model": {m: accuracy([row for model, _, row in every if model == m]) for m in models},
        "accuracy_by_goal": {g: accuracy([row for _, goal, row in every if goal == g]) for g in GOALS},
        "gain_by_goal": {g: _mean([row["gain"] for _, goal, row in every if goal == g]) for g in GOALS},
        "time_error_by_model": {m: _mean([e for model, _, e in errors if model == m]) for m in models},
        "time_error_measured": {
            m: _mean([e for model, how, e in errors if (model, how) == (m, "measured")]) for m in dict.fromkeys(trained)
        },
        "clusters": {how: sum(how == each for _, each, _ in errors) for how in ("measured", "simulated")},
        "overhead_by_model": {
            m: _mean([each["goals"]["time"]["overhead"] for each in cases if each["model"] == m]) for m in models
        },
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
