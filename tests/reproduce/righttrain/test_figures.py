"""What RightTrain's paper claims, judged on made-up points."""

from __future__ import annotations

from typing import Any

from palmette.reproduce.righttrain.claims import claims
from palmette.reproduce.righttrain.figures import BLOCKS, blocks
from palmette.spec.profile import Layer, Profile, Times


def point(joules: float, seconds: float, epochs: int, data: float) -> dict[str, Any]:
    return {"failed": None, "total_j": joules, "total_s": seconds, "epochs": epochs, "data_fraction": data}


def made(optimum: list[dict[str, Any]]) -> dict[str, Any]:
    points = {
        "righttrain": [point(9.0, 10.0, 5, 1.0), point(4.0, 50.0, 20, 0.3)],
        "split-learning": [point(10.0, 10.0, 5, 1.0)] * 2,
        "righttrain-optimum": optimum,
    }
    return {"figures": {"3 energy": {"points": points}}}


def test_claims_agree_where_the_numbers_do() -> None:
    rows = claims(made([point(8.9, 10.0, 5, 1.0), point(4.0, 50.0, 20, 0.3)]))
    assert all(row["agrees"] for row in rows)
    told = {row["key"]: row["ours"] for row in rows}
    assert told["tight saving"] == "10% less"
    assert told["saving"] == "60% less"


def test_an_optimum_that_was_not_always_found_is_told() -> None:
    rows = claims(made([{"failed": "too large"}, point(4.0, 50.0, 20, 0.3)]))
    (wrong,) = [row for row in rows if not row["agrees"]]
    assert wrong["ours"] == "0.0% above at most, at the 1 of 2 deadlines for which the optimum was found"


def test_a_difference_has_a_reason() -> None:
    rows = claims(made([{"failed": "too large"}] * 2))
    (wrong,) = [row for row in rows if not row["agrees"]]
    assert "does not end" in wrong["why"]


def test_blocks_add_up() -> None:
    names = ("conv1", "pool1", "pool2", "pool5", "fc8")
    layers = tuple(Layer(name=name, parameter_bytes=1.0, output_bytes=2.0, flops=3.0) for name in names)
    times = Times(forward_s=(1.0,) * 5, backward_s=(2.0,) * 5, update_s=(3.0,) * 5)
    merged = blocks(Profile(model="m", input_bytes=1.0, layers=layers, nodes={"a": times}), BLOCKS)
    assert merged.nodes["a"].forward_s == (2.0, 1.0, 1.0, 1.0)
    assert sum(layer.flops for layer in merged.layers) == 15.0
