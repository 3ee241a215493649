"""Settings of hypothesis, and the markers `slow` and `endurance`. Plugins (servers, ...) are named one folder up."""

from __future__ import annotations

import gc
import os
import signal
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from era5_pipeline.stages import load_in_advance

if TYPE_CHECKING:
    from collections.abc import Iterator

# Runs in the network of a cluster: docker/kubernetes/try.
collect_ignore = [] if os.environ.get("ERA5_TEST_KUBERNETES") else ["test_kubernetes_cluster.py"]

# No deadline: how long an example takes depends on the machine's other work. In CI every run uses the same examples, so
# that a change is judged by what it changed; on a desk each run uses new ones, which finds bugs.
settings.register_profile("era5", deadline=None, max_examples=40)
settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
# For `make test-quick`, chosen by --hypothesis-profile.
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("ci" if "CI" in os.environ else "era5")

# Modules that take several seconds though they need no server (pytest --durations=60 -m "not server").
SLOW_MODULES = frozenset(
    {
        "cli/test_backfill_killed.py",  # backfills, whose daemon turns every 30 s
        "cli/test_services_killed.py",  # the same
        "cli/test_web_ui.py",  # a backfill, whose daemon turns every 30 s
        "benchmarks/test_orchestration.py",  # a backfill, and another
        "benchmarks/test_anywhere.py",  # loads in processes, from a store that answers late
        "cli/test_load_icechunk.py",  # loads that are interrupted and killed
        "serving/test_fetch.py",  # loads in processes of a server
        "defs/test_months_ahead.py",  # processes that prepare months
        "defs/instance/test_preloaded.py",  # a process that imports everything
        "draw/test_climate_years.py",  # pictures
        "draw/test_climate_axes.py",  # the same
        "report/test_words.py",  # answers on thirty years
        "benchmarks/test_asking.py",  # a table is loaded, and asked in processes
        "benchmarks/test_reaching.py",  # a table is loaded, and served by a process
        "benchmarks/test_suites.py",  # processes that start together
        "flat/test_cluster.py",  # Dask clusters are started
        "defs/test_sensors.py",  # the daemon, whose sensors turn every 30 s
        "benchmarks/test_methods.py",  # a database for each way to load
        "benchmarks/test_servers.py",  # data folders are created
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
        "climate/test_cells.py",  # many trends of places
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
        "runtime/test_shared_libraries.py",  # a process for each order of imports
        "sources/test_files_catalogue.py",  # an S3 server
        "sources/zarr/test_store.py",  # the same
        "sources/test_arco.py",  # a Zarr store of the globe
        "sources/cds/test_note.py",  # an S3 server
        "sources/test_point.py",  # a server makes series of 86 years
        "sources/cds/test_source.py",  # waits for a server between requests
        "test_docker.py",  # an image is built
        "test_wheel.py",  # an environment is made
    }
)
# Modules and tests of minutes, which `make test` leaves out and `make test-endurance` runs, each with the tests of
# seconds that require the same of a part. A single case of a test may have the mark where its parameters are.
ENDURANCE = {
    # Backfills, whose daemon turns every 30 s. A service that is killed: runtime/test_supervisor; a run that is:
    # test_open_instance, test_lost_runs and test_run_launcher in defs/instance; a server: test_storage there.
    "cli/test_backfill_killed.py",
    "cli/test_services_killed.py",
    # A backfill in Chromium. Requests of other sites: runtime/test_http; runs that are launched by the UI: cli/test_up.
    "cli/test_web_ui.py",
    # `era5 up` once more. Stages, their failures and metadata: defs/test_assets, defs/test_runner.
    "cli/test_up.py::test_runs_of_era5_load_are_executed_again_from_the_ui",
    # 79 months, twice, by the installed wheel. Real months: cli/test_load, and defs/test_assets. What the wheel holds:
    # test_wheel.
    "cli/test_demo.py",
    # The daemon's turns. The sensors by themselves: defs/test_alerts, defs/test_freshness.
    "defs/test_sensors.py",
    # A backfill. Counting and results: benchmarks/test_run, benchmarks/test_results.
    "benchmarks/test_orchestration.py",
    # Whole suites. Each way to load: benchmarks/test_methods. Those of the layouts and of the limit remain. What the
    # report makes of the committed results: benchmarks/test_report.
    "benchmarks/test_suites.py::test_all_ways_on_a_server",
    "benchmarks/test_suites.py::test_other_suites_with_tiny_loads_and_the_report_of_them",
    "benchmarks/test_suites.py::test_pipeline",
    # Two suites of processes. Their figures: the other tests of these modules; cells: benchmarks/test_run.
    "benchmarks/test_asking.py::test_questions_on_a_small_table",
    "benchmarks/test_reaching.py::test_each_way_reads_a_small_table",
    # Benchmarks that are killed. Interrupted: test_an_interrupted_run_leaves_nothing_but_its_results_and_goes_on.
    "cli/test_bench.py::test_a_killed_run_leaves_no_server_of_its_own_after_the_next",
    "cli/test_bench.py::test_a_server_that_dies_in_the_middle_is_reported_and_leaves_valid_results",
    # A server that ends while a load of a process waits. In this process: warehouse/test_load_faults.
    "cli/test_load_interrupted.py::test_a_load_that_waits_for_a_server_that_is_gone_ends_at_an_interrupt",
    # Kills at other moments. Once: test_after_kill_9_of_the_server_the_next_lease_restarts_it, and of a lease holder.
    "postgres/embedded/test_server.py::test_repeated_leases_immediately_after_kill_9",
    "postgres/embedded/test_server.py::test_after_kill_9_of_the_process_that_starts_the_server",
    "postgres/embedded/test_server.py::test_after_kill_9_of_the_process_that_creates_the_data_folder",
    "postgres/embedded/test_server.py::test_a_killed_server_whose_process_number_is_in_use_is_restarted",
    # Workers that are all killed. One that is: test_a_month_is_complete_although_a_worker_was_killed_in_the_middle.
    "flat/test_cluster.py::test_a_month_fails_when_all_workers_are_gone_and_waits_for_one_that_comes_late",
    "flat/test_cluster.py::test_a_tile_that_kills_every_worker_is_not_tried_for_ever",
    # Processes on a store of objects. On a folder, with the same calls: their cases [folder].
    "flat/test_storage.py::test_a_machine_that_is_killed_leaves_a_month_that_another_finishes[s3]",
    "flat/test_storage.py::test_two_processes_on_one_month_do_not_harm_each_other[s3]",
    # Dask and a lake on S3. Each of them: test_each_place_has_the_trend_of_the_scalar_program, lake/test_months.
    "climate/test_everywhere.py::test_the_command_reads_a_lake_on_s3_by_workers_of_dask",
    # 13,000 fields. A month of them: sources/cds/test_source, test_a_month_as_grib_has_the_same_values.
    "sources/cds/test_months_together.py::test_months_requested_together_are_files_of_a_month[grib]",
    # The globe in little memory. Its values: test_every_value_of_a_real_file_is_in_the_table_unchanged.
    "flat/test_flatten.py::test_the_globe_is_flattened_within_two_gibibytes",
    # Kills at chosen moments: test_a_killed_load_of_a_part_leaves_the_month_as_it_was, and the other tests of
    # warehouse/test_load_faults.
    "warehouse/test_parts.py::test_areas_deliveries_and_a_revision_live_together_through_kills",
    "warehouse/test_load_faults.py::test_rows_and_ledger_agree_at_whatever_moment_the_server_crashes",
    # A month of GRIB, three times. A damaged ZIP: test_a_damaged_zip_is_requested_again_once; GRIB: netcdf/test_grib.
    "sources/cds/test_source.py::test_a_grib_that_is_cut_off_is_requested_again_once",
    # A lake of 1,020 months. Of three: test_the_three_questions.
    "lake/test_engines.py::test_the_three_questions_of_85_years",
    # Another column. Temperature on Dask, and precipitation in the warehouse: its other cases.
    "climate/test_everywhere.py::test_each_place_has_the_trend_of_the_scalar_program[dask-total_precipitation]",
    # Seasons and months as well. One: test_a_map_and_a_table_are_written.
    "climate/test_everywhere.py::test_all_parts_of_the_year_are_saved_and_saved_again",
    # Interrupts and kills in turn. One: cli/test_options; loaders that are killed: warehouse/test_load_faults.
    "cli/test_load_interrupted.py::test_interrupted_and_killed_loads_leave_nothing_behind",
    # Processes of seconds. A service that is killed: runtime/test_supervisor, postgres/embedded/test_server.
    "cli/test_serve.py::test_the_embedded_server_is_started_and_started_again_when_it_is_killed",
    # The end of processes, twice. The values of this file: netcdf/test_grib.
    "cli/test_load.py::test_a_process_that_has_read_grib_ends_well",
    # A benchmark that is killed. Interrupted: test_an_interrupted_run_leaves_nothing_but_its_results_and_goes_on.
    "cli/test_bench.py::test_a_killed_run_leaves_valid_results_and_the_next_one_cleans_up",
    # A load of which nobody reads the output. A killed one: test_killed_load_continues_the_request_for_several_months.
    "cli/test_revise.py::test_load_continues_after_its_output_is_closed",
    # Dagster's own commands. The definitions: the other tests of this module; launched months: cli/test_up.
    "test_definitions.py::test_dg_check_passes",
    "test_definitions.py::test_dg_launches_a_month",
    # Forty damaged files. Chosen damage: test_compressed_values_with_damage_are_refused_or_equal.
    "netcdf/test_heaps.py::test_damage_anywhere_ends_in_bounded_time",
    # Thirty real years in a browser. Other pages: the other tests of this module.
    "report/test_page_in_chromium.py::test_thirty_real_years_in_pictures",
}
_ENDURANCE_MODULES = {entry.partition("::")[0] for entry in ENDURANCE}
_TESTS = Path(__file__).parent
# Under nohup, or started with & by a script, this process and its children would ignore these signals; tests send them.
# (A `preexec_fn` for each child would have the pages of this process, some gigabyte, mapped once more.)
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)
# Homes of tests are not noted among the user's: nothing can be created there.
os.environ["XDG_STATE_HOME"] = os.devnull
# The collector's default, at every 700 new objects, took 8 % of a worker's CPU; this takes 4 %.
gc.set_threshold(20_000, 20, 50)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Divide among the workers of xdist what each would do for all of them, when they begin together.

    In a fresh clone rewriting the assertions takes 12 s of CPU, and compiling functions 8 s.
    """
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if worker is None or workers == 1 or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    number = int(worker.removeprefix("gw"))
    if number == 0:
        load_in_advance()
        return
    for path in sorted(_TESTS.rglob("test_*.py"))[number - 1 :: workers - 1]:
        if not pytest_ignore_collect(path, session.config):
            with suppress(Exception, pytest.skip.Exception):  # the collection imports it again, and says what is wrong
                import_module(".".join(path.relative_to(_TESTS.parent).with_suffix("").parts))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what is left out: importing a module costs more than many tests."""
    expression, name = config.getoption("markexpr"), _name(collection_path)
    left_out = (
        ("not slow" in expression and name in SLOW_MODULES)
        or ("not endurance" in expression and name in ENDURANCE)
        or (expression == "endurance" and name.endswith(".py") and not _has_endurance(collection_path))
    )
    return True if left_out else None


