"""Libraries that tests need and a machine may lack: looked for without importing them, which takes seconds."""

from __future__ import annotations

import importlib.util

import pytest

NEEDS_PEFT = pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="needs peft (scripts/install peers)")
