"""The curves that ship: the small VGG-11 on CIFAR-10 images, through prunings and handovers."""

from __future__ import annotations

import gzip
from importlib import resources

from palmette.spec.curves import Curves, parsed_curves

FILE = "curves.jsonl.gz"


def load_shipped_curves() -> Curves:
    """The curves that ship."""
    packed = (resources.files(__package__) / FILE).read_bytes()
    return parsed_curves(gzip.decompress(packed).decode(), FILE)
