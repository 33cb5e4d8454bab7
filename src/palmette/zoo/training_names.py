"""The names in a training file that nothing answers to, told before anything is profiled.

Without torch, which what stands behind the names needs: a name with a colon is somebody's code, and is looked up later.
"""

from __future__ import annotations

from palmette.errors import ArgumentFault, InputError, expected_name, nearest
from palmette.zoo.networks.registry import NETWORKS

DATA = ("digits", "cifar10:FOLDER", "folder:DIR", "csv:FILE", "tokens:FILE", "hf:DIR")


def refuse_unknown_names(model: str | None, data: str | None) -> None:
    """Refuse a network that the zoo does not have, and data that is neither a data set nor somebody's code.

    Raises:
        InputError: holds both faults.
    """
    faults = []
    base = (model or "").partition("?")[0]
    if model is not None and ":" not in model and base not in NETWORKS:
        faults.append(ArgumentFault("model", model, expected_name(base, "network of the zoo", list(NETWORKS))))
    known = {usage.partition(":")[0]: usage for usage in DATA}
    if data is not None and ":" not in data and known.get(data) != data:
        meant = data if data in known else nearest(data, known)
        wanted = f"did you mean {known[meant]}?" if meant else f"expected one of {', '.join(DATA)}, package.module:name"
        faults.append(ArgumentFault("data", data, f"no such data set; {wanted}"))
    if faults:
        raise InputError(faults)
