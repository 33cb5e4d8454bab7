"""Figures without an aim that pages of the documentation tell, each beside the command that gives it.

Names stand in pages between marks (``marks.py``), so that they have neither backquotes nor dashes in pairs.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.summary.figure import Figure, Unit

_ALEXNET = "alexnet?size=32&classes=10"


def _upload_first() -> Iterator[Figure]:
    for model, rule, mbit, epochs in (
        ("lenet5", "open", 5, 5),
        ("lenet5", "open", 5, 20),
        ("lenet5", "open", 100, 1),
        ("vgg11small", "open", 100, 1),
        ("vgg11small", "private", 100, 5),
    ):
        case = f"cases/[model={model};rule={rule};uplink_mbit={mbit};epochs={epochs}]"
        where = f"upload first, {model}, {rule}, {mbit} Mbit/s, {epochs} epochs"
        yield Figure(f"{where}: auto", f"{case}/seconds/auto", "seconds")
        yield Figure(f"{where}: copy", f"{case}/seconds/plain script", "seconds")
        yield Figure(f"{where}: auto by copy", f"{case}/seconds/auto", "number", over=f"{case}/seconds/plain script")
    yield Figure("upload first: cases", "simulated/cases", "number")
    yield Figure("upload first: auto by owners that take turns, most", "simulated/worst_ratio_to_all", "number")


def _peers() -> Iterator[Figure]:
    for model, mbit in (("lenet5", 5), ("lenet5", 50), (_ALEXNET, 5), (_ALEXNET, 100)):
        case = f"cases/[model={model};bandwidth_mbit={mbit}]"
        where = f"peers, {model.partition('?')[0]}, {mbit} Mbit/s"
        ways: tuple[tuple[str, str, Unit], ...] = (
            ("hybrid", "contenders/palmette-hybrid/step_s", "seconds"),
            ("pipeline", "contenders/pipeline-3|pipeline-2/step_s", "seconds"),
            ("DDP", "contenders/ddp-even|ddp-by-speed/step_s", "seconds"),
            ("times as fast", "times_faster/palmette-hybrid/better peer", "number"),
        )
        yield from (Figure(f"{where}: {what}", f"{case}/{find}", unit) for what, find, unit in ways)


def _flower() -> Iterator[Figure]:
    for side in ("palmette", "flower"):
        yield Figure(f"flower: a round of {side}", f"{side}/round_s", "seconds")
        yield Figure(f"flower: after a kill, {side}", f"{side}/after_a_kill_s", "seconds")


UPLOAD_FIRST = tuple(_upload_first())
PEERS = tuple(_peers())
FLOWER = tuple(_flower())
RECOVERY = (
    Figure("recovery: torchrun", "torchrun/median_s", "seconds"),
    Figure("recovery: stopped and resumed", "restart/median_s", "seconds"),
)
OVERHEAD = (
    Figure(
        "overhead: beside a loop that keeps its memory",
        "*/beside_a_loop_that_keeps_memory/throughput_by_cpu_time/median",
        "number",
    ),
)
