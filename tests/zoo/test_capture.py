from __future__ import annotations

import copy
import pickle
from collections import Counter, OrderedDict
from typing import NamedTuple

import pytest
import torch
from torch import nn

from palmette.errors import InputError
from palmette.zoo.capture import LayerChain, as_bundle, cut, load_state, notes, parameters, state, tied_weights
from palmette.zoo.capture.bundle import Example, module_input
from palmette.zoo.capture.layer import NetworkLayer
from tests.zoo import odd_networks as odd
from tests.zoo.equality import assert_same_as_whole, assert_same_with_cuts

IMAGE, ROW = (3, 8, 8), (4,)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def batch(*shape: int) -> torch.Tensor:
    return torch.rand(4, *shape, dtype=torch.float64)


def ids() -> torch.Tensor:
    return torch.randint(0, 11, (4, 6))


def names(layers: tuple[NetworkLayer, ...]) -> list[str]:
    return [layer.name for layer in layers]


CASES = {
    "residual": (odd.Residual, batch(*IMAGE), ["stem", "block", "pool", "head"]),
    "branching": (odd.Branching, batch(*IMAGE), ["first", "max_pool2d", "second", "mean", "head"]),
    "transformer": (
        odd.Transformer,
        ids(),
        ["tokens", "places", "blocks.0.norm1", "blocks.0.norm2", "blocks.1.norm1", "blocks.1.norm2", "norm", "head"],
    ),
    "tied embedding and head": (
        lambda: odd.Transformer(tied=True),
        ids(),
        ["tokens", "places", "blocks.0.norm1", "blocks.0.norm2", "blocks.1.norm1", "blocks.1.norm2", "norm", "head"],
    ),
    "tied in the middle": (odd.TiedInTheMiddle, batch(6), ["first", "shared", "between", "shared_2", "last"]),
    "functional dropout": (odd.FunctionalDropout, batch(6), ["first", "second", "third"]),
    "functional batch norm": (odd.FunctionalBatchNorm, batch(*IMAGE), ["conv", "mean", "head"]),
    "sizes from the top": (odd.SizesFromTheTop, batch(3, 6), ["first", "second", "third"]),
    "slices by a size": (odd.Halves, batch(*ROW), ["first", "second"]),
    "one mask for all blocks": (
        odd.SharedMask,
        batch(5, 4),
        ["mix.0", "matmul", "mix.1", "matmul_2", "mix.2", "matmul_3"],
    ),
    "unused weights": (odd.Unused, batch(*ROW), ["used"]),
    "softmax in evaluation": (odd.EvaluationOnly, batch(*ROW), ["fc"]),
    "recurrent": (odd.Recurrent, batch(5, 4), ["lstm", "head"]),
    "writing to its input": (odd.PreActivation, batch(*ROW), ["first", "second", "third"]),
    "class token": (odd.ClassToken, batch(5, 4), ["fc", "token", "attention", "head"]),
    "sequential with writing children": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(True), nn.Linear(4, 4), nn.Dropout(0.5, True), nn.Linear(4, 2)),
        batch(*ROW),
        ["0", "1", "2", "3", "4"],
    ),
    "nested sequential": (
        lambda: nn.Sequential(OrderedDict(a=nn.Sequential(nn.Linear(4, 3), nn.Tanh()), b=nn.BatchNorm1d(3))),
        batch(*ROW),
        ["a", "b"],
    ),
    "sequential with a tuple in between": (
        lambda: nn.Sequential(nn.LSTM(4, 3, batch_first=True), odd.First(), nn.Linear(3, 2)),
        batch(5, 4),
        ["0", "2"],
    ),
    "torch's own encoder": (
        odd.Encoder,
        batch(5, 4),
        ["embed", "encoder.layers.0", "encoder.layers.1", "mean", "head"],
    ),
    "stochastic depth": (odd.StochasticDepth, batch(*ROW), ["first", "second", "head"]),
    "a part under no_grad": (odd.WithoutGradient, batch(*ROW), ["first.weight", "second"]),
    "a part under autocast": (odd.WithAutocast, batch(*ROW), ["first", "calls", "second.weight", "head"]),
    "U-Net": (
        odd.UNet,
        batch(*IMAGE),
        ["e1.0", "e1.2", "e2.0", "e2.2", "middle.0", "d2.0", "d2.2", "u1", "d1.0", "d1.2", "head"],
    ),
    "two inputs": (odd.TwoTowers, (batch(4), batch(3)), ["a.0", "a.2", "b.0", "b.2", "head"]),
    "two inputs by name": (
        odd.TwoTowers,
        {"right": batch(3), "left": batch(4)},
        ["a.0", "a.2", "b.0", "b.2", "head"],
    ),
    "a mask": (
        odd.Masked,
        {"ids": ids(), "mask": torch.ones(4, 6).long()},
        ["tokens", "mixes.0", "mixes.1", "mixes.2", "sum", "head"],
    ),
    "dict of outputs": (odd.DictOutputs, batch(*ROW), ["first", "second", "third"]),
    "tuple of outputs": (odd.TupleOutputs, batch(*ROW), ["first", "second", "third"]),
    "a bias for all samples": (odd.SharedBias, batch(5, 4), ["table", "mixes.1", "mixes.2", "mixes.3", "mean"]),
    "one of torch's own": (lambda: nn.Linear(4, 2), batch(*ROW), ["linear"]),
}


