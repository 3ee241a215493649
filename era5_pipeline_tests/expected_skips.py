"""A pytest plugin: with `--expected-skips FILE`, a test skipped for a reason that the file does not describe fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--expected-skips",
        metavar="FILE",
        help="fail if a test is skipped for a reason that no line of the file, a regular expression, describes; "
        "before it, and a tab, one for the test's name",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--expected-skips"):
        config.pluginmanager.register(_ExpectedSkips(Path(config.getoption("--expected-skips"))))


class _ExpectedSkips:
    """Fails a session in which a test was skipped that nobody expected to be."""

    def __init__(self, file: Path) -> None:
        lines = file.read_text(encoding="utf-8").splitlines()
        self._expected = [_reason_and_test(line) for line in lines if line and not line.startswith("#")]
        self._unexpected: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            if not any(one.search(reason) and test.search(report.nodeid) for one, test in self._expected):
                self._unexpected[report.nodeid] = reason

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # Workers of xdist report to the first process, which alone decides.
        if self._unexpected and not hasattr(session.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for test, reason in sorted(self._unexpected.items()):
            terminalreporter.write_line(f"UNEXPECTED SKIP {test}: {reason}", red=True)


def _reason_and_test(line: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    test, _, reason = line.rpartition("\t")
    return re.compile(reason), re.compile(test)
