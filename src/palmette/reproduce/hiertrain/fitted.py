"""The machines that come out where HierTrain's claims are fitted (``fit``), kept so that nobody has to wait.

Some of the claims exclude each other whatever the layers, the batch and the machines are. Let R be 5 / 1.5 = 3.33: by
equation (4) all-cloud is at most R times slower at 1.5 Mbit/s than at 5. HierTrain never gets slower on a faster link.

- Where HierTrain trains in the cloud at 5 Mbit/s, it takes at most R times less than all-cloud anywhere: not 4.5 times.
- If at some bandwidth all-cloud takes 6.9 times as long as HierTrain, and all-edge at most 1.7 times, then all-cloud
  takes 4.06 times as long as all-edge there, so at 5 Mbit/s more than 4.06 / R = 1.22 times. Both receive the data at
  5 Mbit/s then: the cloud would have to be slower than the edge server, and JointDNN+ would not choose it.
"""

from __future__ import annotations

from palmette.reproduce.fitted import Fitted, describe, search
from palmette.reproduce.hiertrain.fit import OUTCOMES, catalogue_sample_s, problem
from palmette.reproduce.progress import Progress, Record

_CLOUD = "the cloud computes faster than device and edge server"
_FASTER = "HierTrain is up to … times faster than"
_AT_MOST = "by equation (4) all-cloud is at most 3.33 times slower at 1.5 Mbit/s than at 5"
_SLOWER_CLOUD = (
    f"4.06 times as long as all-edge, and {_AT_MOST}: then the cloud would compute slower than the edge server"
)
PROVEN: dict[str, dict[tuple[str, ...], str]] = {
    "AlexNet": {
        (f"AlexNet: {_FASTER} all-cloud", "AlexNet: above 3 Mbit/s HierTrain trains in the cloud"): (
            f"{_AT_MOST}, where HierTrain trains there, too"
        )
    },
    "LeNet-5": {
        (
            f"LeNet-5: {_FASTER} all-cloud",
            f"LeNet-5: {_FASTER} all-edge",
            "LeNet-5: JointDNN+ is all-edge at 1.5 Mbit/s and all-cloud at 5",
        ): f"6.9 / 1.7 makes all-cloud take {_SLOWER_CLOUD}, and JointDNN+ would not choose it",
        (f"LeNet-5: {_FASTER} all-cloud", f"LeNet-5: {_FASTER} all-edge", _CLOUD): (
            f"6.9 / 1.7 makes all-cloud take {_SLOWER_CLOUD}"
        ),
    },
}

FITTED = {
    "AlexNet": Fitted(
        closest={"device": 0.0966574, "edge": 0.0535435, "cloud": 0.00318122},
        values={"device": 0.240774, "edge": 0.136929, "cloud": 0.0186758},
        given_up=(f"AlexNet: {_FASTER} all-cloud",),
        contradictions=PROVEN["AlexNet"],
    ),
    "LeNet-5": Fitted(
        closest={"device": 0.0161117, "edge": 0.00149394, "cloud": 0.000517023},
        values={"device": 0.0291575, "edge": 0.00753562, "cloud": 0.00104052},
        given_up=(f"LeNet-5: {_FASTER} all-cloud",),
        contradictions=PROVEN["LeNet-5"],
    ),
}


def fits(again: bool, progress: Progress) -> dict[str, Record]:
    """For each network the fitted machines and what the claims come to with them; searched ``again``, or as kept."""
    return {network: describe(_fitted(network, again, progress), outcomes) for network, outcomes in OUTCOMES.items()}


def _fitted(network: str, again: bool, progress: Progress) -> Fitted:
    if not again:
        return FITTED[network]
    progress(f"Fitting the machines to the claims about {network}")
    claims = list(OUTCOMES[network](catalogue_sample_s(network)))
    return search(problem(network), claims, PROVEN[network], FITTED[network])
