"""The testbeds by their names: one row each. The one of ``REAL`` leaves machines and links as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from palmette.cost.evaluate import Evaluator
from palmette.runtime.engines.testbed import NoTestbed, SiteMaker, Testbed
from palmette.runtime.transports.rendezvous import Rendezvous
from palmette.spec.plan import Plan
from palmette.spec.run import REAL
from palmette.testbed.namespaces import namespace_testbed
from palmette.testbed.paced import PacedTestbed


@dataclass(frozen=True, kw_only=True)
class TestbedSettings:
    """What a testbed is made from; without a ``dilation`` it chooses one."""

    __test__ = False  # pytest: this is no test

    plan: Plan
    evaluator: Evaluator
    rendezvous: Rendezvous
    site: SiteMaker
    dilation: float | None = None


@dataclass(frozen=True)
class TestbedKind:
    """How to make a testbed; one that ``emulates`` runs by the cluster's times, not this machine's."""

    __test__ = False  # pytest: this is no test

    make: Callable[[TestbedSettings], Testbed]
    emulates: bool = True


TESTBEDS: dict[str, TestbedKind] = {
    "paced": TestbedKind(lambda given: PacedTestbed(given.dilation, given.rendezvous)),
    "namespaces": TestbedKind(
        lambda given: namespace_testbed(given.dilation, given.rendezvous, given.plan, given.evaluator)
    ),
    REAL: TestbedKind(lambda given: NoTestbed(given.rendezvous, given.site), emulates=False),
}


def default_testbed(*, real_hosts: bool) -> str:
    """The testbed where none is named."""
    return REAL if real_hosts else "paced"
