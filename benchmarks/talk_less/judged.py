"""``auto`` beside the best of DDP, DDP with PowerSGD, Flower and, where data may move, copying it once.

What it chose is trained for as many iterations as it planned, with the task's schedule over these; whether and when the
loss is reached then is what counts. With private data it is timed as any method. Where data may move, seconds are those
of the event clock, for ``auto`` and for the copy; a lossless plan that agrees after every step learns what ``step``
learns.
"""

from __future__ import annotations

import json
import math
from typing import Any

import palmette as pt
from benchmarks.command import progress
from benchmarks.talk_less import auto
from benchmarks.talk_less.methods import DEVICES, SAMPLES, cluster, methods, open_cluster
from benchmarks.talk_less.replay import replayed
from benchmarks.talk_less.rows import DDP, Row, Setting, method_row
from benchmarks.talk_less.running import learnt, to_target
from benchmarks.talk_less.tasks import warmup
from palmette.spec.cluster import Cluster
from palmette.spec.learning import Learning
from palmette.spec.plan import Plan

PEERS = (*DDP, "flower")


def judged(setting: Setting, rows: dict[str, Row], target: float) -> dict[str, Any]:
    """What ``auto`` chose by its pilots at each bandwidth, and how soon it reaches the loss beside the best peer."""
    found: dict[str, Any] = {}
    rules = {"private": _private} | ({"open": _open} if setting.asked.open or setting.asked.all else {})
    for rule, beside in rules.items():
        found[f"pilots, {rule}"] = pilots = _pilots(setting, rule)
        learning = Learning.model_validate(pilots["learning"])
        found[rule] = {}
        for bandwidth in setting.bandwidths:
            made = _planned(setting, learning, bandwidth, target, private=rule == "private")
            row = beside(setting, rows, made, target, bandwidth)
            found[rule][f"{bandwidth:g}"] = {"planned": _told(made), **row}
    return found


def _pilots(setting: Setting, rule: str) -> Row:
    """Pilots of as many replicas as there can be: one for each owner of private data, else one for each node."""
    many = len(DEVICES) if rule == "private" else len(DEVICES) + 1

    def made() -> Row:
        progress(f"{setting.task.name}: pilots, {rule}")
        return auto.piloted(
            setting.task, setting.profile, setting.iterations, setting.bandwidths, many, seed=setting.asked.seed
        )

    return setting.kept.row(f"pilots, {many} replicas", made)


def _planned(setting: Setting, learning: Learning, bandwidth_mbit: float, target: float, *, private: bool) -> Plan:
    where = _cluster(setting, bandwidth_mbit, private=private)

    def made() -> Row:
        progress(f"{setting.task.name}: auto: {bandwidth_mbit:g} Mbit/s, {'private' if private else 'open'}")
        found = auto.planned(learning, setting.profile, where, target)
        return found.model_copy(update={"inputs": None}).model_dump(mode="json")

    rule = "private" if private else f"open, {setting.task.stored_bytes} bytes a sample, three replicas tried"
    name = f"auto for {target} at {bandwidth_mbit:g} Mbit/s, {rule}"
    return Plan.model_validate_json(json.dumps(setting.kept.row(name, made)))


def _cluster(setting: Setting, bandwidth_mbit: float, *, private: bool) -> Cluster:
    many, stored_bytes = len(setting.task.train), setting.task.stored_bytes
    return cluster(bandwidth_mbit, many) if private else open_cluster(bandwidth_mbit, many, stored_bytes)


def _told(made: Plan) -> Row:
    """What was planned, in few words."""
    phase, known = made.phases[0], made.estimate
    assert known is not None
    return {
        "strategy": made.decision["strategy"],
        "sync": phase.sync,
        "every": phase.every,
        "exchange": phase.exchange.argument,
        "overlap": phase.overlap,
        "placed": [f"{each.layers[0]}-{each.layers[1]} on {each.node}" for each in phase.instances],
        "iterations": auto.planned_iterations(made),
        "seconds": known.total_s,
        "plan_s": made.plan_s,
    }


def _private(setting: Setting, rows: dict[str, Row], made: Plan, target: float, bandwidth_mbit: float) -> Row:
    at = f"{bandwidth_mbit:g}"
    chosen, row = _trained(setting._replace(bandwidths=[bandwidth_mbit]), made)
    reached = to_target(row, target)
    own_s = reached.get("target_s", {}).get(at, math.inf)
    told = {"iteration_s": row["iteration_s"][at], "load": row.get("loads", {}).get(at), "target_s": own_s}
    told["loss_in_the_end"] = row["evaluations"][-1][1]
    peers = _peers(rows, target, at)
    return {"chosen": chosen, "how": row["how"], **reached, **told, **_beside(own_s, peers)}


