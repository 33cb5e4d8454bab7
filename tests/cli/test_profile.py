"""``palmette profile`` and ``palmette hardware``, from a name to a file that plans are made from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from palmette.cli.parsing import parse_shape
from palmette.cli.show.profile import show_profile
from palmette.errors import InputError
from palmette.spec.profile import Layer, Profile, Times
from palmette.zoo.hardware import names
from tests.cli.world import World

NETS = """\
import torch
from torch import nn

def net():
    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))

class Samples:
    def __len__(self): return 20
    def stored(self, k): return bytes([k] * 7)
    def label(self, k): return k % 2
    @staticmethod
    def decode(data): return torch.tensor(list(data[:6])) / 255

class Undecided(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x
"""
HERE = ("--on", "phone", "--on", "server")
SHAPE = ("--input-shape", "6")


@pytest.fixture
def nets(world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current folder, with networks."""
    (world.folder / "own_nets_of_profile.py").write_text(NETS)
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return "own_nets_of_profile"


def test_a_network_of_ones_own_is_profiled_and_planned(world: World, nets: str) -> None:
    file = world.folder / "own.json"
    profile = world.json("profile", f"{nets}:net", "--cluster", world.cluster, *HERE, *SHAPE, "-o", file)

    assert profile == json.loads(file.read_text())
    assert (profile["format"], profile["model"]) == ("palmette.profile/1", f"{nets}:net")
    assert profile["input_bytes"] == 24
    assert [layer["flops"] for layer in profile["layers"]] == [48, 0, 16]
    sources = {name: node["source"] for name, node in profile["nodes"].items()}
    assert sources == {"phone": "measured", "server": "measured", "cloud": "modelled"}
    assert profile["nodes"]["phone"] == profile["nodes"]["server"]

    plan = world.json("plan", "all-edge", "--profile", file, "--cluster", world.cluster)
    assert plan["estimate"]["iteration_s"] > 0


def test_people_get_a_table(world: World, nets: str) -> None:
    done = world.palmette("profile", f"{nets}:net", "--cluster", world.cluster, *HERE, *SHAPE)
    assert (done.code, done.err) == (0, "")
    assert "phone, server: measured on one thread of " in done.out
    assert "cloud: modelled as xeon-gtx-1080-ti" in done.out


@pytest.mark.slow
def test_the_profile_of_stored_samples_has_their_size_and_the_time_to_decode_them(world: World, nets: str) -> None:
    arguments = ("profile", f"{nets}:net", "--cluster", world.cluster, *HERE, *SHAPE, "--data", f"{nets}:Samples")
    stored = world.json(*arguments)
    assert stored["sample_bytes"] == 7
    times = stored["nodes"]["phone"]
    assert 0 < times["decode_s"] <= times["forward_s"][0]
    assert stored["nodes"]["cloud"]["decode_s"] == times["decode_s"]

    out = world.palmette(*arguments).out
    assert "a stored sample: 7 B; decoding it, as part of the first layer: " in out

    tensors = world.json(*arguments, "--input-as", "tensor")
    assert tensors.get("sample_bytes") is None
    assert tensors["nodes"]["phone"].get("decode_s") is None


@pytest.mark.parametrize(
    ("model", "more", "said"),
    [
        ("lenet6", HERE, "model: lenet6: no such network of the zoo; did you mean lenet5?"),
        ("lenet5", (*HERE, "--input-shape", "3,x"), "--input-shape: 3,x: expected whole numbers of 1 or more"),
        ("lenet5", (*HERE, "--input-shape", "3,8,8"), "size: 8: lenet5 takes images of 16 pixels a side or more"),
        ("lenet5", ("--on", "phon"), "--on: phon: no such node; did you mean phone?"),
        ("{nets}:net", (*HERE, "--input-shape", "7"), "cannot be cut into layers: its layer 0 fails: RuntimeError"),
        ("{nets}:net", HERE, "give one, e.g. --input-shape 3,32,32"),
        ("{nets}:nett", (*HERE, *SHAPE), "did you mean net?"),
        ("{nets}_not:net", HERE, "no module own_nets_of_profile_not"),
        ("lenet5", (*HERE, "--data", "digts"), "data: digts: no such data set; did you mean digits?"),
        ("lenet5", (*HERE, "--data", "{nets}:Samples"), "Samples[0]: is a tensor of 6; the network takes 3×32×32"),
        (
            "lenet5",
            (*HERE, "--input-as", "tensors"),
            "--input-as: tensors: no such form of samples; did you mean tensor?",
        ),
    ],
)
def test_what_cannot_be_profiled_is_one_line(
    world: World, nets: str, model: str, more: tuple[str, ...], said: str
) -> None:
    arguments = (each.format(nets=nets) for each in (model, *more))
    (line,) = world.refused("profile", "--cluster", world.cluster, *arguments)
    assert said in line


def test_every_node_that_nobody_knows_is_a_line(world: World) -> None:
    lines = world.refused("profile", "lenet5", "--cluster", world.cluster)
    assert [line.split(": ")[:2] for line in lines] == [
        [str(world.cluster), "nodes.phone"],
        [str(world.cluster), "nodes.server"],
    ]
    assert all("give it hardware: … or host: local, or measure it with --on" in line for line in lines)


def test_a_file_that_cannot_be_written_is_one_line(world: World, nets: str) -> None:
    missing = Path("nowhere", "p.json")
    arguments = ("profile", f"{nets}:net", "--cluster", world.cluster, *HERE, *SHAPE, "-o", missing)
    (line,) = world.refused(*arguments)
    assert "cannot be written" in line


@pytest.mark.parametrize("text", ["", "3,,3", "3x3", "0,3", "-1", "1.5", "9" * 5000, "100000,100000"])
def test_nonsense_is_no_shape(text: str) -> None:
    with pytest.raises(InputError, match=r"input_shape: .*: expected "):
        parse_shape(text)


def test_a_shape_is_read() -> None:
    assert parse_shape(None) is None
    assert parse_shape("3, 32,32") == (3, 32, 32)


def test_any_profile_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    odd = Times(forward_s=(1e-3,), backward_s=(2e-3,), update_s=(0.0,))
    layer = Layer(name="[bold]", parameter_bytes=0, output_bytes=4, flops=2e9)
    show_profile(Profile(model="[red]", input_bytes=4, layers=(layer,), nodes={"[/]": odd, "same": odd}))
    out = capsys.readouterr().out
    assert "[red]: one sample" in out
    assert "[bold]" in out
    assert "[/], same: modelled" in out
    assert "3 ms" in out


def test_the_catalogue_is_listed(world: World) -> None:
    listed = world.json("hardware")["hardware"]
    assert [entry["name"] for entry in listed] == names()
    shown = world.palmette("hardware").out
    assert all(name in shown for name in names())
    assert "7.4 GFLOP/s" in shown