def first_two(x: Example) -> Example:
    if isinstance(x, torch.Tensor):
        return x[:2]
    return {name: each[:2] for name, each in x.items()} if isinstance(x, dict) else tuple(each[:2] for each in x)


def made(case: str) -> tuple[nn.Module, torch.Tensor, list[str]]:
    make, x, expected = CASES[case]
    return make().double(), x, expected


class Whole(NamedTuple):
    module: nn.Module
    x: Example
    layers: tuple[NetworkLayer, ...]


@pytest.fixture(scope="module", params=CASES)
def whole(request):
    """A module cut once for all tests that only look at its layers."""
    torch.manual_seed(0)
    module, x, _ = made(request.param)
    return Whole(module, x, cut(module, x))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_cut_anywhere_it_computes_and_learns_the_same_in_both_modes(case):
    module, x, expected = made(case)
    layers = cut(module, first_two(x))
    assert names(layers) == expected
    assert_same_as_whole(module, layers, x)


def test_every_name_of_the_state_is_in_exactly_one_layer_but_for_ties_with_the_same_tensor(whole):
    module, _, layers = whole
    found = Counter(name for layer in layers for name in layer.state_names)
    tied = {name for weight in tied_weights(layers) for name in weight.names}
    assert set(found) == set(module.state_dict())
    assert {name for name, many in found.items() if many > 1} <= tied
    kept = module.state_dict()
    assert all(tensor.data_ptr() == kept[name].data_ptr() for name, tensor in state(layers).items())
    assert {id(weight) for weight in parameters(layers).values()} == set(map(id, module.parameters()))


def test_layers_can_be_copied_and_pickled(whole):
    chain = LayerChain(layer.module for layer in whole.layers).eval()
    for twin in (copy.deepcopy(chain), pickle.loads(pickle.dumps(chain))):
        inputs = module_input(whole.x).batch(4)
        torch.testing.assert_close(twin(*inputs), chain(*inputs), rtol=0, atol=0)
        assert not {id(weight) for weight in twin.parameters()} & {id(weight) for weight in chain.parameters()}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_cutting_leaves_the_module_and_the_random_state_as_they_were(case):
    module, x, _ = made(case)
    module.eval()
    before, chance = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    attributes = set(vars(module))
    layers = cut(module, x)
    torch.testing.assert_close(module.state_dict(), before, rtol=0, atol=0)
    assert torch.equal(chance, torch.get_rng_state())
    assert set(vars(module)) == attributes
    assert not any(inner.training for inner in module.modules())
    assert not any(inner.training for layer in layers for inner in layer.module.modules())
    assert all(weight.grad is None for weight in module.parameters())


def test_output_shape_is_that_of_one_sample(whole):
    bundle = module_input(whole.x).tensors
    for layer in whole.layers:
        bundle = as_bundle(layer.module.eval()(*bundle))
        assert bundle[0].shape == (4, *layer.output_shape)
        assert [(each.shape, each.dtype) for each in bundle] == [((4, *s.shape), s.dtype) for s in layer.outputs]