def _trained(setting: Setting, made: Plan) -> tuple[str, Row]:
    """The name of the method that was chosen, or a new one, and its row for the planned length."""
    setting = _for_planned(setting, made)
    fields = auto.agreement(made.phases[0], len(setting.profile.layers))
    agreed = None if fields is None else setting.plan(fields)
    for name, each in methods().items():
        if agreed is not None and setting.plan(each) == agreed:
            learnt_as = "step" if name == "step, overlap" else name
            return name, method_row(setting, name, agreed, f"{learnt_as}, {setting.iterations} iterations")
    name = f"auto's at {setting.bandwidths[0]:g} Mbit/s"
    return name, method_row(
        setting, name, agreed or auto.evaluated_often(made), f"{name}, {setting.iterations} iterations"
    )


def _for_planned(setting: Setting, made: Plan) -> Setting:
    """The setting of a training as long as planned, with the warm-up of those of the pilots."""
    return setting._replace(iterations=auto.trained_iterations(made), warm=warmup(setting.iterations))


def _open(setting: Setting, rows: dict[str, Row], made: Plan, target: float, bandwidth_mbit: float) -> Row:
    """By the event clock: ``auto``, and all samples once to the best node, with plain PyTorch there."""
    at, where = f"{bandwidth_mbit:g}", _cluster(setting, bandwidth_mbit, private=False)
    upload = pt.plan("upload", profile=setting.profile, cluster=where, batch=len(DEVICES) * SAMPLES, epochs=1)
    learnt_row = _learnt(_for_planned(setting, made), made)
    step, many = (to_target(row, target)["iterations_to_target"] for row in (rows["step"], learnt_row))
    own_s = math.inf if many is None else auto.seconds_of(made, many)
    peers = {**_peers(rows, target, at), "upload": (auto.seconds_of(upload, step), "event clock")}
    told = {
        "iterations_to_target": many,
        "target_s": own_s,
        "loss_in_the_end": learnt_row["evaluations"][-1][1],
        "how": "replayed in one process; seconds of the event clock",
    }
    return {**told, **_beside(own_s, peers)}


def _learnt(setting: Setting, made: Plan) -> Row:
    """What a plan learns: as ``step``; replayed where replicas train apart, to which samples are dealt in order."""
    as_step = _learns_as_step(made)
    phase, depth = (setting.plan(methods()["step"]) if as_step else made).phases[0], len(setting.profile.layers)
    seed = setting.asked.seed
    name = f"open, {setting.iterations} iterations: {json.dumps(phase.model_dump(mode='json'), sort_keys=True)}"

    def trained() -> Row:
        progress(f"{setting.task.name}: auto, open: training")
        if all(each.layers == (1, depth) for each in phase.instances):
            return replayed(setting.task, phase, setting.iterations, seed, setting.warm)
        often = auto.evaluated_often(made)
        return learnt(
            setting.task, often, setting.profile, setting.iterations, private=False, seed=seed, warm=setting.warm
        )

    return {**setting.kept.row(name, trained), "iteration_s": {}}


def _learns_as_step(made: Plan) -> bool:
    """Whether a plan learns what one process does: agreement after every step, and nothing coded."""
    phase = made.phases[0]
    plain = not phase.exchange.kind.lossy and all(each.codec == "none" for each in phase.instances)
    return phase.sync == "step" and plain


def _peers(rows: dict[str, Row], target: float, at: str) -> dict[str, tuple[float, str]]:
    """The seconds to the loss of each peer that reaches it, and how they were found."""
    found = {
        name: (to_target(rows[name], target).get("target_s"), rows[name].get("how", ""))
        for name in PEERS
        if name in rows
    }
    return {name: (seconds[at], how) for name, (seconds, how) in found.items() if seconds is not None and at in seconds}


def _beside(own_s: float, peers: dict[str, tuple[float, str]]) -> Row:
    if not peers:
        return {"best_peer": None}
    best = min(peers, key=lambda name: peers[name][0])
    best_s, how = peers[best]
    return {
        "peers_s": {name: seconds for name, (seconds, _) in peers.items()},
        "best_peer": f"{best}: {how}",
        "times_as_soon_as_best_peer": best_s / own_s,
        "behind_best_peer": own_s / best_s - 1,
    }
