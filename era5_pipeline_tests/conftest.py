"""Settings of hypothesis, and the marker `slow`. Plugins (servers, flat months, real files) are named one folder up."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: how long an example takes depends on the machine's other work. In CI every run uses the same examples, so
# that a change is judged by what it changed; on a desk each run uses new ones, which is where bugs are found.
settings.register_profile("era5", deadline=None, derandomize="CI" in os.environ)
# Of `make test-quick`, by --hypothesis-profile.
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("era5")

# Modules that take several seconds though they need no server (pytest --durations=60 -m "not server").
SLOW_MODULES = frozenset(
    {
        "cli/test_backfill_killed.py",  # backfills, whose daemon turns every 30 s
        "cli/test_services_killed.py",  # the same
        "cli/test_web_ui.py",  # a backfill, whose daemon turns every 30 s
        "bench/test_orchestration.py",  # a backfill, and another
        "defs/test_preloaded.py",  # a process that imports everything
        "draw/test_climate_years.py",  # pictures
        "draw/test_climate_axes.py",  # the same
        "report/test_html.py",  # answers on thirty years
        "bench/test_asking.py",  # a table is loaded, and asked in processes
        "bench/test_reaching.py",  # a table is loaded, and served by a process
        "bench/test_suites.py",  # processes that start together
        "flat/test_cluster.py",  # Dask clusters are started
        "defs/test_alerts.py",  # the daemon, whose sensors turn every 30 s
        "defs/test_freshness.py",  # the daemon, whose sensors turn every 30 s
        "bench/test_methods.py",  # a database for each way to load
        "bench/test_servers.py",  # data folders are created
        "cli/test_bench.py",  # runs that are interrupted and killed
        "flat/test_flatten.py",  # every layout of files in many tilings, a globe, real files: half of all the time
        "flat/test_tiles.py",  # thousands of overlapping files
        "netcdf/test_refusals.py",  # processes with little memory, and a series of 200 MB
        "netcdf/test_heaps.py",  # files that end only when a process is killed
        "netcdf/test_archive.py",  # a file for each example
        "postgres/embedded/test_server.py",  # data folders are created
        "postgres/test_tls.py",  # a server with a certificate of its own
        "cli/test_climate.py",  # 26 years of hours
        "climate/test_years.py",  # imports xclim
        "climate/test_reading.py",  # decades of hours
        "climate/test_trends.py",  # imports statsmodels
        "api/test_database.py",  # a server is started, and processes that import
        "api/test_python_page.py",  # a notebook runs
        "maps/test_cells.py",  # many trends of places
        "export/test_pieces.py",  # hundreds of boxes, cut and covered
        "draw/test_coverage.py",  # pictures
        "draw/test_animation.py",  # pictures
        "draw/test_projections.py",  # pixels of the globe
        "draw/test_projected_map.py",  # pictures of the globe
        "draw/test_maps.py",  # pictures
        "draw/test_series.py",  # pictures
        "report/test_page_in_chromium.py",  # a browser
        "report/test_page.py",  # pages of decades of hours
        "draw/test_plots.py",  # pictures of the globe
        "runtime/test_stores.py",  # S3 servers that are stopped, connections that are cut
        "runtime/test_supervisor.py",  # processes that are started and killed
        "runtime/test_file_store.py",  # an S3 server
        "sources/test_files_catalogue.py",  # an S3 server
        "sources/test_arco.py",  # a Zarr store of the globe
        "sources/cds/test_note.py",  # an S3 server
        "sources/test_point.py",  # a server makes series of 86 years
        "sources/cds/test_source.py",  # waits for a server between requests
        "test_docker.py",  # an image is built
        "test_wheel.py",  # an environment is made
    }
)
_TESTS = Path(__file__).parent
# Homes of tests are not noted among the user's: nothing can be created there.
os.environ["XDG_STATE_HOME"] = os.devnull


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--expected-skips",
        metavar="FILE",
        help="fail if a test is skipped for a reason that no line of the file, a regular expression, describes",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--expected-skips"):
        config.pluginmanager.register(_ExpectedSkips(Path(config.getoption("--expected-skips"))))


class _ExpectedSkips:
    """Fails a session in which a test was skipped that nobody expected to be."""

    def __init__(self, file: Path) -> None:
        lines = file.read_text(encoding="utf-8").splitlines()
        self._expected = [re.compile(line) for line in lines if line and not line.startswith("#")]
        self._unexpected: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            if not any(one.search(reason) for one in self._expected):
                self._unexpected[report.nodeid] = reason

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # Workers of xdist report to the first process, which alone decides.
        if self._unexpected and not hasattr(session.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for test, reason in sorted(self._unexpected.items()):
            terminalreporter.write_line(f"UNEXPECTED SKIP {test}: {reason}", red=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what `-m "not slow"` leaves out: importing a module costs more than many tests."""
    if "not slow" in config.getoption("markexpr") and _is_slow(collection_path):
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_slow(item.path):
            item.add_marker(pytest.mark.slow)


def _is_slow(path: Path) -> bool:
    return path.is_relative_to(_TESTS) and path.relative_to(_TESTS).as_posix() in SLOW_MODULES
