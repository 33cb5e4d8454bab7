"""In which order tests run, and which of them in one process (``pytest --dist loadgroup``)."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

TRACED_CASES = 1  # of each quick test, under --cov
LONG_FIRST = ("ray", "namespaces", "slow", "browser")


def pytest_configure() -> None:
    """A run in the background ignores Ctrl-C, and so would all processes that tests start in order to stop them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _own_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests trust is not remembered for the user who runs them."""
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    yield
    del os.environ["XDG_CONFIG_HOME"]
    if before is not None:
        os.environ["XDG_CONFIG_HOME"] = before


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first, so that none is left to one process at the end; those that share a fixture together."""
    cases = Counter[str]()
    for item in items:
        test = item.nodeid.partition("[")[0]
        cases[test] += 1
        if _rank(item) < len(LONG_FIRST) or cases[test] > TRACED_CASES:
            item.add_marker("no_cover")  # of pytest-cov: traced code takes twice as long
        if item.get_closest_marker("xdist_group") is None:
            _group(item)
    items.sort(key=_rank)


def _group(item: pytest.Item) -> None:
    """Tests in namespaces look for what others leave behind; those that share a fixture make it once."""
    if item.get_closest_marker("namespaces") is not None:
        item.add_marker(pytest.mark.xdist_group("namespaces"))
    elif _shares_a_fixture(item):
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _rank(item: pytest.Item) -> int:
    marks = {mark.name for mark in item.iter_markers()}
    return next((rank for rank, name in enumerate(LONG_FIRST) if name in marks), len(LONG_FIRST))


def _shares_a_fixture(item: pytest.Item) -> bool:
    """Whether a test uses a fixture that its module makes once."""
    known = getattr(item, "_fixtureinfo", None)
    return known is not None and any(each[-1].scope == "module" for each in known.name2fixturedefs.values())


@pytest.fixture(autouse=True, scope="session")
def _written_without_waiting() -> Iterator[None]:
    """No test cuts the power of this machine: waiting for its disk, thousands of times, would prove nothing.

    Power cuts are emulated by processes of their own, which flush (``benchmarks.power_cut``).
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palmette.spec.durable.os.fsync", lambda _: None)
        yield
