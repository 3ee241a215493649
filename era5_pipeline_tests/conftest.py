"""Settings of hypothesis, and the marker `slow`. Plugins (servers, flat months, real files) are named one folder up."""

from __future__ import annotations

import os
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
        "bench/orchestration/test_orchestration_suite.py",  # a backfill, and another
        "defs/launchers/test_preloaded.py",  # a process that imports everything
        "query/climate_plots/test_anomaly_figure.py",  # pictures
        "query/climate_plots/test_drawn_years.py",  # the same
        "query/climate_plots/test_stripes_figure.py",  # the same
        "query/report/test_page_words.py",  # answers on thirty years
        "bench/asking/test_ask_suite.py",  # a table is loaded, and asked in processes
        "bench/reaching/test_reach_suite.py",  # a table is loaded, and served by a process
        "bench/test_suites.py",  # processes that start together
        "flat/cluster/test_dask_client.py",  # Dask clusters are started
        "flat/cluster/test_remote_tiles.py",  # Dask clusters are started and killed
        "flat/cluster/test_tile_tasks.py",  # Dask clusters are started and killed
        "defs/watching/test_alerts.py",  # the daemon, whose sensors turn every 30 s
        "defs/watching/test_freshness.py",  # the daemon, whose sensors turn every 30 s
        "bench/methods/test_methods.py",  # a database for each way to load
        "bench/runner/test_throwaway_server.py",  # data folders are created
        "cli/test_bench.py",  # runs that are interrupted and killed
        "flat/test_flatten.py",  # every layout of files in many tilings, a globe, real files: half of all the time
        "flat/test_merge.py",  # thousands of overlapping files
        "flat/test_tiles.py",  # tilings of the globe
        "netcdf/test_declared.py",  # processes with little memory, and a series of 200 MB
        "netcdf/test_heaps.py",  # files that end only when a process is killed
        "netcdf/test_point_csv.py",  # a file for each example
        "postgres/embedded/test_embedded_server.py",  # data folders are created
        "postgres/test_tls.py",  # a server with a certificate of its own
        "cli/test_climate.py",  # 26 years of hours
        "query/climate/test_indices.py",  # imports xclim
        "query/climate/test_make_answer.py",  # decades of hours
        "query/climate/test_trends.py",  # imports statsmodels
        "query/climate/reading/test_read_climate.py",  # 90 months are loaded
        "query/api/test_open_database.py",  # a server is started, and processes that import
        "query/api/test_python_page.py",  # a notebook runs
        "query/maps/test_cell_trends.py",  # many trends of places
        "query/export/test_export_pieces.py",  # hundreds of boxes, cut and covered
        "query/plots/test_coverage_plots.py",  # pictures
        "query/animation/test_frame_painter.py",  # pictures
        "query/animation/test_make_animation.py",  # pictures
        "query/plots/projections/test_nearest_cells.py",  # pixels of the globe
        "query/plots/projections/test_projected_map.py",  # pictures of the globe
        "query/plots/test_map_plots.py",  # pictures
        "query/plots/test_series_plots.py",  # pictures
        "query/climate_plots/test_climate_picture.py",  # pictures
        "query/report/test_page_in_chromium.py",  # a browser
        "query/report/test_report_page.py",  # pages of decades of hours
        "query/test_plots.py",  # pictures of the globe
        "runtime/store/test_object_store.py",  # S3 servers that are stopped, connections that are cut
        "runtime/test_supervisor.py",  # processes that are started and killed
        "runtime/store/test_depot.py",  # an S3 server
        "sources/files/test_bucket_files.py",  # an S3 server
        "sources/arco/test_arco_source.py",  # a Zarr store of the globe
        "sources/cds/test_request_files.py",  # an S3 server
        "sources/point/test_point_source.py",  # a server makes series of 86 years
        "sources/cds/test_cds_source.py",  # waits for a server between requests
        "test_docker.py",  # an image is built
        "test_wheel.py",  # an environment is made
    }
)
_TESTS = Path(__file__).parent
# Homes of tests are not noted among the user's: nothing can be created there.
os.environ["XDG_STATE_HOME"] = os.devnull


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
