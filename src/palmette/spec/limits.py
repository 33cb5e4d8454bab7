"""The largest values of arguments that the command line and Python check alike."""

from __future__ import annotations

MOST_SEED = 2**63 - 1
"""The largest seed that torch takes."""
MOST_DILATION = 1e6
"""An emulated second takes eleven days."""
