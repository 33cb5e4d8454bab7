"""Ten classes become fifteen: the brighter half of five of them gets labels of its own."""

from __future__ import annotations

import torch

from benchmarks.pact.fifteen_classes import CLASSES, network, relabelled


def test_the_brighter_half_of_the_first_five_classes_gets_labels_of_its_own() -> None:
    labels = torch.arange(10).repeat_interleave(4)
    inputs = torch.arange(4.0).repeat(10)[:, None, None, None].expand(40, 3, 2, 2)
    found = relabelled(inputs, labels).reshape(10, 4)
    assert found[0].tolist() == [0, 0, 10, 10]
    assert found[4].tolist() == [4, 4, 14, 14]
    assert found[5:].tolist() == [[label] * 4 for label in range(5, 10)]
    assert sorted(set(found.flatten().tolist())) == list(range(CLASSES))


def test_the_network_tells_fifteen_classes_apart() -> None:
    assert network()(torch.zeros(2, 3, 32, 32)).shape == (2, CLASSES)
