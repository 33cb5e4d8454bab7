"""One more try for tests that watch the clock, and for no others: ``pytest -p tests.retries``.

A busy machine may make a test marked ``timing`` fail. It is run a second time, after a pause; every retry is printed
when it happens and again at the end, and more than ``MOST`` of them fail the run. Any other test fails at once.
Under xdist the worker tries again, and the controller, which gets all reports, prints and counts.
"""

from __future__ import annotations

import time

import pytest
from _pytest.runner import runtestprotocol

MOST = 3
PAUSE_S = 5.0
_TRIED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--retry-pause", type=float, default=PAUSE_S, help="seconds before a timing test is tried again")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Retries(config), "palmette-retries")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.get_closest_marker("timing") is None or item.stash.get(_TRIED, False):
        return None  # pytest's own protocol
    hook, where = item.ihook, {"nodeid": item.nodeid, "location": item.location}
    item.stash[_TRIED] = True
    hook.pytest_runtest_logstart(**where)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = [report for report in reports if report.failed]
    for report in failed:
        report.outcome = "retried"  # type: ignore[assignment]
    for report in failed or reports:
        hook.pytest_runtest_logreport(report=report)
    if failed:
        _stop_timer(item)
        time.sleep(item.config.getoption("--retry-pause"))
        hook.pytest_runtest_protocol(item=item, nextitem=nextitem)  # with a time limit of its own
    else:
        hook.pytest_runtest_logfinish(**where)
    return True


def _stop_timer(item: pytest.Item) -> None:
    """The time limit of the first try does not count while waiting for the second."""
    if item.config.pluginmanager.hasplugin("timeout"):
        item.config.hook.pytest_timeout_cancel_timer(item=item)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return ("retried", "R", "RETRIED") if report.outcome == "retried" else None  # type: ignore[comparison-overlap]


class Retries:
    """Prints and counts the retries of a whole run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "retried":  # type: ignore[comparison-overlap]
            self._reasons[report.nodeid] = _reason(report)
            self._terminal.write_line("")
            self._terminal.write_line(f"retry {len(self._reasons)}: {self._line(report.nodeid)}", yellow=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if len(self._reasons) > MOST and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self) -> None:
        many = len(self._reasons)
        self._terminal.section(f"retries: {many} (at most {MOST})", red=many > MOST)
        for test in self._reasons:
            self._terminal.write_line(self._line(test))
        if many > MOST:
            self._terminal.write_line(f"{many} retries, expected at most {MOST}: the run has failed", red=True)

    @property
    def _terminal(self) -> pytest.TerminalReporter:
        return self._config.pluginmanager.getplugin("terminalreporter")

    def _line(self, test: str) -> str:
        return f"{test}: {self._reasons[test]}"


def _reason(report: pytest.TestReport) -> str:
    """The line of a traceback that says what went wrong."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr)).partition("\n")[0]
