"""Links that are cut or become slow while a run goes on, in real network namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from palmette.cli import execute as palmette
from palmette.testbed.namespace_network import shaping_rules
from tests.runtime.rig import relatively_off
from tests.testbed.stand import Files
from tests.testbed.test_namespaces import (  # noqa: F401  (fixtures)
    _nothing_is_left,
    begun,
    eventually,
    files,
    namespaces,
    pytestmark,
)


class Eventful:
    """A run in namespaces by a plan that ``hybrid`` is said to have made."""

    def __init__(self, made: Files) -> None:
        self._made, self.out = made, made.folder / "out"
        plan = json.loads((made.folder / "plan.json").read_text())
        plan |= {"strategy": "hybrid", "asked": {"goal": "time", "options": {"lossy": False}}}
        (made.folder / "plan.json").write_text(json.dumps(plan))

    def run(self, iterations: int, happens: Callable[[], None]) -> dict[str, Any]:
        """What ``run.json`` says when it is over."""

        def wait() -> None:
            assert eventually(lambda: begun(self.out), 60)
            happens()

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert palmette(self._made.arguments("out", "namespaces", iterations)) == 0
        waiting.join()
        found: dict[str, Any] = json.loads((self.out / "run.json").read_text())
        assert found["ended"] == "done"
        assert found["iterations"] == iterations
        return found

    def assert_weights_are_those_of_a_quiet_run(self, iterations: int) -> None:
        assert palmette(self._made.arguments("quiet", "none", iterations)) == 0
        one, other = (load_file(Path(out) / "model.safetensors") for out in (self.out, self._made.folder / "quiet"))
        assert relatively_off(one, other) <= 1e-4


def at_links(*words: str) -> None:
    """Call ``tc`` for every device of the namespaces of this process."""
    for space in namespaces(os.getpid()):
        listed = subprocess.run(["ip", "-n", space, "-o", "link"], check=True, capture_output=True, text=True).stdout
        for device in (line.split(": ")[1].split("@")[0] for line in listed.splitlines()):
            if device.startswith("link"):
                subprocess.run(["tc", "-n", space, *(word.format(device=device) for word in words)], check=True)


@pytest.mark.timing
@pytest.mark.slow
def test_a_cut_link_is_left_out(files: Callable[[str], Files]) -> None:  # noqa: F811
    eventful = Eventful(files("4 Mbit/s"))

    def cut() -> None:
        # The last namespace is the cloud's: it has one link.
        subprocess.run(["ip", "-n", namespaces(os.getpid())[-1], "link", "set", "link1", "down"], check=True)

    found = eventful.run(12, cut)
    (change,) = found["changes"]
    assert "has not been heard from" in change["reason"]
    assert "cloud" not in change["nodes"]
    assert change["iteration"] > 0
    eventful.assert_weights_are_those_of_a_quiet_run(12)


@pytest.mark.timing
@pytest.mark.slow
def test_a_link_that_becomes_slow_is_planned_for(files: Callable[[str], Files]) -> None:  # noqa: F811
    eventful = Eventful(files("8 Mbit/s"))
    slow = next(line for line in shaping_rules("{device}", 2e6, ()) if "tbf" in line).replace(
        "qdisc add", "qdisc change"
    )

    found = eventful.run(30, lambda: at_links(*slow.split()))
    assert found["changes"][0]["reason"] == "the bandwidth of a link has changed"
    speeds = [link["bandwidth_bps"] for link in found["plan"]["inputs"]["cluster"]["links"]]
    assert min(speeds) == 8e6  # the cluster is as declared: what a link reaches for a while is no part of it
    eventful.assert_weights_are_those_of_a_quiet_run(30)
