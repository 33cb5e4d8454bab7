"""Which trees can clip by the norm of a network's gradients."""

from __future__ import annotations

import pytest

from palmette.control.run.validation import refuse_norm_of_branches
from palmette.errors import InputError
from palmette.runtime.options import Options
from palmette.spec.plan import Phase, Plan
from tests.control.run.test_processes import trees

CLIPPING = Options(clip_norm=1.0)


def plan(tree: str, sync: str) -> Plan:
    phase: Phase = trees(6)[tree].model_copy(update={"sync": sync})
    return Plan(model="any", batch=12, phases=(phase,))


@pytest.mark.parametrize(("tree", "sync"), [("cut in three", "epoch"), ("two trees", "epoch"), ("hierarchy", "step")])
def test_a_network_that_each_tree_has_once_can_be_clipped(tree: str, sync: str) -> None:
    refuse_norm_of_branches(plan(tree, sync), CLIPPING)


def test_branches_without_a_gradient_in_common_are_refused_in_one_line() -> None:
    branches = plan("hierarchy", "epoch")
    refuse_norm_of_branches(branches, Options())
    with pytest.raises(InputError, match=r"phases\[0\]: the tree of O3: has several branches.* expected no clip_norm"):
        refuse_norm_of_branches(branches, CLIPPING)
