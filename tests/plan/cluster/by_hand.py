"""Clusters by brute force: every subset, its time by bisection, written apart from the code under test."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from palmette.spec.goal import parse_weights
from palmette.spec.measurements import Measurements

FACTORS = ("time_alpha", "time_beta", "power_alpha", "power_beta")
VALUES = {
    "time": lambda t, _: t,
    "power": lambda _, p: p,
    "energy": lambda t, p: p * t,
    "edp": lambda t, p: p * t * t,
}
TimePower = tuple[float, float]


def time_power(devices: list[dict[str, Any]], steps: int) -> TimePower:
    """Seconds and watts of a cluster, by the letter of the format."""
    if len(devices) == 1:
        (one,) = devices
        return one["build_s"] + steps * one["step_s"], one["power_w"]
    server = min(devices, key=lambda each: each["step_s"])
    at = next(k for k, each in enumerate(devices) if each is server)
    devices = [
        each
        | (each.get("with_server", {}) if each is server else each.get("by_server", {}).get(server.get("name"), {}))
        for each in devices
    ]
    builds = [each["build_s"] for each in devices]
    pace = [each["step_s"] * each.get("time_alpha", 1) * each.get("time_beta", 1) for each in devices]
    pace = contended(pace, server.get("served_s", 0.0), at)
    watts = sum(each["power_w"] * each.get("power_alpha", 1) * each.get("power_beta", 1) for each in devices)
    low, high = 0.0, min(b + steps * c for b, c in zip(builds, pace, strict=True))
    for _ in range(100):
        middle = (low + high) / 2
        taken = sum(max(0.0, middle - b) / c for b, c in zip(builds, pace, strict=True))
        low, high = (middle, high) if taken < steps else (low, middle)
    return high, watts


def contended(pace: list[float], exchange: float, server: int) -> list[float]:
    """Seconds of steps where all but the server share the way to it, device by device."""
    if not exchange:
        return pace
    others = [k for k in range(len(pace)) if k != server]
    way = dict.fromkeys(others, exchange / 2)
    for _ in range(2000):
        busy = {k: way[k] / (max(pace[k] - exchange, 0.0) + 2 * way[k]) for k in others}
        for k in others:
            there = [1.0 if abs(pace[j] - pace[k]) <= 0.01 * pace[k] else busy[j] for j in others if j != k]
            way[k] = exchange / 2 * (1 + sum(there))
    return [pace[k] if k == server else max(pace[k] - exchange, 0.0) + 2 * way[k] for k in range(len(pace))]


def clusters(table: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], TimePower]]:
    """Every cluster with its time and power, the fewest devices first, then in the order of the file."""
    for many in range(1, len(table["devices"]) + 1):
        for names in combinations(table["devices"], many):
            yield names, time_power([{"name": name} | table["devices"][name] for name in names], table["steps"])


def objectives(goal: str, everyone: list[TimePower]) -> list[float]:
    """What the goal minimises, of each cluster; a weighted sum divides each quantity by its best."""
    total = [0.0] * len(everyone)
    weights = parse_weights(goal)
    for name, weight in weights.items():
        values = [VALUES[name](*each) for each in everyone]
        unit = 1.0 if len(weights) == 1 else min(values) or 1.0
        total = [
            sum_ + (1.0 if len(weights) == 1 else weight) * value / unit
            for sum_, value in zip(total, values, strict=True)
        ]
    return total


def random_table(rng: random.Random, many: int, *, servers: bool = False) -> dict[str, Any]:
    """Devices of all kinds: with and without build times, factors (also below 1), watts, and factors by server."""
    kind = rng.randrange(4)
    devices: dict[str, dict[str, Any]] = {}
    for k in range(many):
        devices[f"d{k}"] = {
            "step_s": 10 ** rng.uniform(-2, 1),
            "build_s": rng.choice([0.0, rng.uniform(0, 50), 10 ** rng.uniform(0, 2)]) if kind else 0.0,
            "power_w": rng.choice([0.0, 5.0, 50.0]) if kind == 3 else 10 ** rng.uniform(0, 2),
        }
        if kind != 1:
            devices[f"d{k}"] |= {name: rng.choice([1.0, rng.uniform(0.5, 3)]) for name in FACTORS}
        if servers and rng.random() < 0.7:
            devices[f"d{k}"]["with_server"] = {name: rng.choice([1.0, rng.uniform(0.5, 3)]) for name in FACTORS}
        if servers and rng.random() < 0.5:
            devices[f"d{k}"]["served_s"] = devices[f"d{k}"]["step_s"] * rng.uniform(0, 2)
        if servers and rng.random() < 0.7:
            others = [f"d{other}" for other in range(many) if other != k and rng.random() < 0.7]
            devices[f"d{k}"]["by_server"] = {
                other: {name: rng.choice([1.0, rng.uniform(0.5, 3)]) for name in FACTORS} for other in others
            }
    return {
        "format": "palmette.measurements/1",
        "steps": rng.choice([1, 3, 50, 1000]),
        "devices": devices,
    }


def document(table: dict[str, Any]) -> Measurements:
    """The table as a document."""
    return Measurements.model_validate(table)
