"""What a new user types in a terminal, from a wheel, as README.md has it: palmette init, palmette up."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from tests.wheel import Environments, outside

FIVE_MINUTES_S = 300.0


class Terminal:
    """A terminal in which a command runs, and somebody who answers its questions with the enter key."""

    def __init__(self, folder: Path, *command: str | Path) -> None:
        self._end, child = pty.openpty()
        environment = {**outside(), "TERM": "xterm", "COLUMNS": "160"}
        environment |= {name: str(folder / name) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
        self._process = subprocess.Popen(
            [*map(str, command)],
            cwd=folder,
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment,
            start_new_session=True,
        )
        os.close(child)
        self.screen = ""

    def wait(self, answers: dict[str, str], until_s: float) -> int:
        """Answer each question once it is asked, and wait for the end."""
        left, answered = dict(answers), 0
        while time.monotonic() < until_s:
            if select.select([self._end], [], [], 0.2)[0]:
                try:
                    self.screen += os.read(self._end, 65536).decode(errors="replace")
                except OSError:  # the command has closed its end
                    break
            for question in [each for each in left if each in self.screen[answered:]]:
                answered = self.screen.index(question, answered) + len(question)
                os.write(self._end, f"{left.pop(question)}\n".encode())
            if self._process.poll() is not None and not select.select([self._end], [], [], 0)[0]:
                break
        code = self._process.wait(timeout=max(1.0, until_s - time.monotonic()))
        os.close(self._end)
        return code


QUESTIONS = (
    "How many devices",
    "How many edge servers",
    "How many cloud servers",
    "What is a device",
    "What is an edge server",
    "How fast are the links near",
    "How many training samples",
    "Must raw data stay",
    "How large is a sample",
    "Are samples always new",
    "How much may servers keep",
    "Which network",
    "Which data",
    "What to minimise",
    "How many epochs",
)


@pytest.fixture
def environments(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    return Environments(tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
@pytest.mark.timeout(320)
def test_from_an_empty_environment_to_a_report_in_less_than_five_minutes(
    environments: Environments, tmp_path: Path
) -> None:
    until_s = time.monotonic() + FIVE_MINUTES_S
    palmette = environments.with_wheel("run")
    asked = Terminal(tmp_path, palmette, "init")
    answers = dict.fromkeys(QUESTIONS, "") | {"How many cloud servers": "0", "How many training samples": "1500"}
    assert asked.wait(answers | {"How many epochs": "1"}, until_s) == 0, asked.screen
    assert "Next: palmette up" in asked.screen
    trained = Terminal(tmp_path, palmette, "up")
    assert trained.wait({"Train with this plan?": ""}, until_s) == 0, trained.screen
    assert "→" in trained.screen
    assert (tmp_path / "training" / "run" / "model.safetensors").exists()
    assert (tmp_path / "training" / "report.html").exists()
