"""The commands that the documentation shows, and why some of them are not run by a test."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*/README.md"))]
_BLOCK = re.compile(r"```(sh|console)\n(.*?)```", re.DOTALL)
_SECTION = re.compile(r"^## ", re.MULTILINE)

NOT_RUN = {
    r"palmette profile ": "measures for minutes; tests/cli/test_profile.py profiles small networks",
    r"palmette (run|watch|pretrain|pilot|worker) ": "trains, or waits for others; tests/cli run each of them",
    r"palmette up( |$)": "asks, and trains; tests/cli/test_up.py and test_first_steps.py",
    r"palmette curves collect ": "trains for hours",
    r"palmette predict train ": "needs the curves of such trainings",
    r"palmette reproduce ": "takes minutes; tests/reproduce",
    r"palmette cluster join ": "starts Ray",
    r"palmette power ": "needs a meter, and what it has written",
    r"palmette init( cluster.yaml| +#.*)$": "asks; tests/cli/test_init.py",
    r".*--recipe ": "needs a recipe of one's own; tests/cli/test_plan_recipe.py",
    r".* (m\.json|pilot/|measurements m\.json)": "needs what pretrain or pilot has written",
    r".*(by-hand|cut|wrong|faster|small|small-plan)\.(json|yaml)": "needs a file that is written by hand",
    r"palmette (hub|ls|logs|stop|fetch)( |$)": "needs detached runs; tests/cli/test_detach.py and test_hub.py",
    r"palmette keys invite ": "prints a code for a person to read; tests/runtime/engines/hub/test_enrolment.py",
    r".*measured\.yaml": "needs what profile --write-cluster has written; tests/control/test_measured_at_hub.py",
    r"palmette keys pack ": "prints a code for a person to read; tests/cli/test_keys.py",
    r"palmette report run ": "needs a run",
}
"""What cannot run here as it is written, and why."""
DETACHED = "needs a detached run; tests/cli/test_detach.py"
METERS = "needs a meter, or what one has written; tests/control/run/test_metering.py"
TYPED = {
    "docs/plan-without-hardware.md": {
        "palmette init cluster.yaml": "asks; tests/cli/test_init.py",
    },
    "docs/running.md": {
        "palmette run plan.json --detach -o run": DETACHED,
        "palmette ls": DETACHED,
        "palmette logs 3f2a -f": DETACHED,
        "palmette stop 3f2a": DETACHED,
        "palmette watch 3f2a": DETACHED,
        "palmette run plan.json --optimizer adamw --lr 3e-4 --weight-decay 0.01 --groups '*.bias: weight_decay=0' "
        "--schedule cosine --warmup 100 --clip-norm 1 --accumulate 4 --early-stop loss:3 --epochs 20": (
            "trains for minutes; tests/runtime/training"
        ),
        "palmette run plan.json --meter phone=replay:plug.csv --meter server=replay:battery.csv -o run": METERS,
        "palmette run alone.json --testbed none --meter laptop=zeus -o run": METERS,
    },
    "docs/read-the-report.md": {"palmette watch run": "serves until it is stopped; tests/cli/test_watch.py"},
    "examples/three-tiers/README.md": {},
    "examples/busy-phone/README.md": {
        "palmette run build/demo/auto.json --epochs 5 -o build/demo/longer &": "trains for minutes",
        "palmette watch build/demo/longer --terminal": "follows that run",
    },
}
"""Pages that are typed as they are written, but for these commands; tests/docs/test_typed_pages.py."""
WHOLE_PAGES = {
    "docs/getting-started.md": "its page is typed whole; tests/docs/test_getting_started.py",
    **dict.fromkeys(TYPED, "its page is typed whole; tests/docs/test_typed_pages.py"),
}


class ShownCommand(NamedTuple):
    """A command of a page, and of one of its sections."""

    page: str
    section: str
    text: str

    @property
    def arguments(self) -> list[str]:
        """What follows palmette, as a shell reads it."""
        return shlex.split(self.text, comments=True)[1:]

    @property
    def reason_not_to_run(self) -> str | None:
        """Why no test runs it by itself; None if one does."""
        if self.page in WHOLE_PAGES:
            return WHOLE_PAGES[self.page]
        return next((why for pattern, why in NOT_RUN.items() if re.match(pattern, self.text)), None)


def shown_commands() -> Iterator[ShownCommand]:
    """All commands of palmette that the pages show, as they are written."""
    for page in PAGES:
        for section in _SECTION.split(page.read_text(encoding="utf-8")):
            title = section.partition("\n")[0]
            for kind, body in _BLOCK.findall(section):
                for line in re.sub(r"\\\n\s*", " ", body).splitlines():
                    text = line.removeprefix("$ ") if kind == "console" else line
                    if text.startswith("palmette ") and "…" not in text:
                        yield ShownCommand(str(page.relative_to(ROOT)), title, text.rstrip("& "))
