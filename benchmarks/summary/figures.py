"""What is claimed: each benchmark's figures, what they should be, and how long they may take to find.

A row here is all that a new figure needs. What is told without being claimed is in ``told``.
"""

from __future__ import annotations

from benchmarks.summary.figure import Aim, Benchmark, Figure, Unit
from benchmarks.summary.told import FLOWER, OVERHEAD, PEERS, RECOVERY, UPLOAD_FIRST


def _at_most(name: str, find: str, value: float, unit: Unit = "share") -> Figure:
    return Figure(name, find, unit, Aim("at most", value))


def _at_least(name: str, find: str, value: float, unit: Unit = "share") -> Figure:
    return Figure(name, find, unit, Aim("at least", value))


def _all_of(name: str, find: str, over: str) -> Figure:
    return Figure(name, find, "share", Aim("at least", 1.0), over)


_MINUTE = 60.0
QUICK_BUDGET_S = 2 * _MINUTE
BENCHMARKS = (
    Benchmark(
        "evaluator",
        3 * _MINUTE,
        (
            _at_least(
                "plans priced a second, the same tree", "three nodes, 34 layers/same tree/a_second", 5000, "number"
            ),
            _at_most("first price of 1,000 devices", "1000 devices, first price, s/*", 2.0, "seconds"),
            _at_most(
                "a price with kept samples or samples ahead, times as long", "a price by delivery/*", 3.0, "number"
            ),
        ),
    ),
    Benchmark(
        "demo",
        5 * _MINUTE,
        (
            _at_least("the README's demo, `auto` by the best pipeline, times as fast", "times_as_fast", 1.3, "number"),
            _at_most("the README's demo, measured against predicted, worst", "*/error", 0.05),
        ),
        ("--write",),
    ),
    Benchmark("startup", _MINUTE, (_at_most("`palmette --help`", "palmette --help/median_s", 0.3, "seconds"),)),
    Benchmark(
        "compare",
        5 * _MINUTE,
        (_at_most("`palmette compare`, AlexNet, three nodes", "commands/palmette compare/median_s", 10.0, "seconds"),),
    ),
    Benchmark(
        "planner",
        15 * _MINUTE,
        (
            _at_least(
                "HierTrain's exact search, times as fast as Algorithm 1",
                "hiertrain/*/times_faster_than_algorithm_1",
                50,
                "number",
            ),
            _at_most("batch of 4,096 by one of 128", "hiertrain/*/batch_4096_over_128", 2.0, "number"),
            _at_most("`hybrid`, 50 nodes, 1 source", "hybrid/50 nodes, 1 source/plan_s", 60.0, "seconds"),
            _at_most("`hybrid`, 50 nodes, 40 sources", "hybrid/50 nodes, 40 sources/plan_s", 60.0, "seconds"),
            _at_most("`hybrid`'s gap on three tiers, median", "gaps/median", 0.05),
            _at_most("`hybrid`'s gap on three tiers, worst", "gaps/worst", 0.15),
        ),
    ),
    Benchmark(
        "planner",
        60 * _MINUTE,
        (_at_least("`hybrid` finds the best of every plan, small worlds", "found_share", 0.99),),
        ("--small-worlds", "300"),
        has_quick=False,
    ),
    Benchmark(
        "others",
        5 * _MINUTE,
        (
            _at_most("others' iterations on GH200 machines, mean error", "clariden/mean_error", 0.05),
            _at_most("others' iterations on mixed machines, mean error", "mit/mean_error", 0.10),
        ),
    ),
    Benchmark(
        "replanning",
        15 * _MINUTE,
        (
            _at_most(
                "re-planning over measured links, behind hindsight, median",
                "summary/median_behind_hindsight/replanned",
                0.10,
            ),
            _at_most(
                "re-planning over measured links, most behind a fixed plan",
                "summary/replanned_behind_fixed_at_most",
                0.02,
            ),
        ),
        ("--iterations", "300"),
    ),
    Benchmark(
        "fidelity",
        60 * _MINUTE,
        (
            _at_most("measured against estimated, `paced`, median", "paced/all/median", 0.02),
            _at_most("measured against estimated, `paced`, worst", "paced/all/worst", 0.08),
            _at_most("measured against estimated, `namespaces`, median", "namespaces/all/median", 0.02),
            _at_most("measured against estimated, `namespaces`, worst", "namespaces/all/worst", 0.08),
        ),
    ),
    Benchmark(
        "fidelity",
        60 * _MINUTE,
        tuple(
            _at_most(f"samples kept, streamed, ahead, `{testbed}`, {which}", f"{testbed}/deliveries/{find}", aim)
            for testbed in ("paced", "namespaces")
            for which, find, aim in (
                ("median", "all/median", 0.02),
                ("worst", "all/worst", 0.08),
                ("bytes", "worst_bytes_error", 0.05),
            )
        ),
        ("--deliveries",),
        has_quick=False,
    ),
    Benchmark(
        "cluster_choice",
        10 * _MINUTE,
        (
            _at_least("cluster choice: the best cluster chosen", "accuracy/best", 0.95),
            _at_least("cluster choice: one of the best two", "accuracy/best_two", 1.0),
        ),
        has_quick=False,
    ),
    Benchmark(
        "talk_less",
        40 * _MINUTE,
        (
            _at_most("DiLoCo, 50 steps: loss above that of `step`", "*/beside_step/diloco 50/loss", 0.02),
            _at_least(
                "DiLoCo, 50 steps: times fewer bytes", "*/beside_step/diloco 50/times_fewer_bytes", 40.0, "number"
            ),
            _at_least("overlap hides of what links allow", "*/overlap/*/of_all", 0.5),
            _at_least(
                "`auto` to a loss at 5 Mbit/s, private data, times as soon as the best peer",
                "*/auto/private/5/times_as_soon_as_best_peer",
                2.0,
                "number",
            ),
            _at_most("`auto` to a loss, private data, behind the best peer", "*/auto/private/*/behind_best_peer", 0.03),
            _at_most("`auto` to a loss, open data, behind the best peer", "*/auto/open/*/behind_best_peer", 0.03),
        ),
        ("--open",),
    ),
    Benchmark("strategies", 10 * _MINUTE, (_at_most("strategies' plans, measured, median error", "median", 0.02),)),
    Benchmark(
        "righttrain",
        60 * _MINUTE,
        (
            _at_least("RightTrain within 1% of its optimum", "against_optimum/within_1_percent", 0.95),
            _at_most("RightTrain's worst excess", "against_optimum/worst_excess", 0.05),
            _at_most("RightTrain's stated gap, worst", "against_optimum/gap_most", 0.3),
        ),
    ),
    Benchmark(
        "overhead",
        6 * _MINUTE,
        (
            _at_least(
                "a worker's throughput by a plain loop's, CPU time", "*/throughput_by_cpu_time/median", 0.95, "number"
            ),
        ),
        told=OVERHEAD,
    ),
    Benchmark("leak", 6 * _MINUTE, (_at_most("growth of memory", "processes/*/growth_at_most", 0.05),)),
    Benchmark("tls", 10 * _MINUTE, (_at_most("an iteration over TLS by one over gloo", "worst", 1.05, "number"),)),
    Benchmark(
        "recovery",
        6 * _MINUTE,
        (_at_most("training goes on after a kill", "palmette/median_s", 30.0, "seconds"),),
        told=RECOVERY,
    ),
    Benchmark(
        "exchange",
        3 * _MINUTE,
        (_at_least("adding gradients up, times as fast, worst", "*/times_as_fast", 1.0, "number"),),
    ),
    Benchmark(
        "pact",
        15 * _MINUTE,
        (
            _at_least("PACT, times as fast as on the full graph", "full_graph/times_faster", 50, "number"),
            _at_least("PACT meets its target, short deadlines", "short_deadline/*/met", 0.95),
            _at_most("PACT's energy by the optimum's, long deadlines", "long_deadline/*/mean", 1.03, "number"),
        ),
    ),
    Benchmark(
        "pact_run",
        20 * _MINUTE,
        (_at_least("PACT for real, energy saved beside the best switch", "saved/beside_best_switch/mean", -0.03),),
    ),
    Benchmark(
        "peers",
        30 * _MINUTE,
        (
            _at_least(
                "`hybrid` by the better of DDP and pipelining, times as fast, worst",
                "cases/*/times_faster/palmette-hybrid/better peer",
                1.0,
                "number",
            ),
        ),
        told=PEERS,
    ),
    Benchmark("modules", 10 * _MINUTE, (_all_of("cut networks that train as plain PyTorch does", "equal", "of"),)),
    Benchmark(
        "soak", 15 * _MINUTE, (_all_of("runs with faults that end with the right weights", "weights_right", "runs"),)
    ),
    Benchmark(
        "soak",
        15 * _MINUTE,
        (_all_of("runs at a hub, with faults, that end with the right weights", "weights_right", "runs"),),
        ("--on", "hub"),
        has_quick=False,
    ),
    Benchmark(
        "power_cut",
        10 * _MINUTE,
        (_all_of("power cuts after which nothing is lost", "flushed/nothing_lost", "flushed/cuts"),),
    ),
    Benchmark(
        "upload_first",
        30 * _MINUTE,
        (
            _at_most("`auto` by the best of plain script, DDP and pipelining", "simulated/worst_ratio", 1.03, "number"),
            _at_least("`auto`, times as fast where it gains most", "simulated/best_factor", 1.3, "number"),
        ),
        ("--how", "simulated"),
        told=UPLOAD_FIRST,
    ),
    Benchmark("flower", 30 * _MINUTE, (), ("--flower", "ENVIRONMENT"), told=FLOWER, elsewhere=True),
)
