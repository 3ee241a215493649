from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.model.variables import DEFAULT_VARIABLES, VARIABLES, VariableChoice, find_variable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("ERA5_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_without_anything_set_there_are_defaults(tmp_path: Path) -> None:
    settings = read_settings()
    assert settings.home == tmp_path / ".era5"
    assert settings.source_name == "cds"
    assert settings.format == "parquet"
    assert settings.files_dirs == ()
    assert settings.wanted_variables is None
    assert settings.wanted_area is None


def test_the_environment_wins_over_the_file_and_arguments_over_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("ERA5_AREA=1/2/0/3\nERA5_SAMPLE_HOURS=5\nERA5_FORMAT=csv\nOTHER=1\n")
    monkeypatch.setenv("ERA5_SAMPLE_HOURS", "6")
    monkeypatch.setenv("ERA5_FORMAT", "parquet")
    settings = read_settings(format="csv", area=None)
    assert (settings.area, settings.sample_hours, settings.format) == ("1/2/0/3", 6, "csv")


def test_every_change_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings().source_name == read_settings().source_name == "cds"
    for text in ("ERA5_SOURCE=sample\n", "ERA5_SOURCE=arco\n"):
        (tmp_path / ".env").write_text(text)
        assert read_settings().source_name == text.strip().partition("=")[2]
    assert read_settings(source="sample").source_name == "sample"
    monkeypatch.setenv("ERA5_SOURCE", "cds")
    assert read_settings().source_name == "cds"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert read_settings().home == tmp_path / "other" / ".era5"
    monkeypatch.setenv("ERA5_HOME", "~/era5")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_settings().home == tmp_path / "era5"
    # The folder of a process that runs for long may be removed.
    (tmp_path / "other").rmdir()
    assert read_settings(source="sample").home == tmp_path / "era5"


def test_an_empty_setting_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AREA", "SOURCE", "SAMPLE_HOURS", "DATABASE_URL", "FILES_DIR", "HOME"):
        monkeypatch.setenv(f"ERA5_{name}", "")
    assert read_settings() == Settings()


def test_a_folder_of_files_means_the_source_files(tmp_path: Path) -> None:
    settings = read_settings(files_dir=os.pathsep.join(["here", "~/there", str(tmp_path / "abs")]))
    assert settings.source_name == "files"
    assert settings.files_dirs[0] == tmp_path / "here"
    assert settings.files_dirs[2] == tmp_path / "abs"
    assert all(folder.is_absolute() and "~" not in str(folder) for folder in settings.files_dirs)
    assert read_settings(files_dir="here", source="sample").source_name == "sample"


def test_variables_and_area_are_parsed() -> None:
    settings = read_settings(variables="tp, 2m_temperature,snowfall", area="10/20/0/30")
    assert settings.wanted_variables is not None
    assert [variable.short_name for variable in settings.wanted_variables] == ["t2m", "tp", "sf"]
    assert settings.wanted_area == Area(10, 20, 0, 30)


def test_a_list_is_open_with_default_or_all_unless_it_is_strict() -> None:
    def choice(variables: str | None, **values: Any) -> VariableChoice | None:
        return read_settings(source="files", variables=variables, **values).variable_choice

    dewpoint = frozenset({"dewpoint_2m"})
    assert choice(None) is None
    assert choice(None, strict_variables=True) == VariableChoice(DEFAULT_VARIABLES)
    assert choice("d2m") == VariableChoice((find_variable("d2m"),), dewpoint)
    assert choice("d2m,default") == VariableChoice((*DEFAULT_VARIABLES, find_variable("d2m")), dewpoint, is_open=True)
    assert choice("all, d2m") == VariableChoice(VARIABLES, dewpoint, is_open=True)
    assert choice("all", strict_variables=True) == VariableChoice(VARIABLES)


@pytest.mark.parametrize("source", ["cds", "arco", "sample", "point"])
def test_all_is_refused_of_a_source_that_is_not_of_own_files(source: str) -> None:
    with pytest.raises(UsageError, match=f"the source {source} has every variable") as raised:
        _ = read_settings(source=source, variables="all").wanted_variables
    assert "--variables default,u100,v100" in raised.value.remedy


def test_an_invalid_setting_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ERA5_SAMPLE_HOURS", "hunter2")
    monkeypatch.setenv("ERA5_FORMAT", "hunter3")
    with pytest.raises(UsageError) as raised:
        read_settings()
    assert "ERA5_SAMPLE_HOURS" in str(raised.value)
    assert "ERA5_FORMAT" in str(raised.value)
    assert "hunter" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("name", "value"), [("SAMPLE_HOURS", "0"), ("SAMPLE_HOURS", "745"), ("LOCK_TIMEOUT_SECONDS", "-1")]
)
def test_numbers_out_of_range_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"ERA5_{name}", value)
    with pytest.raises(UsageError, match=f"ERA5_{name}"):
        read_settings()


