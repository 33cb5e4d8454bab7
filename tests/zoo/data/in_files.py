"""What tests of data in files share."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from palmette.errors import InputError
from palmette.zoo.data import load_data
from palmette.zoo.data.decoded import DecodedSplit


def splits_of(name: str, shape: tuple[int, ...]) -> tuple[DecodedSplit, DecodedSplit]:
    """The part to train on and the one held out."""
    data = load_data(name, shape)
    assert isinstance(data.train, DecodedSplit)
    assert isinstance(data.held_out, DecodedSplit)
    return data.train, data.held_out


def fault_of(name: str, shape: tuple[int, ...]) -> str:
    """The one line that says why data cannot be used."""
    with pytest.raises(InputError) as error:
        load_data(name, shape)
    assert "\n" not in str(error.value)
    return str(error.value)


def require_equal_anywhere(split: DecodedSplit, shape: tuple[int, ...]) -> None:
    """A sample is what its stored bytes are decoded to by a decoder that has travelled, in every batch."""
    order = np.random.default_rng(0).permutation(len(split))[:7]
    inputs, targets = split.batch(order)
    stored = split.stored(order)
    decoder = pickle.loads(pickle.dumps(split.decoder))
    assert inputs.shape == (len(order), *shape)
    assert all(type(each) is bytes for each in stored)
    assert torch.equal(decoder.decode(stored), inputs)
    assert torch.equal(split.labels(torch.from_numpy(order)), targets)
    for k, index in enumerate(order.tolist()):
        assert torch.equal(decoder.decode(stored[k : k + 1], [5])[0], inputs[k])
        assert torch.equal(split[index][0], inputs[k])
        assert torch.equal(torch.as_tensor(split[index][1]), targets[k])
    assert split.batch([])[0].shape == (0, *shape)
    assert split.labels([]).shape == (0, *targets.shape[1:])
    assert len(pickle.dumps(split.decoder)) < 2000


def answers_or_refuses(name: str, shape: tuple[int, ...]) -> None:
    """Data is loaded and read to its end, or one line per fault says why not."""
    refusal = None
    try:
        data = load_data(name, shape)
        for split in (data.train, data.held_out):
            inputs, _ = split.batch(range(len(split)))
            assert inputs.isfinite().all()
            assert split.sample_bytes > 0
    except InputError as error:
        refusal = error
    assert refusal is None or len(str(refusal).splitlines()) == len(refusal.faults)
