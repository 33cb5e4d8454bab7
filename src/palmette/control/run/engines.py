"""Engine, testbed and transport of a run, by the names that a user gives."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from palmette.control.run.request import CommonRequest, Request
from palmette.cost.evaluate import Evaluator
from palmette.errors import Argument, ArgumentFault, InputError, Message, expected_name, listed
from palmette.runtime.data.left_samples import run_folder
from palmette.runtime.engines.base import Engine, EngineSettings
from palmette.runtime.engines.membership import Membership
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.engines.testbed import Testbed
from palmette.runtime.training.engine_loss import agreed_iteration, kept_folder
from palmette.runtime.transports.registry import TRANSPORTS, TransportSettings
from palmette.runtime.transports.rendezvous import Rendezvous
from palmette.spec.plan import Plan
from palmette.testbed.registry import TESTBEDS, TestbedSettings, default_testbed


def engine_of(request: Request, plan: Plan, prices: Evaluator) -> tuple[Testbed, Engine]:
    """The testbed that workers run on, and the engine that starts them.

    Raises:
        InputError: one does not work here, or not with the others.
    """
    _refuse_stray(request)
    nodes = plan.nodes()
    engine = ENGINES[request.engine].engine(_settings(request, nodes))
    rendezvous = engine.rendezvous or _rendezvous(request, prices, nodes, engine)
    given = TestbedSettings(
        plan=plan, evaluator=prices, rendezvous=rendezvous, site=engine.site, dilation=request.dilation
    )
    return TESTBEDS[request.testbed].make(given), engine


def _rendezvous(request: Request, prices: Evaluator, nodes: list[str], engine: Engine) -> Rendezvous:
    if not TRANSPORTS[request.transport].uses_keys:
        refuse_open_network(request, engine.addresses)
    keys = _settings(request, nodes).keys
    settings = TransportSettings(cluster=prices.cluster, nodes=nodes, here=engine.here, keys=keys, hub=request.hub)
    return TRANSPORTS[request.transport].rendezvous(settings)


def _settings(request: CommonRequest, nodes: list[str]) -> EngineSettings:
    keys = None if request.keys is None else Path(request.keys)
    return EngineSettings(nodes=nodes, listen=request.listen, keys=keys)


def samples_folder(request: Request, folder: Path) -> Path:
    """Where nodes keep samples of others: as the user says; else with the run, or on hosts in their temporary folder.

    It is the same when the run is resumed.
    """
    if request.keep_samples is not None:
        return Path(request.keep_samples).expanduser().absolute()
    if not ENGINES[request.engine].real_hosts:
        return folder.absolute() / "samples"
    name = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]
    return run_folder(Path(tempfile.gettempdir()), name)


def membership_of(request: CommonRequest) -> Membership:
    """What says which nodes are there."""
    return ENGINES[request.engine].membership(_settings(request, []))


def fetch_kept(request: Request, plan: Plan, checkpoints: Path) -> None:
    """Have what workers on other machines have kept of a run brought here, if its engine died after a checkpoint.

    Raises:
        InputError: the engine cannot start.
        RunError: a node's worker has not come.
    """
    fetch, iteration = ENGINES[request.engine].fetch_kept, agreed_iteration(checkpoints)
    if fetch is not None and iteration is not None and request.patience_s > 0:
        fetch(_settings(request, plan.nodes()), kept_folder(checkpoints.absolute()), iteration, request.patience_s)


def _refuse_stray(request: Request) -> None:
    """Refuse options that do not go together."""
    kind = ENGINES[request.engine]
    if kind.transport not in (None, request.transport):
        expected = f"engine {request.engine} has its own; expected {kind.transport}"
        raise InputError(ArgumentFault("transport", request.transport, expected))
    refuse_listen(request.engine, request.listen)
    if kind.listens and request.hub is not None:
        expected = f"workers meet at engine {request.engine} itself; expected none"
        raise InputError(ArgumentFault("hub", request.hub, expected))
    if not TRANSPORTS[request.transport].uses_keys:
        _refuse_keys(request)
    if not ENGINES[request.engine].real_hosts:
        return
    if request.emulated:
        expected = f"the hosts of engine {request.engine} are real; expected {default_testbed(real_hosts=True)}"
        raise InputError(ArgumentFault("testbed", request.testbed, expected))
    if TRANSPORTS[request.transport].uses_keys and request.keys is None:
        expected = "expected a folder that has, on each host, that node's key: palmette keys issue"
        raise InputError(ArgumentFault("keys", "missing", expected))


def refuse_listen(engine: str, listen: str | None) -> None:
    """Refuse a place to listen at for an engine that does not.

    Raises:
        InputError: says which do.
    """
    if listen is not None and not ENGINES[engine].listens:
        listening = " or ".join(name for name, each in ENGINES.items() if each.listens)
        expected = Message(f"engine {engine} does not listen; expected ", Argument("engine"), f" {listening}")
        raise InputError(ArgumentFault("listen", listen, expected))


def _refuse_keys(request: Request) -> None:
    others = " or ".join(name for name, kind in TRANSPORTS.items() if kind.uses_keys)
    expected = Message(f"{request.transport} uses none; expected ", Argument("transport"), f" {others} with it")
    for argument, value in (("keys", request.keys), ("hub", request.hub)):
        if value is not None:
            raise InputError(ArgumentFault(argument, value, expected))


def refuse_open_network(request: CommonRequest, addresses: Mapping[str, str]) -> None:
    """Refuse to send messages in the clear to nodes off this machine, unless the user has said so.

    Raises:
        InputError: says who could read them.
    """
    away = [f"{node} ({address})" for node, address in addresses.items() if not _is_loopback(address)]
    if len(addresses) < 2 or not away or request.insecure:
        return
    expected = Message(
        f"{listed(away)} would be reached over gloo, where whoever is on the network can read and change samples, "
        "labels and weights; expected it only on a network that is yours alone, and elsewhere ",
        Argument("transport"),
        " tls",
    )
    raise InputError(ArgumentFault("insecure", "not given", expected))


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False  # a name may mean any machine


def refuse_strange_hub(request: Request, plan: Plan) -> None:
    """Refuse a hub on a node without a part in the plan. Where a run later continues without it, another is chosen.

    Raises:
        InputError: says which nodes have one.
    """
    nodes = plan.nodes()
    if request.hub is not None and request.hub not in nodes:
        raise InputError(ArgumentFault("hub", request.hub, expected_name(request.hub, "node of the plan", nodes)))


def passes_no_hub(request: CommonRequest, plan: Plan, prices: Evaluator) -> str | None:
    """A warning where all messages pass the engine's hub, and the cluster's links do not; None otherwise."""
    apart = [
        phase.nodes()
        for phase in plan.phases
        if ENGINES[request.engine].listens and prices.routes.meeting_node(phase.nodes()) is None
    ]
    if not apart:
        return None
    told = f"all messages pass through the hub, but the cluster has links that do not, between {listed(list(apart[0]))}"
    measure = f"palmette profile --engine {request.engine} --write-cluster FILE measures the ways through it"
    return f"{told}, so runs take longer than estimated; {measure}"
