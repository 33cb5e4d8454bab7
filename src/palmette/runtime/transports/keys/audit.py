"""What happened to the keys of a folder, one JSON line each: certificates issued and revoked, nodes let in and refused,
runs started and stopped.

    {"at": "2026-01-31T12:00:00+00:00", "event": "revoke", "node": "phone", "serial": "5f3…"}

A log that has become long is renamed, and the one before it deleted, so that nobody can fill a disk by being refused.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Literal

AuditEvent = Literal[
    "init", "issue", "invite", "renew", "sign", "pack", "revoke", "join", "refusal", "run", "resume", "stop"
]
AUDIT = "audit.jsonl"
_LONGEST_BYTES = 4 * 2**20


def audit(folder: Path, event: AuditEvent, **about: str) -> None:
    """Add a line to the log of a folder.

    Raises:
        OSError: it cannot be written.
    """
    file = folder / AUDIT
    if file.exists() and file.stat().st_size > _LONGEST_BYTES:
        file.replace(folder / "audit.old.jsonl")
    line = {"at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), "event": event, **about}
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")
