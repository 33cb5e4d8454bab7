"""What a run stands on, by the names that a user gives: engine, testbed and transport."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from palmette.control.adapt.membership import Membership, Processes
from palmette.cost.evaluate import Evaluator
from palmette.errors import Fault, InputError, expected_name
from palmette.runtime.engines.local import ProcessCrew
from palmette.runtime.engines.testbed import BareGround, Ground
from palmette.runtime.training.job import CrewMaker
from palmette.runtime.transports.rendezvous import GlooMeeting, Meeting, StoreMeeting
from palmette.spec.plan import Plan
from palmette.testbed.namespaces import namespace_ground
from palmette.testbed.paced import PacedGround

if TYPE_CHECKING:
    from palmette.control.run.run import Request

GROUNDS: dict[str, Callable[[float | None, Meeting, Plan, Evaluator], Ground]] = {
    "paced": lambda dilation, meeting, *_: PacedGround(dilation, meeting),
    "namespaces": namespace_ground,
    "none": lambda _, meeting, *__: BareGround(meeting),
}
KNOWN = {"--engine": ("local", "ray"), "--testbed": tuple(GROUNDS), "--transport": ("gloo", "tls")}


def engine_of(request: Request, plan: Plan, prices: Evaluator) -> tuple[Ground, CrewMaker]:
    """What workers stand on, and what starts them.

    Raises:
        InputError: there is none of a name, or it does not work here or with the others.
    """
    for option, word in (
        ("--engine", request.engine),
        ("--testbed", request.testbed),
        ("--transport", request.transport),
    ):
        refuse_unknown(option, word)
    nodes = list(dict.fromkeys(node for phase in plan.phases for node in phase.nodes()))
    _refuse_stray(request)
    if request.engine == "ray":
        return _on_ray(request, nodes, prices)
    meeting = _tls(request, nodes, prices) if request.transport == "tls" else GlooMeeting()
    return GROUNDS[request.testbed](request.dilation, meeting, plan, prices), ProcessCrew


def membership_of(request: Request) -> Membership:
    """Who says which nodes are there."""
    if request.engine != "ray":
        return Processes()
    from palmette.runtime.engines.ray.hosts import Membership as Hosts

    return Hosts()


def refuse_unknown(option: str, word: str) -> None:
    """Refuse a name that an option does not know.

    Raises:
        InputError: says which it knows.
    """
    if word not in KNOWN[option]:
        raise InputError(Fault(option, word, expected_name(word, option.removeprefix("--"), KNOWN[option])))


def _refuse_stray(request: Request) -> None:
    """Refuse options that mean nothing beside the others."""
    if request.transport == "gloo":
        for option, value in (("--keys", request.keys), ("--hub", request.hub)):
            if value is not None:
                raise InputError(Fault(option, value, "gloo uses none; expected --transport tls with it"))
    if request.engine == "ray" and request.testbed != "none":
        raise InputError(Fault("--testbed", request.testbed, "the hosts of --engine ray are real; expected none"))


def refuse_strange_hub(request: Request, plan: Plan) -> None:
    """Refuse a hub on a node without a part in the plan. Where a run later goes on without it, another is chosen.

    Raises:
        InputError: says which nodes have one.
    """
    nodes = list(dict.fromkeys(node for phase in plan.phases for node in phase.nodes()))
    if request.hub is not None and request.hub not in nodes:
        raise InputError(Fault("--hub", request.hub, expected_name(request.hub, "node of the plan", nodes)))


def _tls(request: Request, nodes: list[str], prices: Evaluator) -> Meeting:
    from palmette.runtime.transports.tls.meeting import TlsMeeting, refuse_lacking

    keys = None if request.keys is None else Path(request.keys)
    if keys is not None and request.engine == "local":
        refuse_lacking(keys, nodes)
    return TlsMeeting(prices.cluster, keys, request.hub)


def _on_ray(request: Request, nodes: list[str], prices: Evaluator) -> tuple[Ground, CrewMaker]:
    if request.transport == "tls" and request.keys is None:
        expected = "expected a folder that has, on each host, that node's key: palmette keys issue"
        raise InputError(Fault("--keys", "missing", expected))
    from palmette.runtime.engines.ray.crew import RayCrew
    from palmette.runtime.engines.ray.hosts import Hosts

    hosts = Hosts(nodes)
    meeting = _tls(request, nodes, prices) if request.transport == "tls" else StoreMeeting(hosts.here)
    return BareGround(meeting, hosts.site), partial(RayCrew, hosts)
