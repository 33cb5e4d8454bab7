"""The testbeds by their names: one row each. ``none`` leaves machines and links as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from palmette.cost.evaluate import Evaluator
from palmette.runtime.engines.testbed import NoTestbed, SiteMaker, Testbed
from palmette.runtime.transports.rendezvous import Rendezvous
from palmette.spec.plan import Plan
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


TESTBEDS: dict[str, Callable[[TestbedSettings], Testbed]] = {
    "paced": lambda given: PacedTestbed(given.dilation, given.rendezvous),
    "namespaces": lambda given: namespace_testbed(given.dilation, given.rendezvous, given.plan, given.evaluator),
    "none": lambda given: NoTestbed(given.rendezvous, given.site),
}
