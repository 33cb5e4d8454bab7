"""Adds this machine to a Ray cluster, as the host of a node."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from palmette.errors import ArgumentFault, Fault, InputError, RunError, one_line
from palmette.runtime.data.left_samples import delete_left
from palmette.runtime.engines.ray.library import environment, ray_library
from palmette.runtime.transports.keys.folder import Keys

_PATIENCE_S = 120.0
_ANSWER_PATIENCE_S = 10.0
# Ray's own names for resources.
_RESERVED = ("CPU", "GPU", "TPU", "memory", "object_store_memory")


def join(address: str, node: str, token: Path | None = None, keys: Path | None = None) -> None:
    """Run ``ray start``; its processes outlive this one. What earlier runs have left here of samples is deleted.

    ``token`` is a file with the cluster's token; ``keys`` a folder as ``palmette keys`` makes it, for Ray's own TLS.

    Raises:
        InputError: Ray is missing, or a name, the token or the keys cannot be used.
        RunError: no head answers, or Ray does not start; includes its message.
    """
    refuse_reserved([node])
    ray_library()
    here = own_address(address)
    delete_left(Path(tempfile.gettempdir()), node)
    settings = environment() | _token(token) | _tls(node, keys)
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--disable-usage-stats", "--address", address]
    command += ["--node-ip-address", here, "--resources", json.dumps({node: 1})]
    try:
        done = subprocess.run(
            command, env=settings, capture_output=True, text=True, check=False, timeout=_PATIENCE_S, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"ray start did not finish within {_PATIENCE_S:g} s") from None
    if done.returncode != 0:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise RunError(f"ray start failed: {one_line(said[-1].strip()) if said else f'exit code {done.returncode}'}")


def own_address(head: str) -> str:
    """The address by which the head sees this machine; Ray itself would ask a host on the Internet.

    Raises:
        InputError: the head's address is not host:port.
        RunError: nothing answers there.
    """
    host, colon, port = head.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 2**16):
        raise InputError(Fault("ADDRESS", head, "expected host:port, such as 10.0.0.1:6379"))
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_PATIENCE_S) as asking:
            found: str = asking.getsockname()[0]
    except OSError as error:
        raise RunError(f"no Ray head node answers at {head}: {error.strerror or error}") from None
    return found


def refuse_reserved(nodes: list[str]) -> None:
    """Refuse node names that Ray reserves.

    Raises:
        InputError: names them.
    """
    expected = "Ray has a resource of this name; expected another name"
    wrong = [ArgumentFault("node", node, expected) for node in nodes if node in _RESERVED or node.startswith("node:")]
    if wrong:
        raise InputError(wrong)


def _token(file: Path | None) -> dict[str, str]:
    if file is None:
        return {}
    if not file.is_file():
        raise InputError(ArgumentFault("token", str(file), "there is no such file"))
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(file.absolute())}


def _tls(node: str, folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    keys = Keys(folder.absolute())
    keys.credentials(node)
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(keys.file(node, "crt")),
        "RAY_TLS_SERVER_KEY": str(keys.file(node, "key")),
        "RAY_TLS_CA_CERT": str(keys.folder / "authority.crt"),
    }
