"""Plans of others of every shape that their format allows have an estimate."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks.others.errors import row, summary
from benchmarks.others.plans import measured_plan
from benchmarks.others.published import FOLDER, Published

ROOT = Path(__file__).parents[2]
DEPTH = 26
DEGREES = {"GH-96": (1, 2, 4), "RTX-2080": (1, 2, 4, 8), "RTX-3090": (1, 2, 4, 8), "Titan-RTX": (1, 2, 4, 8)}


@pytest.fixture(scope="module")
def published() -> Published:
    if not (ROOT / FOLDER).is_dir():
        pytest.skip("needs what others published")
    return Published(ROOT / FOLDER)


def pipeline(draw: random.Random) -> dict[str, Any]:
    """Stages of any layers; replicas of each of any kind, as many as may be, of any degree."""
    ends = [0, *sorted(draw.sample(range(1, DEPTH), draw.randint(0, 5))), DEPTH]
    kinds = draw.choice([["GH-96"], ["RTX-2080", "RTX-3090", "Titan-RTX"]])
    alike = draw.choice([True, False])
    wide = draw.choice([1, 2, 4])
    stages = []
    for _ in ends[1:]:
        stage = []
        for _ in range(wide if alike else draw.randint(1, 3)):
            kind = draw.choice(kinds)
            degree = draw.choice(DEGREES[kind])
            stage.append([[[kind, degree, "us-central1-a"]], degree])
        stages.append(stage)
    layers = [list(range(begin, end)) for begin, end in itertools.pairwise(ends)]
    return {"layers_per_stage": layers, "tmp_per_stage": stages}


@pytest.mark.parametrize("seed", range(12))
def test_any_pipelines_of_any_machines_have_an_estimate(seed: int, published: Published, tmp_path: Path) -> None:
    draw = random.Random(seed)
    size, pipelines = draw.choice([1, 2, 3, 8]), [pipeline(draw) for _ in range(draw.choice([1, 1, 2]))]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"pipeline_list": pipelines, "mbs": size, "gbs": size * draw.choice([1, 8, 16])}))
    found = row(measured_plan(path, published, 0.0))
    assert found["estimated_s"] > 0
    assert found["estimated_bytes"] > 0
    assert summary(tmp_path.name, [found])["mean_error"] is None  # nothing was measured of it
