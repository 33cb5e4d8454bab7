"""Adapters by ``--lora``: they alone are trained, exchanged and averaged, and peft reads what a run leaves."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import palmette as pt
from palmette.cli import execute
from palmette.errors import InputError
from palmette.runtime.options import Options
from palmette.zoo.adapters import Adapters, requested_adapters, split_adapters
from palmette.zoo.models import load_network
from tests.cost.small import instance, phase, source
from tests.peers import NEEDS_PEFT
from tests.runtime.networks import tiny
from tests.runtime.rig import off
from tests.runtime.world import TINY, Runs, alone, losses, weights

pytestmark = [
    NEEDS_PEFT,
    pytest.mark.xdist_group("peft"),  # one process imports it, for five seconds
    pytest.mark.filterwarnings("default"),  # what peft says at import is not ours
]

ADAPTED = f"{TINY}?lora=conv2.0,fc2&rank=2"
DOUBLE = Options(dtype="float64", lr=0.05)
COMMON = ["--dtype", "float64", "--lr", "0.05", "--quiet"]
REPLICAS = phase(
    source("phone", 14, "P"),
    source("server", 12, "S"),
    instance("P", 1, 3, "phone", "R"),
    instance("S", 1, 3, "server", "R"),
    instance("R", 4, 5, "cloud"),
)


def started(model: str) -> dict[str, Tensor]:
    module = load_network(model, seed=0).module
    assert module is not None
    return {name: value.double() for name, value in module.state_dict().items()}


def changed(model: str, out: Path) -> set[str]:
    before = started(model)
    return {name for name, value in weights(out).items() if not torch.equal(value.double(), before[name])}


@pytest.mark.slow
def test_a_run_leaves_what_one_process_does_and_changes_adapters_alone(runs: Runs) -> None:
    out = runs.folder / "out"
    assert execute([*runs.arguments(ADAPTED, REPLICAS), "--iterations", "4", *COMMON, "-o", str(out)]) == 0
    expected_losses, expected = alone(ADAPTED, 26, 4, DOUBLE)
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) < 1e-9
    assert {name.partition(".lora_")[0] for name in changed(ADAPTED, out)} == {"conv2.0", "fc2"}
    assert_peft_reads(out)


def assert_peft_reads(out: Path) -> None:
    import peft

    base = tiny()
    base.load_state_dict(
        {name.replace(".base_layer.", "."): v for name, v in weights(out).items() if ".lora_" not in name}
    )
    trained = peft.PeftModel.from_pretrained(base, out / "adapters").eval()
    same = load_network(ADAPTED, seed=0).module
    assert same is not None
    same.load_state_dict(weights(out))
    images = torch.rand(4, 1, 8, 8)
    assert torch.allclose(trained(images), same.eval()(images), atol=1e-6)
    assert not torch.allclose(trained(images), trained.unload()(images), atol=1e-4)
    assert (out / "adapters" / "adapter_model.safetensors").stat().st_size < 4000


@pytest.mark.slow
def test_a_run_starts_from_weights_without_adapters(runs: Runs) -> None:
    plain, out = runs.folder / "plain", runs.folder / "out"
    arguments = [*runs.arguments(TINY, REPLICAS), "--iterations", "1", *COMMON]
    assert execute([*arguments, "--seed", "3", "-o", str(plain)]) == 0
    arguments = [*runs.arguments(ADAPTED, REPLICAS), "--iterations", "1", *COMMON]
    assert execute([*arguments, "--init", str(plain / "model.safetensors"), "-o", str(out)]) == 0
    assert torch.equal(weights(out)["conv2.0.base_layer.weight"], weights(plain)["conv2.0.weight"])
    assert torch.equal(weights(out)["conv1.0.bias"], weights(plain)["conv1.0.bias"])


@pytest.mark.slow
def test_profile_plan_and_run_have_the_same_adapters(
    runs: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.folder)
    recipe, lora = ["--recipe", "tests.runtime.recipes:regression"], ["--lora", "2,6", "--rank", "3"]
    predicted = Path("cluster.yaml").read_text().replace("tier:", "hardware: raspberry-pi-3, tier:")
    Path("cluster.yaml").write_text(predicted)
    made = ["plan", "all-edge", "--batch", "8", *recipe, *lora, "--cluster", "cluster.yaml", "-o", "plan.json"]
    assert execute([*made, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["model"] == "tests.runtime.recipes:regression?lora=2,6&rank=3"
    learned = {each["name"]: each.get("trainable_bytes") for each in plan["inputs"]["profile"]["layers"]}
    assert learned["2"] == 3 * (9 + 8) * 4
    assert learned["0"] == 0
    assert plan["estimate"]["frozen_bytes"] == sum(
        weight.nbytes
        for weight in load_network("tests.runtime.recipes:regression").module.parameters()  # type: ignore[union-attr]
    )
    run = ["run", "plan.json", "--testbed", "none", "--iterations", "2", "--quiet"]
    assert execute([*run, *recipe, *lora]) == 0
    assert Path("run", "adapters").is_dir()
    assert execute([*run, "--lora", "2"]) == 2
    said = "palmette: --lora: 2 of rank 8: the plan's network has those of lora=2,6&rank=3; expected those of the plan"
    assert capsys.readouterr().err == f"{said}, or a plan that was made with these\n"


@pytest.mark.slow
def test_objects_of_a_program_get_adapters_too(runs: Runs) -> None:
    cluster = pt.load_cluster(runs.cluster)
    module, digits = tiny(), "digits"
    profile = pt.profile(module, cluster=cluster, on=["phone", "server", "cloud"], lora=["fc2"], rank=1)
    assert profile.model == "Sequential?lora=fc2&rank=1"
    plan = pt.plan("all-cloud", profile=profile, cluster=cluster, batch=8)
    assert plan.estimate is not None
    assert plan.estimate.saved_bytes == 0  # one node exchanges nothing anyway
    out = runs.folder / "out"
    pt.run(plan, out, model=module, data=digits, iterations=2, testbed="none", progress=False)
    assert not torch.equal(weights(out)["fc2.lora_B.default.weight"], torch.zeros(10, 1))
    assert torch.equal(weights(out)["fc2.base_layer.weight"], module.get_parameter("fc2.weight"))


def test_the_estimate_says_what_adapters_save(runs: Runs) -> None:
    nodes = runs.cluster.read_text().replace("tier:", "hardware: raspberry-pi-3, tier:")
    runs.cluster.write_text(nodes)
    cluster = pt.load_cluster(runs.cluster)
    plan = pt.load_plan(runs.plan(TINY, REPLICAS))
    priced, whole = (
        pt.estimate(plan, profile=pt.profile(model, cluster=cluster), cluster=cluster) for model in (ADAPTED, TINY)
    )
    assert priced.saved_bytes is not None
    assert priced.epoch_bytes is not None
    assert whole.epoch_bytes is not None
    assert whole.saved_bytes is None
    adapters = 2 * (3 * 9 + 4) * 4  # of rank 2
    exchanged = (priced.epoch_iterations or 0) * 2 * adapters  # there and back
    assert priced.epoch_bytes + priced.saved_bytes == pytest.approx(whole.epoch_bytes + exchanged, rel=1e-6)


def test_a_name_carries_its_adapters() -> None:
    adapters = Adapters(("q_proj", "v_proj"), 4)
    assert split_adapters(adapters.named("lenet5?classes=5")) == ("lenet5?classes=5", adapters)
    assert split_adapters(adapters.named("a.b:c")) == ("a.b:c", adapters)
    assert split_adapters("alexnet?size=64") == ("alexnet?size=64", None)
    assert requested_adapters("q_proj, v_proj", 4) == adapters
    assert load_network("lenet5?classes=5&lora=fc3&rank=2").name == "lenet5?classes=5&lora=fc3&rank=2"


@pytest.mark.parametrize(
    ("lora", "rank", "expected"),
    [
        ("fc22", None, "lora: fc22: no such module with weights; did you mean fc2?"),
        ("conv1", None, "lora: conv1: no such module with weights; did you mean conv1.0?"),
        ("", None, "lora: '': expected names of modules with commas between them"),
        ("a&b", None, "lora: a&b: expected names of modules"),
        (None, 4, "rank: 4: is that of adapters; expected lora, too"),
        ("fc2", 0, "rank: 0: expected a whole number of 1 or more"),
    ],
)
def test_adapters_that_cannot_be_used_are_named(lora: str | None, rank: int | None, expected: str) -> None:
    with pytest.raises(InputError) as refused:
        load_network(TINY, adapters=requested_adapters(lora, rank))
    (fault,) = refused.value.faults
    assert str(InputError(fault)).startswith(expected)


@pytest.mark.parametrize("name", ["lenet5?rank=2", "lenet5?lora=fc3&rank=x", "lenet5?lora=&rank=2"])
def test_mutilated_names_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        load_network(name)


def test_what_peft_cannot_adapt_is_one_line() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Bilinear(4, 4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x, x)  # type: ignore[no-any-return]

    with pytest.raises(InputError, match="lora: inner: peft cannot adapt it: ") as refused:
        load_network(Odd(), (4,), adapters=Adapters(("inner",)))
    assert "\n" not in str(refused.value)


def test_without_peft_the_command_to_install_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError, match="lora: fc2: adapters need peft; install it: pip install peft"):
        load_network(TINY, adapters=Adapters(("fc2",)))


def test_a_network_that_fails_in_another_dtype_is_one_line(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    tree = phase(source("phone", 8, "all"), instance("all", 1, 1, "phone"))
    arguments = runs.arguments("tests.runtime.recipes:single", tree)
    assert execute([*arguments, "--iterations", "1", "--dtype", "float64", "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("palmette: model: tests.runtime.recipes:single: it fails on its own data in float64: ")