@pytest.mark.parametrize(
    ("module", "x", "reason"),
    [
        (odd.TwoInputs(), torch.rand(2, 4), r"takes several inputs \(x, y\)"),
        (odd.Frozen(), torch.rand(2, 4), "its part norm stays in evaluation mode"),
        (odd.SumOverBatch(), torch.rand(2, 4), "expected tensors with one row per sample"),
        (odd.Residual(), torch.rand(2, 5, 8, 8), "fails on an input of 5×8×8: RuntimeError"),
        (odd.Raising(), torch.rand(2, 4), "ValueError: no, thank you"),
        (nn.Sequential(), torch.rand(2, 4), "does not return one tensor"),
        (nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 5)), torch.rand(2, 4), "its layer 1 fails: RuntimeError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_what_cannot_be_cut_is_refused_in_one_line_that_names_class_and_reason(module, x, reason, capfd):
    with pytest.raises(
        InputError, match=f"^model: {type(module).__name__}: cannot be cut into layers: .*{reason}"
    ) as e:
        cut(module, x)
    assert "\n" not in str(e.value)
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_traced_runs_whole_and_says_why():
    module = odd.SampleDependent().double()
    x = torch.randn(4, 4, dtype=torch.float64)
    (layer,) = cut(module, x)
    assert layer.output_shape == (3,)
    assert layer.state_names == tuple(module.state_dict())
    assert_same_as_whole(module, (layer,), x)
    (note,) = notes((layer,))
    assert note.startswith("layer 1, sampledependent: the network runs whole: it cannot be cut: ")


class NamedAndDataDependent(nn.Module):
    """Two inputs by name, a dict of outputs, and a loop whose length the values decide."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.scale = nn.Linear(4, 4), nn.Parameter(torch.ones(4))

    def forward(self, values, steps):
        for _ in range(int(steps.max().item())):
            values = torch.tanh(self.fc(values))
        return {"out": values * self.scale, "kept": None}


def test_what_cannot_be_traced_and_has_named_inputs_runs_whole_under_its_own_names():
    module = NamedAndDataDependent().double()
    inputs = {"values": torch.randn(4, 4, dtype=torch.float64), "steps": torch.full((4, 1), 2)}
    (layer,) = cut(module, inputs)
    assert layer.state_names == tuple(module.state_dict())
    assert list(map(id, layer.module.parameters())) == list(map(id, module.parameters()))
    assert "runs whole" in layer.note
    assert not layer.mixes_samples
    twin = pickle.loads(pickle.dumps(layer.module)).train()
    assert torch.equal(twin(*inputs.values())["out"], module(**inputs)["out"])
    assert all(inner.training for inner in twin.modules())


class Centred(nn.Module):
    """Takes the mean of the batch away."""

    def forward(self, x):
        return x - x.mean(0)


@pytest.mark.parametrize(
    ("module", "mixing"),
    [
        (nn.Sequential(nn.Linear(4, 4), Centred(), nn.Linear(4, 2)), [False, True, False]),
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Dropout()), [False] * 3),
        (odd.DataDependent(), [True]),
        (odd.ByBatchSize(), [True]),
    ],
)
def test_layers_in_which_samples_depend_on_one_another_are_told(module, mixing):
    layers = cut(module, batch(4).float())
    assert [layer.mixes_samples for layer in layers] == mixing
    assert sum("depend on one another" in note for note in notes(layers)) == sum(mixing)


def test_a_transformer_of_torch_with_masks_is_cut_between_its_layers():
    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(9, 8), nn.Linear(8, 9)
            self.both = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True)

        def forward(self, source, target):
            later = torch.ones(5, 5, dtype=torch.bool).triu(1)
            read, written = self.words(source), self.words(target)
            return self.head(self.both(read, written, tgt_mask=later, src_key_padding_mask=source == 0))

    module = Translator().double()
    inputs = {"source": torch.randint(1, 9, (4, 6)), "target": torch.randint(1, 9, (4, 5))}
    inputs["source"][:2, 4:] = 0
    layers = cut(module, inputs)
    assert {f"both.{part}.layers.{k}" for part in ("encoder", "decoder") for k in range(2)} <= set(names(layers))
    assert_same_as_whole(module, layers, inputs)


def test_children_of_a_sequential_that_share_weights_stay_together():
    shared = nn.Linear(4, 4)
    module = nn.Sequential(nn.Linear(4, 4), shared, nn.ReLU(), shared, nn.Linear(4, 2)).double()
    layers = cut(module, batch(4))
    assert names(layers) == ["0", "1", "4"]
    assert layers[1].state_names == ("1.weight", "1.bias", "3.weight", "3.bias")
    assert_same_as_whole(module, layers, batch(4))


def test_a_sequential_that_does_more_in_its_forward_is_traced():
    class Twice(nn.Sequential):
        def forward(self, x):
            return super().forward(x) * 2

    module = Twice(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    layers = cut(module, batch(4))
    assert names(layers) == ["0", "2"]
    assert_same_as_whole(module, layers, batch(4))


def test_a_hook_on_a_sequential_still_runs():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)).double()
    module.register_forward_hook(lambda _, __, output: output * 3)
    assert_same_as_whole(module, cut(module, batch(4)), batch(4))


def test_lazy_modules_find_their_shapes():
    layers = cut(nn.Sequential(nn.LazyLinear(3), nn.LazyLinear(2)), torch.rand(2, 4))
    assert [layer.output_shape for layer in layers] == [(3,), (2,)]


def test_on_the_meta_device_a_sequential_is_cut_without_computing():
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    layers = cut(module, torch.empty(2, 4, device="meta"))
    assert [layer.output_shape for layer in layers] == [(3,), (3,)]
    assert module[1].num_batches_tracked == 0
    assert not any(weight.is_meta for weight in parameters(layers).values())


def test_state_goes_from_one_networks_layers_to_those_of_another_by_name():
    x = batch(*IMAGE)
    source, target = odd.Residual().double(), odd.Residual().double()
    theirs, ours = cut(source, x), cut(target, x)
    load_state(ours[1:3], state(theirs))
    assert torch.equal(target.block[0].weight, source.block[0].weight)
    assert not torch.equal(target.head.weight, source.head.weight)


@pytest.mark.slow
def test_a_weight_that_two_layers_use_is_told():
    layers = cut(odd.Transformer(tied=True), ids())
    (tied,) = tied_weights(layers)
    assert tied.layers == (1, len(layers))
    assert tied.size_bytes == 11 * 8 * 4
    assert all(
        layers[number - 1].module.get_parameter(name) is layers[0].module.get_parameter(tied.names[0])
        for number, name in zip(tied.layers, tied.names, strict=True)
    )


@pytest.mark.slow
def test_frozen_weights_need_no_tie():
    module = odd.Transformer(tied=True)
    module.tokens.requires_grad_(False)
    assert tied_weights(cut(module, ids())) == ()


def test_of_many_layers_those_are_kept_that_pass_few_bytes():
    module = odd.Long(100)
    layers = cut(module, torch.rand(2, 4))
    assert 50 <= len(layers) <= 64
    assert notes(layers)[0].startswith("layer 1, parts.0: 100 layers were found, and joined to")
    assert_same_with_cuts(module.double(), layers, batch(4), range(1, len(layers)))
    assert Counter(layer.output_shape for layer in layers[:-1])[3,] == 50  # all of the small ones


def test_of_many_children_as_many_are_joined_by_a_rule_without_widths():
    def deep(wide):
        blocks = [part for k in range(60) for part in (nn.Conv2d(wide, wide, 3, padding=1), nn.ReLU())]
        blocks[40:40] = [nn.MaxPool2d(2)]
        return nn.Sequential(nn.Conv2d(3, wide, 1), *blocks, nn.Flatten(), nn.Linear(wide * 4, 2))

    module = deep(4)
    layers = cut(module, torch.rand(2, 3, 4, 4))
    assert 50 <= len(layers) <= 64
    assert notes(layers)[0].startswith(f"layer 1, 0: {len(module)} layers were found, and joined to {len(layers)}")
    assert all(isinstance(list(layer.module)[-1], nn.ReLU | nn.MaxPool2d) for layer in layers[1:-2])
    assert_same_with_cuts(module.double(), layers, batch(3, 4, 4), (1, 20, len(layers) - 1))
    narrow = cut(deep(2), torch.rand(2, 3, 4, 4))
    assert [layer.name for layer in narrow] == [layer.name for layer in layers]


def test_an_operation_with_all_the_weights_is_told():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 2)

        def forward(self, x):
            return self.head(self.cells(x)[0][:, -1])

    layers = cut(Recurrent(), torch.rand(2, 5, 4))
    assert len(layers) == 2
    assert notes(layers) == ("layer 1, cells: LSTM is one operation with all of its weights",)


def test_what_cannot_be_cut_further_is_told_with_the_reason():
    layers = cut(odd.BatchSecond(), torch.rand(2, 4))
    assert notes(layers) == (
        "layer 1, first: matmul has no row for each sample, and is needed from one end to the other",
    )


@pytest.mark.slow
def test_layers_that_share_a_weight_are_told():
    layers = cut(odd.Transformer(tied=True), ids())
    assert notes(layers) == ("layers 1 and 8 share tokens.weight: its gradients meet in every iteration",)
