"""What HierTrain's paper claims, beside what came out here; where the two differ, why."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]
TABLE_2_S = {"LeNet": 0.52, "AlexNet": 1.48, "VGG-16": 3.0, "VGG-19": 4.0, "googLeNet": 5.3, "ResNet-34": 12.0}
_ALIKE = 0.15  # speed-ups this close count as the same


def claims(made: Record) -> list[Record]:
    """Each claim: the figure, what the paper says, what came out, whether they agree, and why not."""
    found = [
        _speedup(made, "7", "AlexNet", "all-edge", 2.3),
        _speedup(made, "7", "AlexNet", "all-cloud", 4.5),
        _speedup(made, "8", "LeNet-5", "all-edge", 1.7),
        _speedup(made, "8", "LeNet-5", "all-cloud", 6.9),
        _jalad_ahead(made),
        _plus_is_better(made),
        _curves_overlap(made),
        *_cores(made),
        _table(made),
    ]
    return [row if row["agrees"] else row | {"why": _why(made, row["figure"])} for row in found]


def _seconds(made: Record, figure: str, series: str) -> list[float]:
    return [point["iteration_s"] for point in made["figures"][figure]["series"][series]]


def _claim(figure: str, claim: str, paper: Any, ours: Any, agrees: bool) -> Record:
    return {"figure": figure, "claim": claim, "paper": paper, "ours": ours, "agrees": agrees}


def _speedup(made: Record, figure: str, network: str, rival: str, paper: float) -> Record:
    ours = _seconds(made, figure, "hiertrain")
    most = max(theirs / each for theirs, each in zip(_seconds(made, figure, rival), ours, strict=True))
    claim = f"{network}: HierTrain is up to … times faster than {rival}"
    return _claim(figure, claim, paper, round(most, 2), abs(most / paper - 1) <= _ALIKE)


def _jalad_ahead(made: Record) -> Record:
    ours, jalad = _seconds(made, "9", "hiertrain"), _seconds(made, "9", "jalad")
    x = made["figures"]["9"]["x"]
    ahead = [mbps for mbps, a, b in zip(x, jalad, ours, strict=True) if a < b * (1 - 1e-6)]
    said = "1.5 to 2 Mbit/s"
    return _claim("9", "AlexNet: JALAD is ahead of HierTrain at", said, _at(ahead), ahead == [1.5, 2.0])


def _plus_is_better(made: Record) -> Record:
    plain, plus = _seconds(made, "9", "jointdnn"), _seconds(made, "9", "jointdnn+")
    x = made["figures"]["9"]["x"]
    better = [mbps for mbps, a, b in zip(x, plain, plus, strict=True) if b < a * (1 - 1e-6)]
    agrees = {1.5, 2.0} <= set(better) and 5.0 not in better
    said = "1.5 and 2 Mbit/s; at more both train in the cloud"
    return _claim("9", "AlexNet: JointDNN+ is ahead of JointDNN at", said, _at(better), agrees)


def _curves_overlap(made: Record) -> Record:
    jalad, plus = _seconds(made, "10", "jalad"), _seconds(made, "10", "jointdnn+")
    apart = max(abs(a / b - 1) for a, b in zip(jalad, plus, strict=True))
    ours = "the same" if apart < 0.01 else f"up to {apart + 1:.3g} times apart"
    return _claim("10", "LeNet-5: JALAD and JointDNN+ take", "the same time", ours, apart < 0.01)


def _cores(made: Record) -> list[Record]:
    series = made["figures"]["11"]["series"]
    low = {name: points[0]["iteration_s"] for name, points in series.items()}
    high = {name: points[-1]["iteration_s"] for name, points in series.items()}
    second, fourth = low["1 core"] / low["2 cores"], low["3 cores"] / low["4 cores"]
    spread = max(high.values()) / min(high.values())
    ours = f"{second:.2f} times and {fourth:.2f} times"
    return [
        _claim(
            "11",
            "at 1.5 Mbit/s the second core speeds up much, the fourth little",
            "large, insignificant",
            ours,
            second > 1.05 and fourth < 1.05,
        ),
        _claim("11", "at 5 Mbit/s cores do not matter", "no influence", f"{spread:.2f} times at most", spread < 1.01),
    ]


def _table(made: Record) -> Record:
    theirs = [row["algorithm_1_s"] for row in made["table_2"].values()]
    ours = [row["exact_s"] for row in made["table_2"].values()]
    told = f"{min(theirs):.2g} to {max(theirs):.2g} s; the exact search {min(ours):.2g} to {max(ours):.2g} s"
    paper = f"{min(TABLE_2_S.values()):g} to {max(TABLE_2_S.values()):g} s"
    return _claim("Table II", "Algorithm 1 takes seconds", paper, told, max(theirs) < 60)


def _at(mbps: list[float]) -> str:
    return ", ".join(f"{each:g}" for each in mbps) + " Mbit/s" if mbps else "no bandwidth"


def _why(made: Record, figure: str) -> str:
    """The numbers behind a difference: raw data's way and what the machines need alone."""
    if figure not in made["figures"]:
        return "planned on another machine, with HiGHS instead of CPLEX"
    if figure == "11":
        points = made["figures"]["11"]["series"]["1 core"]
        return f"HierTrain's worker_o is {points[0]['decision']['worker_o']} at 1.5 Mbit/s: {_raw(made, 'AlexNet')}"
    network = "AlexNet" if figure in {"7", "9"} else "LeNet-5"
    hosts = {point["decision"]["worker_o"] for point in made["figures"][figure]["series"]["hiertrain"]}
    shared = any(
        point["decision"]["b_s"] or point["decision"]["b_l"] for point in made["figures"][figure]["series"]["hiertrain"]
    )
    policy = "shares samples" if shared else f"keeps all samples on one worker ({', '.join(sorted(hosts))})"
    return f"the optimum of T_total {policy}: {_raw(made, network)}"


def _raw(made: Record, network: str) -> str:
    size, batch, mbps = made["input_bytes"][network], made["batch"], made["device_edge_mbps"]
    way_s = size * batch * 8 / (mbps * 1e6)
    whole = made["figures"]["7" if network == "AlexNet" else "8"]["series"]
    edge_s = whole["all-edge"][0]["iteration_s"]
    best_s = min(point["iteration_s"] for point in whole["hiertrain"])
    return (
        f"a sample is {size:,.0f} bytes of float32, so raw data alone takes {way_s:.3g} s of all-edge's {edge_s:.3g} s "
        f"and HierTrain's least is {best_s:.3g} s. With computing this fast beside such links, sharing gains less than "
        "the exchange of gradients costs. The paper tells neither its batch, nor its layer times, nor how a sample "
        "travels, so which of them was different cannot be said"
    )