def test_passwords_appear_in_no_text_of_the_settings() -> None:
    settings = read_settings(database_url="postgresql://me:hunter2@host/db")
    assert "hunter2" not in repr(settings)
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value().endswith("hunter2@host/db")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ERA5_AERA", "ERA5_AREA"),
        ("ERA5_SOURC", "ERA5_SOURCE"),
        ("era5_forcee", "ERA5_FORCE"),
        ("ERA5_ARE", "ERA5_AREA"),
    ],
)
@pytest.mark.parametrize("where", ["environment", "file"])
def test_a_misspelt_setting_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, meant: str, where: str
) -> None:
    if where == "file":
        (tmp_path / ".env").write_text(f"{name}=1/2/0/3\n")
    else:
        monkeypatch.setenv(name, "1/2/0/3")
    with pytest.raises(UsageError, match=f"{name.upper()} is not a setting") as caught:
        read_settings()
    assert f"Did you mean {meant}?" in caught.value.remedy


@pytest.mark.parametrize("name", ["ERA5_URL", "ERA5_DATA", "ERA5_TEST_DSN", "ERA5_SAMPLES", "MY_ERA5_AREAS"])
def test_variables_of_other_programs_are_ignored(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    assert read_settings().area is None


def test_areas_and_points_are_those_of_the_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings().wanted_dataset == ERA5
    monkeypatch.setenv("ERA5_DATASET", "ERA5_Land")
    chosen = read_settings(area="10/9.9/9.9/10")
    assert (chosen.dataset, chosen.wanted_dataset) == ("era5-land", ERA5_LAND)
    assert chosen.wanted_area == Area(10.0, 9.9, 9.9, 10.0, grid=ERA5_LAND.grid)
    assert chosen.wanted_locations == LocationSet.of_area(Area.parse("10/9.9/9.9/10", ERA5_LAND.grid))
    of_points = read_settings(point="9.918/9.94", source="point")
    assert [str(point) for point in of_points.wanted_points] == ["9.9/9.9"]
    assert of_points.wanted_locations == LocationSet.of_location(ERA5_LAND.grid.nearest_location(9.9, 9.9))
    monkeypatch.setenv("ERA5_DATASET", "era6")
    with pytest.raises(UsageError, match="ERA5_DATASET: Input should be era5 or era5-land"):
        read_settings()


def test_a_point_selects_the_source_of_points_unless_another_is_named() -> None:
    chosen = read_settings(point="-6.2/106.8 0/0")
    assert chosen.source_name == "point"
    assert [str(point) for point in chosen.wanted_points] == ["-6.25/106.75", "0/0"]
    assert str(chosen.wanted_locations) == str(
        LocationSet.of_ids([point.location_id for point in chosen.wanted_points])
    )
    other = read_settings(point="-6.2/106.8", source="cds", area="-5/106/-8/108")
    assert (other.source_name, other.wanted_points) == ("cds", ())
    assert other.wanted_locations == LocationSet.of_area(Area.parse("-5/106/-8/108"))
    assert read_settings(source="cds").wanted_locations is None


def test_a_source_of_points_needs_one_and_takes_no_area() -> None:
    with pytest.raises(UsageError, match="needs a point"):
        _ = read_settings(source="point").wanted_locations
    with pytest.raises(UsageError, match="an area is given too"):
        _ = read_settings(point="1/2", area="3/1/0/4").wanted_points
    assert read_settings(point="1/2", area="global").wanted_points
