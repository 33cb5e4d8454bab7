"""What nodes did with a stretch of time, added up from records."""

from __future__ import annotations

from palmette.cost.evaluate import Evaluator
from palmette.runtime.program import Channel
from palmette.runtime.record.activity import Activity
from palmette.runtime.record.operations import OperationRecord
from tests.cost.small import cluster, instance, link, node, phase, profile, source, times

TREE = phase(source("a", 2, "1"), instance("1", 1, 1, "a", "2"), instance("2", 2, 2, "b"))
PRICES = Evaluator(
    profile([(4, 4), (4, 4)], a=times(2), b=times(2)),
    cluster(link("a", "b"), a=node(10, power=(1.0, 3.0)), b=node(power=(1.0, 2.0))),
)


def test_a_node_that_computes_and_sends_at_once_waits_only_where_it_does_neither() -> None:
    stretch = Activity(PRICES, {7: Channel(7, "a", "b")})
    records = {
        "a": [
            OperationRecord(0, "forward", 0, None, 10.0, 14.0, 0),
            OperationRecord(1, "send", 0, 7, 12.0, 16.0, 8),
            OperationRecord(2, "backward", 0, None, 19.0, 20.0, 0),
        ],
        "b": [OperationRecord(1, "receive", 0, 7, 3.0, 16.0, 8), OperationRecord(2, "forward", 1, None, 16.0, 18.0, 0)],
    }
    stretch.add(TREE, records)
    assert stretch.seconds("a") == {"computing_s": 5.0, "sending_s": 4.0, "waiting_s": 3.0, "whole_s": 10.0}
    assert stretch.seconds("b") == {"computing_s": 2.0, "sending_s": 0.0, "waiting_s": 8.0, "whole_s": 10.0}
    assert stretch.energy_j(["a", "b"], 1.0) == 10 * 1 + 5 * 2 + 10 * 1 + 2 * 1
