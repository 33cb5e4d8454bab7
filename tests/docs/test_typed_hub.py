"""Pages about keys and machines that dial in, typed as they are written; the hub and its workers are this machine.

What the pages call ``hub.example:8443`` is an address of this machine here.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.runtime.transports.keys.folder import Keys
from tests.control.hub_workers import DiallingWorkers, HubWorkers
from tests.docs.session import Type, interrupted, typed
from tests.testbed.test_namespaces import eventually

INTERRUPTED, CONNECTED = 130, "connected to the hub"
BOTH = ("phone", "server")


def with_keys(type_: Type, folder: Path, **words: str) -> dict[str, str]:
    """The first command of the page on hosts that has each of these words, by their names; its keys are made."""
    steps = list(typed("docs/hosts.md", folder))
    for made in ("keys init", "keys issue hub"):
        type_(next(step.text for step in steps if made in step.text))
    return {name: next(step.command for step in steps if word in step.command) for name, word in words.items()}


def here(place: DiallingWorkers) -> dict[str, str]:
    """What stands for this machine."""
    return {"0.0.0.0:8443": place.listen, "hub.example:8443": place.address}


@contextmanager
def hub_process(place: DiallingWorkers, text: str) -> Iterator[None]:
    """A hub that keeps running."""
    words = text.replace("0.0.0.0:8443", place.listen).split()[1:]
    command = [sys.executable, "-c", "from palmette_command import main; main()", *words]
    hub = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert hub.stderr is not None
        assert hub.stderr.readline() == f"palmette: a hub at {place.listen}; runs are in runs\n"
        yield
        hub.send_signal(signal.SIGINT)
        hub.communicate(timeout=30)
        assert hub.returncode == 0
    finally:
        hub.kill()
        hub.communicate()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_security(started: Type, tmp_path: Path) -> None:
    page = "docs/security.md"
    for step in typed(page, tmp_path):
        if " worker " in step.text:
            with HubWorkers(tmp_path, keys=Keys(tmp_path / "keys")) as place:
                assert interrupted(started, step.text, CONNECTED, here(place), INTERRUPTED)
        else:
            assert started(step.text)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_three_ways_to_dial_in(started: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"worker": "worker hub.example", "pack": "keys pack", "packed": "worker --keys"}
    words |= {"invite": "keys invite", "enroll": "worker --enroll"}
    shown = with_keys(started, tmp_path, **words)
    with HubWorkers(tmp_path, keys=Keys(tmp_path / "keys")) as place:
        assert interrupted(started, shown["worker"], CONNECTED, here(place), INTERRUPTED)
        code = started(shown["pack"], here(place)).split("code: ")[1].strip()
        monkeypatch.setattr("palmette.cli.worker.read_passphrase", lambda _file: code)
        assert interrupted(started, shown["packed"], CONNECTED, here(place), INTERRUPTED)
        started("palmette keys revoke phone")
        code = started(shown["invite"], here(place)).strip()
        (tmp_path / "phone").mkdir()
        monkeypatch.chdir(tmp_path / "phone")
        assert interrupted(started, shown["enroll"], CONNECTED, {"CODE": code}, INTERRUPTED)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_with_workers_that_have_dialled_in(started: Type, tmp_path: Path) -> None:
    shown = with_keys(
        started, tmp_path, run="--listen 0.0.0.0", measured="--write-cluster", plan="--cluster measured.yaml"
    )
    with HubWorkers(tmp_path, keys=Keys(tmp_path / "keys")) as place:
        place.start(BOTH, allowed=AllowedNames())
        listening = {"--engine hub": f"--engine hub --listen {place.listen}"}
        assert "an iteration: measured" in started(shown["run"], here(place))
        assert "server: measured on" in started(shown["measured"], listening)
        assert "hybrid for lenet5" in started(shown["plan"])


@pytest.mark.slow
def test_keys_with_addresses_and_a_plan_for_ray(started: Type, tmp_path: Path) -> None:
    shown = with_keys(started, tmp_path, server="issue server --address", phone="phone  --address", plan="hiertrain")
    shutil.rmtree(tmp_path / "keys")
    started("palmette keys init")
    assert "server: valid until" in started(shown["server"])
    assert "phone: valid until" in started(shown["phone"])
    assert "hiertrain for lenet5" in started(shown["plan"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_hub_that_keeps_runs(started: Type, tmp_path: Path) -> None:
    words = {name: f"palmette {name}" for name in ("hub", "ls", "logs", "watch", "stop", "fetch")}
    shown = with_keys(started, tmp_path, **words, alice="--role operator", run="--as alice", resume="--resume 3f2a")
    started(shown["alice"])
    place = DiallingWorkers(tmp_path, keys=Keys(tmp_path / "keys"))
    with hub_process(place, shown["hub"]), place:
        place.start(BOTH, allowed=AllowedNames())
        name = started(shown["run"], here(place)).split()[1]
        at = {**here(place), "3f2a": name[:4]}
        assert name in started(shown["ls"], at)
        assert eventually((tmp_path / "runs" / name / "run.json").exists, 60)
        assert interrupted(started, shown["watch"], "http://", at)
        assert started(shown["stop"], at)
        assert "stopped" in started(shown["logs"], at)
        assert started(shown["resume"], at)
        assert started(shown["stop"], at)
        assert started(shown["fetch"], at)
    assert (tmp_path / "run" / "model.safetensors").exists()
