"""Seconds until training goes on after a kill, as JSON: ``python -m benchmarks.recovery`` from the project's root."""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.command import parser, print_result, progress
from benchmarks.overhead.cases import profile_of
from benchmarks.soak.faults import CLUSTER
from palmette.zoo.models import load_network

NODES = ("phone", "server", "cloud")
STEPS = 100_000
_PATIENCE_S = 90.0


def until(true: Callable[[], Any]) -> Any:
    """Wait until something is there."""
    end_s = time.monotonic() + _PATIENCE_S
    while not (found := true()):
        if time.monotonic() > end_s:
            raise TimeoutError(f"nothing happened for {_PATIENCE_S:g} s")
        time.sleep(0.01)
    return found


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def _files(folder: Path) -> list[str]:
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "profile.json").write_text(profile_of(load_network("lenet5", seed=0), NODES).to_json())
    phase = {
        "sources": [{"node": "phone", "samples": 4, "into": node} for node in NODES],
        "instances": [{"id": node, "layers": [1, 7], "node": node} for node in NODES],
    }
    plan = {"format": "palmette.plan/1", "strategy": "hybrid", "asked": {}, "model": "lenet5", "batch": 12}
    (folder / "plan.json").write_text(json.dumps({**plan, "phases": [phase]}))
    files = ["--cluster", str(folder / "cluster.yaml"), "--profile", str(folder / "profile.json")]
    more = ["--testbed", "none", "--iterations", str(STEPS), "--quiet", "-o", str(folder / "out")]
    return ["run", str(folder / "plan.json"), *files, *more]


def _palmette(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from palmette.cli import main; main()", *words]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _worker(process: subprocess.Popen[bytes]) -> int:
    """The youngest process of a run: its last worker."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--sort=start_time", "-g", str(process.pid)], capture_output=True, text=True, check=True
    )
    return int(listed.stdout.split()[-1])


def _next_line(path: Path) -> float:
    """When the file gets its next line, now being the beginning."""
    began_s, before = time.monotonic(), lines(path)
    until(lambda: lines(path) != before)
    return time.monotonic() - began_s


def palmette(folder: Path) -> float:
    """Plans again by itself."""
    metrics = folder / "out" / "metrics.jsonl"
    process = _palmette(*_files(folder))
    try:
        until(lambda: lines(metrics) > 50)
        os.kill(_worker(process), signal.SIGKILL)
        began_s = time.monotonic()
        until(lambda: b'"changes": []' not in (folder / "out" / "run.json").read_bytes())
        return time.monotonic() - began_s + _next_line(metrics)
    finally:
        _end(process)


def restart(folder: Path) -> float:
    """Stops with a checkpoint, and is started again at once."""
    metrics = folder / "out" / "metrics.jsonl"
    process = _palmette(*_files(folder), "--no-replan")
    try:
        until(lambda: lines(metrics) > 50)
        os.kill(_worker(process), signal.SIGKILL)
        began_s = time.monotonic()
        process.wait(_PATIENCE_S)
    finally:
        _end(process)
    process = _palmette("run", "--resume", str(folder / "out"), "--quiet")
    try:
        until(lambda: '"running"' in (folder / "out" / "run.json").read_text())
        return time.monotonic() - began_s + _next_line(metrics)
    finally:
        _end(process)


def _free_port() -> int:
    with socket.create_server(("localhost", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def torchrun(folder: Path) -> float | None:
    """Restarts all ranks; None where that does not come off."""
    script = Path(__file__).with_name("ddp.py")
    words = ["--nnodes", "1", "--nproc-per-node", "3", "--max-restarts", "3", "--rdzv-backend", "c10d"]
    words += ["--rdzv-endpoint", f"localhost:{_free_port()}", "--rdzv-id", folder.name]
    command = [sys.executable, "-m", "torch.distributed.run", *words, str(script), str(folder), str(STEPS)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: lines(folder / "steps") > 50)
        os.kill(int((folder / "rank2").read_text()), signal.SIGKILL)
        time.sleep(0.5)  # a step that was under way
        return 0.5 + _next_line(folder / "steps")
    except TimeoutError:
        return None
    finally:
        process.terminate()  # it ends its ranks, which are in sessions of their own
        process.wait(_PATIENCE_S)


CONTENDERS: dict[str, Callable[[Path], float | None]] = {"palmette": palmette, "restart": restart, "torchrun": torchrun}


def main() -> None:
    """Print all figures."""
    options = parser(__doc__, "Palmette alone, once")
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    found: dict[str, list[float | None]] = {name: [] for name in (["palmette"] if given.quick else CONTENDERS)}
    for _ in range(1 if given.quick else given.rounds):
        for name, seconds in found.items():
            with tempfile.TemporaryDirectory(prefix="recovery-") as folder:
                seconds.append(CONTENDERS[name](Path(folder)))
            progress(f"{name}: {seconds[-1]} s")
    print_result({name: _figures(seconds) for name, seconds in found.items()})


def _figures(seconds: list[float | None]) -> dict[str, Any]:
    known = [each for each in seconds if each is not None]
    return {
        "recovery_s": [None if each is None else round(each, 2) for each in seconds],
        "median_s": round(statistics.median(known), 2) if known else None,
    }


if __name__ == "__main__":
    main()
