"""The commands that the documentation shows, who types them, and why some of them cannot be typed here.

A page is typed by one test, as somebody follows it: in one folder, one command after the other.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*/README.md"))]
_BLOCK = re.compile(r"```(sh|console)\n(.*?)```", re.DOTALL)

TYPED_BY = {
    "README.md": "tests/cli/test_first_steps.py",
    "docs/add-a-strategy.md": "tests/docs/test_typed_pages.py",
    "docs/choosing.md": "tests/docs/test_typed_trainings.py",
    "docs/getting-started.md": "tests/docs/test_getting_started.py",
    "docs/hosts.md": "tests/docs/test_typed_hub.py",
    "docs/measure-your-machines.md": "tests/docs/test_typed_pages.py",
    "docs/plan-without-hardware.md": "tests/docs/test_typed_pages.py",
    "docs/predicting.md": "tests/docs/test_typed_trainings.py",
    "docs/read-the-report.md": "tests/docs/test_typed_pages.py",
    "docs/recipes.md": "tests/docs/test_typed_trainings.py",
    "docs/reproducing.md": "tests/reproduce",
    "docs/running.md": "tests/docs/test_typed_pages.py",
    "docs/security.md": "tests/docs/test_typed_hub.py",
    "examples/busy-phone/README.md": "tests/docs/test_typed_pages.py",
    "examples/lora-gpt2/README.md": "tests/examples/test_lora_gpt2.py",
    "examples/one-file/README.md": "tests/docs/test_typed_trainings.py",
    "examples/three-machines/README.md": "tests/docs/test_typed_trainings.py",
    "examples/three-tiers/README.md": "tests/docs/test_typed_pages.py",
}
"""Which test types a page."""

RAY = "needs the hosts of a Ray cluster; tests/control/run/test_ray.py has one in namespaces (pytest -m ray)"
METER = "needs a meter; tests/control/run/test_metering.py and tests/cli/test_power.py replay the log of one"
MINUTES = "computes for minutes; tests/reproduce makes the same figures from smaller experiments"
AT_HUB = "measures on several machines for minutes; tests/control/test_measured_at_hub.py with a small network"
PEFT = "typed by tests/examples/test_lora_gpt2.py, where peft is installed"
ASKS = "asks fifteen questions, which tests/cli/test_first_steps.py answers in a terminal; the next command gives flags"
AT_PORT = "listens on a fixed port; tests/control/up/test_engines.py trains such a file at a hub on a free one"
LEFT_OUT = {
    "docs/choosing.md": {"palmette power sample --meter zeus --for 5min -o samples.csv": METER},
    "docs/hosts.md": {
        "palmette cluster join 10.0.0.1:6379 --node phone": RAY,
        "palmette cluster join 10.0.0.1:6379 --node cloud": RAY,
        "palmette profile lenet5 --cluster cluster.yaml --engine ray -o profile.json": RAY,
        "palmette pretrain lenet5 --cluster cluster.yaml --engine ray --insecure -o m.json": RAY,
        "palmette run plan.json --engine ray --insecure -o run": RAY,
        "palmette cluster join 10.0.0.1:6379 --node phone --token ~/token --keys ~/keys": RAY,
        "palmette run plan.json --engine ray --transport tls --keys ~/keys --hub server": RAY,
        "palmette pretrain lenet5 --cluster cluster.yaml --engine hub --keys keys -o m.json": AT_HUB,
        "palmette pilot lenet5 --cluster cluster.yaml --engine hub --keys keys -o pilot": AT_HUB,
    },
    "docs/recipes.md": {
        "palmette plan hybrid --recipe training:recipe --lora q_proj,v_proj --rank 8 --cluster cluster.yaml "
        "-o plan.json": PEFT,
    },
    "docs/reproducing.md": {
        "palmette reproduce hiertrain -o figures": MINUTES,
        "palmette reproduce hiertrain --measured -o figures": MINUTES,
        "palmette reproduce cluster -o figures": MINUTES,
        "palmette reproduce cluster --measured -o figures": MINUTES,
        "palmette reproduce righttrain -o figures": MINUTES,
        "palmette reproduce pact -o figures": MINUTES,
        "palmette reproduce pact --measured -o figures": MINUTES,
    },
    "docs/running.md": {"palmette run alone.json --testbed none --meter laptop=zeus -o run": METER},
    "docs/plan-without-hardware.md": {"palmette init cluster.yaml": ASKS},
    "examples/one-file/README.md": {
        "palmette up training.yaml --engine hub --keys keys -o at-hub": AT_PORT,
        "palmette up training.yaml --engine ray --insecure -o on-ray": RAY,
    },
}
"""What cannot be typed here, and why."""


class ShownCommand(NamedTuple):
    """A command of a page."""

    page: str
    text: str

    @property
    def arguments(self) -> list[str]:
        """What follows palmette, as a shell reads it."""
        return shlex.split(self.text, comments=True)[1:]


def shown_commands() -> Iterator[ShownCommand]:
    """All commands of palmette that the pages show, as they are written."""
    for page in PAGES:
        for kind, body in _BLOCK.findall(page.read_text(encoding="utf-8")):
            for line in re.sub(r"\\\n\s*", " ", body).splitlines():
                text = line.removeprefix("$ ") if kind == "console" else line
                if text.startswith("palmette ") and "…" not in text:
                    yield ShownCommand(str(page.relative_to(ROOT)), text.rstrip("& "))
