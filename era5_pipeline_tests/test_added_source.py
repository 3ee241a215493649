"""A source that is added in the test: its entry in the table and its folder are all that it needs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from era5_pipeline import sources
from era5_pipeline.cli.folder_files import FolderReport
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.source_kinds import SOURCE_KINDS, SourceKind
from era5_pipeline.planning.current_contents import read_current_contents, read_disk_space, unchanged_months
from era5_pipeline.planning.extent import Load
from era5_pipeline.planning.load_plan import make_plan
from era5_pipeline.planning.updates import require_updatable_source
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.read.credit import SAMPLE_CREDIT, read_credit
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.warehouse.loads import rows_in

if TYPE_CHECKING:
    from pathlib import Path

JULY = Month(2023, 7)
MODULE = '''
"""The source `constant`: every value is 280 K, at four points."""

import numpy as np

from era5_pipeline.model.variables import find_variable
from era5_pipeline.runtime.files import replacing, sha256_of
from era5_pipeline.sources.source import RawFile, RawMonth, Source
from era5_pipeline_tests import era5_files


class ConstantSource(Source):
    name = "constant"

    def __init__(self, settings, request):
        self.folder, self.request = settings.home / "raw" / self.name, request

    def fetch(self, month, together=()):
        folder = self.folder / str(month)
        if not folder.exists():
            hours = era5_files.hours_from(f"{month}-01T00", month.hours)
            era5_files.write(folder, era5_files.weather(hours, names=("t2m",)))
        files = tuple(RawFile(p, sha256_of(p), p.stat().st_size) for p in sorted(folder.rglob("*")) if p.is_file())
        return RawMonth(month, self.name, files, ("temperature_2m",), self.request.area_text)

    known = fetch

    def record_completeness(self, raw, *, is_complete):
        pass

    def invalidate(self, raw):
        pass


def open_source(settings, request, say):
    return ConstantSource(settings, request)
'''


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceKind:
    """The source `constant`, in the table and in a module of its own."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "constant.py").write_text(MODULE)
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(folder)])
    kind = SourceKind("constant", is_generated=True, default_area="10.5/20/10/20.75", raw_stage="make up")
    monkeypatch.setitem(SOURCE_KINDS, kind.name, kind)
    return kind


@pytest.mark.usefixtures("added")
def test_an_added_source_loads_a_month_is_planned_and_is_credited(tmp_path: Path, database_url: str) -> None:
    settings = Settings(
        _env_file=None, home=tmp_path / "home", source="constant", variables="t2m", database_url=database_url
    )
    warehouse = Warehouse(database_url)
    source_of(settings).request_ahead((JULY,))  # it has no queue
    assert all(outcome.passed for outcome in run_raw(settings, JULY).outcomes)
    assert all(outcome.passed for outcome in run_flat(settings, JULY).outcomes)
    loaded = run_load(settings, warehouse, JULY)
    assert all(outcome.passed for outcome in loaded.outcomes)
    assert loaded.flat.raw.source == "constant"
    assert_holds(warehouse, loaded.flat)
    assert rows_in(warehouse) == loaded.flat.rows > 0
    assert unchanged_months(settings, warehouse, (JULY,)) == {JULY}
    assert FolderReport.of(settings, []).use.passed_over == ()
    with warehouse.connect() as connection:
        assert read_credit(connection, None, None) == SAMPLE_CREDIT
    plan = make_plan(
        Load.of(settings, [JULY]),
        read_current_contents(settings),
        read_disk_space(settings),
        now=datetime(2023, 7, 10, tzinfo=UTC),
        available_after_days=6,
    )
    assert plan.load.locations == 12
    assert plan.months("loaded") == (JULY,)
    assert plan.size.requests == 0


@pytest.mark.usefixtures("added")
def test_an_added_source_that_is_no_service_cannot_be_updated(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="source constant does not publish new months"):
        require_updatable_source(Settings(_env_file=None, home=tmp_path, source="constant"))
