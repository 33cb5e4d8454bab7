"""Training in double precision: floats are twice as large, on the wire and in memory; samples and integers are not."""

from __future__ import annotations

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.cost.memory import peak_bytes
from palmette.cost.number_width import in_float_type
from palmette.cost.optimizer import PLAIN_SGD, accumulating, known_optimizer
from palmette.errors import InputError
from palmette.spec.profile import Profile
from tests.cost.small import cluster, instance, link, node, phase, source

PROFILE = Profile.model_validate(
    {
        "model": "tiny",
        "input_bytes": 40,
        "layers": [
            {"name": "a", "parameter_bytes": 400, "output_bytes": 88, "uncoded_bytes": 8, "output_channels": 2},
            {"name": "b", "parameter_bytes": 100, "output_bytes": 8, "trainable_bytes": 60},
        ],
        "nodes": {each: {"forward_s": [0, 0], "backward_s": [0, 0], "update_s": [0, 0]} for each in ("phone", "cloud")},
    }
)
CLUSTER = cluster(link("phone", "cloud"), phone=node(100), cloud=node())
CUT = phase(source("phone", 3, "1"), instance("1", 1, 1, "phone", "2"), instance("2", 2, 2, "cloud"))


def test_floats_are_twice_as_large_and_nothing_else_is() -> None:
    one, two = (Evaluator(in_float_type(PROFILE, name), CLUSTER) for name in ("float32", "float64"))
    single, double = one.sizes(), two.sizes()
    assert double.message_bytes(1, 3, "none") == 2 * (single.message_bytes(1, 3, "none") - 24) + 24
    assert double.message_bytes(1, 3, "int8") == single.message_bytes(1, 3, "int8") + 2 * 4  # its scales are floats
    assert double.weight_bytes([(1, 2)]) == 2 * single.weight_bytes([(1, 2)])
    assert double.sample_bytes("phone") == single.sample_bytes("phone") == 40
    peaks = [peak_bytes(CUT, each, [3, 3], PLAIN_SGD) for each in (single, double)]
    assert peaks[1]["cloud"] == pytest.approx(2 * peaks[0]["cloud"])


def test_there_and_back_is_the_same_profile() -> None:
    back = in_float_type(in_float_type(PROFILE, "float64"), "float32")
    assert back.layers == PROFILE.layers
    assert back.float_bytes == 4


def test_another_type_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"float46.*float64"):
        in_float_type(PROFILE, "float46")


def test_accumulated_gradients_are_kept_once_more() -> None:
    cost = known_optimizer(accumulating("adam", 4))
    assert (cost.state_copies, cost.accumulate) == (3, 4)
    assert known_optimizer(accumulating(cost, 1)) == known_optimizer("adam")
    assert accumulating("adam", None) == "adam"
    with pytest.raises(InputError, match="accumulate"):
        accumulating("adam", 0)