def _has_endurance(path: Path) -> bool:
    """Return True if a test of the module is marked `endurance`: by the list ENDURANCE, or where it is defined."""
    return _name(path) in _ENDURANCE_MODULES or "mark.endurance" in path.read_text(encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        module = _name(item.path)
        if module in SLOW_MODULES:
            item.add_marker(pytest.mark.slow)
        if {module, f"{module}::{item.name.partition('[')[0]}", f"{module}::{item.name}"} & ENDURANCE:
            item.add_marker(pytest.mark.endurance)
    yield  # to `servers.py`, which marks the tests that need one, and to pytest, which leaves out what -m does not name
    # The slow modules first: workers of xdist, which take module after module, then end together.
    on_servers = {item.path for item in items if item.get_closest_marker("server")}
    items.sort(key=lambda item: (item.get_closest_marker("slow") is None, item.path not in on_servers))


@pytest.fixture(scope="session", autouse=True)
def _compiled_functions() -> Iterator[None]:
    """Use compiled functions for small months too; not with NUMBA_DISABLE_JIT=1."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("era5_pipeline.runtime.compiled._LOADING_SECONDS", -1.0)
        yield


def pytest_collection_finish() -> None:
    """Let the garbage collector ignore modules and tests, which stay to the end: it took a third of a worker's CPU."""
    gc.collect()
    gc.freeze()


def _name(path: Path) -> str:
    """The path below the folder of tests; empty for others."""
    return path.relative_to(_TESTS).as_posix() if path.is_relative_to(_TESTS) else ""
