"""JSON for scripts, on stdout."""

from __future__ import annotations

import json
from typing import Any


def print_json(data: Any) -> None:
    """Print plain data; numbers that JSON does not have are a bug."""
    print(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False))
