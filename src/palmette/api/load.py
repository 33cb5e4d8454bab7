"""Reads the files of a project: cluster, profile, plan and measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.api.arguments import File
    from palmette.spec.cluster import Cluster
    from palmette.spec.measurements import Measurements
    from palmette.spec.plan import Plan
    from palmette.spec.profile import Profile


def load_cluster(path: File) -> Cluster:
    """Read a ``cluster.yaml``; nodes that name hardware of the catalogue get its memory and power.

    Raises:
        InputError: the file cannot be read or describes no cluster; holds every fault.
    """
    from palmette.spec.cluster import Cluster
    from palmette.spec.files import load
    from palmette.zoo.hardware_defaults import fill_hardware_defaults

    return fill_hardware_defaults(load(Cluster, path), str(path))


def load_profile(path: File) -> Profile:
    """Read a ``profile.json``.

    Raises:
        InputError: the file cannot be read or holds no profile; holds every fault.
    """
    from palmette.spec.files import load
    from palmette.spec.profile import Profile

    return load(Profile, path)


def load_measurements(path: File) -> Measurements:
    """Read a table of measurements, which ``palmette pretrain`` writes and the strategy ``cluster`` takes.

    Raises:
        InputError: the file cannot be read or holds no measurements; holds every fault.
    """
    from palmette.spec.files import load
    from palmette.spec.measurements import Measurements

    return load(Measurements, path)


def load_plan(path: File) -> Plan:
    """Read a ``plan.json``; nodes of the cluster in it are completed as in ``load_cluster``.

    Raises:
        InputError: the file cannot be read or holds no plan; holds every fault.
    """
    from palmette.spec.files import load
    from palmette.spec.plan import Plan
    from palmette.zoo.hardware_defaults import fill_hardware_defaults

    plan = load(Plan, path)
    if plan.inputs is None or plan.inputs.cluster is None:
        return plan
    inputs = plan.inputs.model_copy(
        update={"cluster": fill_hardware_defaults(plan.inputs.cluster, f"{path}: inputs.cluster")}
    )
    return plan.model_copy(update={"inputs": inputs})
