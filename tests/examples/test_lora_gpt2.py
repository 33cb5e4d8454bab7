"""The example ``lora-gpt2``: adapters learn across nodes, all else stays as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from palmette.cli import execute
from tests.peers import NEEDS_PEFT
from tests.runtime.world import ROOT


@NEEDS_PEFT
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("default")  # what transformers and peft tell each other is not ours
def test_the_commands_of_its_readme_end_in_adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lora-gpt2"
    shutil.copytree(ROOT / "examples" / "lora-gpt2", folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    files = ["--profile", "profile.json", "--cluster", "cluster.yaml"]
    assert execute(["profile", "--recipe", "lora:recipe", "--cluster", "cluster.yaml", "-o", "profile.json"]) == 0
    assert execute(["plan", "hybrid", *files, "--batch", "16", "--optimizer", "adamw", "-o", "plan.json"]) == 0
    run = ["run", "plan.json", "--recipe", "lora:recipe", "--iterations", "3", "--testbed", "none", "--quiet"]
    assert execute([*run, "-o", "run"]) == 0

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
