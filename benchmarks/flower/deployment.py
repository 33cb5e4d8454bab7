"""Flower's deployment engine: a SuperLink here, a SuperNode at each client, and an app, in an environment of their own.

Over TLS with a certificate for the server; which clients may join is not checked. Nothing is installed while it
runs, and nothing is reported to Flower's makers.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.flower.clients import Processes
from benchmarks.home_networks import HomeNetwork
from palmette.runtime.transports.keys.folder import Keys

SUPERLINK = "superlink"
_PATIENCE_S = 60.0


def why_no_flower(environment: Path | None) -> str | None:
    """Why Flower cannot be run from an environment; None where it can."""
    if environment is None:
        return "Flower is not installed here: make an environment with flwr 1.42 and torch, and name it by --flower"
    program = environment / "bin" / "flower-superlink"
    return None if program.exists() else f"{environment} has no Flower: there is no {program}"


class Deployment:
    """Server, clients and app, with all their files in a folder; each client's samples are in its ``NAME.pt``."""

    def __init__(self, folder: Path, homes: Mapping[str, HomeNetwork], environment: Path, app: Path) -> None:
        self._folder, self._homes, self._programs, self._port = folder, homes, environment / "bin", _free_port()
        self._processes, self._app, self._keys = Processes(folder), app, Keys(folder / "keys")
        path = f"{self._programs}:/usr/sbin:/usr/bin:/sbin:/bin"
        self._environment = {
            "FLWR_HOME": str(folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "PATH": path,
            "PYTHONPATH": "",
            "OMP_NUM_THREADS": "1",
        }

    def start(self, run_config: str) -> None:
        """Start the SuperLink and all SuperNodes, and submit the app."""
        self._write_files()
        certificate, key = (str(self._keys.file(SUPERLINK, kind)) for kind in ("crt", "key"))
        own = ["--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certfile", str(self._authority)]
        own += ["--host", "0.0.0.0", "--port", str(self._port)]
        words = [str(self._programs / "flower-superlink"), *own, "--disable-runtime-dependency-installation"]
        self._processes.start(SUPERLINK, words, self._environment)
        self._wait_until_it_listens()
        for name in self._homes:
            self.start_client(name)
        words = [str(self._programs / "flwr"), "run", str(self._folder / "app"), "here", "-c", run_config]
        self._processes.start("flwr", words, self._environment)

    def start_client(self, name: str) -> None:
        """Start a client's SuperNode."""
        home = self._homes[name]
        samples = f'samples="{self._folder / name}.pt"'
        words = ["--superlink", f"{home.hub}:{self._port}", "--root-certificates", str(self._authority)]
        node = [str(self._programs / "flower-supernode"), *words, "--node-config", samples]
        self._processes.start(name, node, self._environment, home.machine)

    def kill_client(self, name: str) -> None:
        """Kill a client's SuperNode and its children."""
        self._processes.kill(name)

    def end(self) -> None:
        """End everything."""
        self._processes.end()

    @property
    def _authority(self) -> Path:
        return self._keys.folder / "authority.crt"

    def _write_files(self) -> None:
        """Keys, a copy of the app where there is none yet, and where the server is."""
        self._keys.init()
        self._keys.issue(SUPERLINK, addresses=["127.0.0.1", *(each.hub for each in self._homes.values())])
        shutil.copytree(
            self._app, self._folder / "app", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
        )
        (self._folder / "home").mkdir()
        where = f'address = "127.0.0.1:{self._port}"\nroot-certificates = "{self._authority}"\n'
        (self._folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\n{where}'
        )

    def _wait_until_it_listens(self) -> None:
        until_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                if time.monotonic() > until_s:
                    raise TimeoutError(f"Flower's SuperLink does not listen within {_PATIENCE_S:.0f} s") from None
                time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
