"""The example ``lora-gpt2``: adapters learn across nodes, all else stays as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import palmette as pt
from palmette.cli import execute
from tests.docs.session import Typed, own_training, steps, typed
from tests.peers import NEEDS_PEFT
from tests.runtime.world import ROOT

ATTENTION = """\
import torch
from torch import nn

import palmette as pt


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.v_proj, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, inputs):
        return self.out(torch.sigmoid(self.q_proj(inputs)) * self.v_proj(inputs))


samples = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
recipe = pt.Recipe(model=Attention, data=torch.utils.data.TensorDataset(samples, samples[:, :2]), loss=nn.MSELoss())
"""


@NEEDS_PEFT
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("default")  # what transformers and peft tell each other is not ours
def test_the_commands_of_its_readme_end_in_adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lora-gpt2"
    shutil.copytree(ROOT / "examples" / "lora-gpt2", folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for step in typed("examples/lora-gpt2/README.md", tmp_path):
        assert execute(step.arguments) == 0, step.text

    import lora
    import peft

    from palmette.zoo.models import seeded

    with seeded(0):
        trained = lora.model()
    before = {name: value.clone() for name, value in trained.state_dict().items()}
    found = load_file("run/model.safetensors")
    trained.load_state_dict(found, strict=False)
    changed = {name for name, value in trained.state_dict().items() if not value.equal(before[name])}
    assert changed
    assert all("lora_" in name for name in changed)
    adapters = load_file("run/adapters/adapter_model.safetensors")
    assert 0 < sum(value.numel() for value in adapters.values()) < 50_000
    assert adapters.keys() == peft.get_peft_model_state_dict(trained).keys()
    with seeded(0):
        base = lora.model().unload()
    again = peft.PeftModel.from_pretrained(base, "run/adapters")
    tokens = torch.arange(32)[None]
    assert torch.allclose(again(input_ids=tokens).logits, trained.eval()(input_ids=tokens).logits, atol=1e-5)


@NEEDS_PEFT
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("default")
def test_adapters_by_an_option_as_the_page_on_recipes_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    list(steps(ROOT / "docs" / "getting-started.md", tmp_path))  # its cluster.yaml
    shown = [step for step in steps(ROOT / "docs" / "recipes.md", tmp_path) if isinstance(step, Typed)]
    (planned,) = [step for step in shown if "--lora" in step.text]
    with own_training(tmp_path, ATTENTION):
        assert execute(planned.arguments) == 0
    assert pt.load_plan("plan.json").model == "training:recipe?lora=q_proj,v_proj&rank=8"
