"""The watts of a device during its pre-training: by a meter, a power model on counters, or as declared."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from palmette.control.pretrain.request import PretrainRequest
from palmette.errors import ArgumentFault, Fault, InputError
from palmette.measure.counters import read_counters
from palmette.measure.meters.base import Meter
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.training.job import RunOutcome
from palmette.spec.cluster import HERE, Cluster
from palmette.spec.power import PowerModel

DECLARED = "modelled: declared power on the measured trace"


def watts_of(
    name: str, outcome: RunOutcome, meter: Meter | None, model: PowerModel | None, samples: list[dict[str, float]]
) -> tuple[float, str]:
    """Mean watts of a device while it trained, and where they come from; ``samples`` are those of its counters."""
    if meter is not None:
        metered = meter.end()
        return metered.watts, metered.source
    if model is not None:
        return mean_watts(model, samples), f"modelled: regression on counters, metered by {model.meter}"
    assert outcome.energy_j is not None, "refuse_unpowered() comes first"
    return outcome.energy_j / outcome.node_seconds[name]["whole_s"], DECLARED


def refuse_unpowered(cluster: Cluster, request: PretrainRequest, metered: Collection[str] = ()) -> None:
    """Refuse nodes whose power is not known; those that are ``metered`` have a meter of their own.

    Raises:
        InputError: names each of them.
    """
    read_here = request.meter is not None or request.power is not None
    if request.power is not None and any(node.host == HERE for node in cluster.nodes.values()):
        refuse_missing_counters(request.power, read_counters())
    if read_here and ENGINES[request.engine].real_hosts:
        argument = "power" if request.meter is None else "meter"
        raise InputError(ArgumentFault(argument, "given", "it is read on this machine; expected engine local"))
    if read_here and not request.step_counts.counted:
        raise InputError(ArgumentFault("counted", 0, "power is measured during these steps; expected at least 1"))
    wrong = [
        Fault(f"nodes.{name}.power", "missing", "expected idle and busy watts, or hardware: … of the catalogue")
        for name in cluster.computing
        if (node := cluster.nodes[name]).power is None and not (read_here and node.host == HERE)
        if name not in metered
    ]
    if wrong:
        raise InputError(wrong)


def mean_counters(samples: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each counter that was always there."""
    names = [name for name in (samples[0] if samples else {}) if all(name in each for each in samples)]
    return {name: sum(each[name] for each in samples) / len(samples) for name in names}


def mean_watts(model: PowerModel, samples: list[dict[str, float]]) -> float:
    """Mean watts by the model.

    Raises:
        InputError: a counter of the model is missing.
    """
    for each in samples:
        refuse_missing_counters(model, each)
    return sum(model.watts(each) for each in samples) / len(samples)


def refuse_missing_counters(model: PowerModel, known: Mapping[str, float]) -> None:
    """Refuse a power model on counters that this machine does not have.

    Raises:
        InputError: names them.
    """
    missing = [name for name in model.coefficients if name not in known]
    if missing:
        expected = "this machine has no such counter; expected a model fitted on this machine"
        raise InputError(ArgumentFault("power", ", ".join(missing), expected))
