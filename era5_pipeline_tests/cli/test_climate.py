"""`era5 climate`: what it prints in each form, and what it refuses."""

from __future__ import annotations

import csv
import io
import json

import pytest

from era5_pipeline.cli.climate import print_answer
from era5_pipeline.climate.tables import answer_as_json
from era5_pipeline_tests.climate.answers import answer_to, fill_with_hours, warming_hours
from era5_pipeline_tests.climate_answers import answer_of, made_hours
from era5_pipeline_tests.commands import InProcess, assert_explained
from era5_pipeline_tests.weather_table import FIJI, JAKARTA

HERE = ("climate", "--lat", "-6.25", "--lon", "106.75")


@pytest.fixture(scope="module")
def made(shared_database_url: str) -> str:
    """A table with 26 years at Jakarta, of which June 2010 is missing, and a day at Fiji."""
    hours = warming_hours("1990-01-01T00", "2015-12-31T23")
    hours = hours[~((hours.index >= "2010-06-01T00Z") & (hours.index < "2010-07-01T00Z"))]
    fill_with_hours(shared_database_url, {JAKARTA: hours, FIJI[0]: hours.iloc[:24]})
    return shared_database_url


@pytest.fixture
def here(here: InProcess, made: str) -> InProcess:
    here.set(ERA5_DATABASE_URL=made)
    return here


def test_generated_data_are_named_before_anything_else_and_nothing_is_concluded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = answer_of(made_hours(range(1991, 2024), rising=0.2), name="Jakarta, Indonesia", sources={"sample": 396})
    begin = "Generated sample data, not ERA5"
    print_answer(answer, "table", None)
    printed = capsys.readouterr().out
    assert printed.startswith(
        f"{begin}: these numbers say nothing about the real weather. Jakarta, Indonesia: whether "
    )
    for word in ("warmer over", "significant", "excludes zero", " *\n", "ERA5 is a reanalysis", "ERA5 itself"):
        assert word not in printed
    print_answer(answer, "json", None)
    value = json.loads(capsys.readouterr().out)
    assert next(iter(value)) == "notice"
    assert value["notice"].startswith(begin)
    assert value["is_significant"] is None
    print_answer(answer, "csv", None)
    captured = capsys.readouterr()
    assert captured.err.startswith(begin)
    assert captured.out.startswith("year,")
    # Not for real data.
    real = answer_of(made_hours(range(1991, 2024), rising=0.2))
    print_answer(real, "table", None)
    uncertain = "What ERA5 itself is uncertain of: docs/climate.md#what-era5-itself-is-uncertain-of"
    assert uncertain in capsys.readouterr().out.splitlines()
    print_answer(real, "json", None)
    value = json.loads(capsys.readouterr().out)
    assert "notice" not in value
    assert value["is_significant"] is True
    assert (value["preliminary_share"], value["unknown_share"]) == (None, 1.0)


def test_no_word_is_lost_in_a_terminal_of_80_columns(here: InProcess) -> None:
    wide = here.run(*HERE).out
    here.set(COLUMNS="80")
    printed = here.run(*HERE).out
    tables = [block for block in printed.split("\n\n") if "───" in block]
    assert "…" not in printed
    assert len(tables) >= 2
    # Above a table is its title, a sentence. Without room for a table, each row is a paragraph.
    assert max(len(line) for block in tables for line in block.splitlines()[1:]) <= 80
    # The same words, some of them headings that are repeated or folded.
    assert {word.strip(":") for word in wide.split() if "─" not in word} <= {
        word.strip(":") for word in printed.split()
    }


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_summary_begins_with_the_answer_and_says_what_it_rests_on(here: InProcess) -> None:
    printed = here.run(*HERE)
    lines = printed.out.splitlines()
    assert lines[0].startswith("6.25 S 106.75 E is 0.")
    assert "degC per decade warmer over 1990-2015" in lines[0]
    assert "95 % interval" in lines[0]
    assert "location_id 483547" in lines[1]
    assert "baseline 1991-2020 (24 of 30 years complete)" in lines[1]
    text = " ".join(printed.out.split())
    for words in (
        *("Trends per decade", "mean temperature", "Theil-Sen", "Mean of each month of the year", "Records"),
        *("hottest hour", "wettest day", "Years: --table yearly prints all, incomplete ones have a *"),
        "2010 is incomplete (temperature, precipitation, wind): left out of anomalies, normals, and trends of",
        "2010 has no indices, such as counts of days (temperature, precipitation): more than 15 days of the year lack",
        *("Days, months and years are in UTC.", "28 km", "not the reading of a station"),
    ):
        assert words in text
    assert any(line.startswith("2010*") for line in lines)
    assert not any(line.startswith("2000") for line in lines)  # in the middle
    assert printed.err == "warning: no data for 2010-06\n"


def test_csv_is_one_table_with_all_rows(here: InProcess) -> None:
    printed = here.run(*HERE, "--format", "csv")
    years = rows_of(printed.out)
    assert [row["year"] for row in years] == [str(year) for year in range(1990, 2016)]
    assert years[20]["temperature_complete"] == "False"
    assert years[20]["temperature_anomaly"] == ""
    # June is missing.
    assert (years[20]["temperature_whole_days"], years[20]["hot_days"]) == ("335", "")
    assert years[19]["temperature_whole_days"] == "365"
    assert years[19]["hot_days"].isdigit()
    assert "location_id 483547" in printed.err
    months = rows_of(here.run(*HERE, "--format", "csv", "--table", "monthly").out)
    assert len(months) == 26 * 12
    assert months[0]["month"] == "1990-01-01"
    days = rows_of(here.run(*HERE, "--from", "1992", "--to", "1992-02", "--format", "csv", "--table", "daily").out)
    assert [days[0]["date"], days[-1]["date"], len(days)] == ["1992-01-01", "1992-02-29", 60]
    records = rows_of(here.run(*HERE, "--format", "csv", "--table", "records").out)
    assert {row["unit"] for row in records} == {"degC", "mm", "m/s"}
    seasons = rows_of(here.run(*HERE, "--format", "csv", "--table", "seasons").out)
    assert [row["month"] for row in seasons] == [str(month) for month in range(1, 13)]


def test_json_has_all_of_the_answer(here: InProcess) -> None:
    found = here.run(*HERE, "--json").json()
    assert found["sentence"] == here.run(*HERE).out.splitlines()[0]
    assert found["place"]["location_id"] == 483547
    assert found["place"]["asked"] == [-6.25, 106.75]
    assert found["period"] == {"first": "1990-01-01T00:00Z", "last": "2015-12-31T23:00Z"}
    assert found["days"]["utc_offset_minutes"] == 0
    assert found["baseline"] == {
        "years": "1991-2020",
        "complete_years": 24,
        "is_used": True,
        "note": None,
    }
    assert found["missing_months"] == {"temperature": ["2010-06"], "wind": ["2010-06"], "precipitation": ["2010-06"]}
    assert (len(found["yearly"]), len(found["monthly"]), len(found["seasons"])) == (26, 312, 12)
    assert found["yearly"][20]["temperature_anomaly"] is None
    assert found["units"]["precipitation"] == "mm"
    assert "daily" not in found
    assert any("2010 is incomplete" in note for note in found["notes"])
    short = here.run(*HERE, "--from", "1992", "--to", "1992", "--json", "--table", "daily").json()
    assert len(short["daily"]) == 366
    assert short["yearly"][0]["temperature_anomaly"] is not None


def test_another_table_is_printed_whole(here: InProcess) -> None:
    expected = [str(year) for year in range(1990, 2016)]
    # Where it is too wide, each year is a paragraph.
    for columns in ("400", "100"):
        here.set(COLUMNS=columns)
        lines = here.run(*HERE, "--table", "yearly").out.splitlines()
        years = [words[0] for line in lines if (words := line.split()) and words[0] in expected]
        assert list(dict.fromkeys(years)) == expected  # a note begins with a year, too
        assert sum(line.count("True") + line.count("False") for line in lines) >= len(expected)


def test_a_place_is_asked_by_its_name(here: InProcess) -> None:
    by_name = here.run("climate", "--place", "Jakarta", "--days", "local", "--json").json()
    assert by_name["sentence"].startswith("Jakarta, Indonesia is 0.")
    assert by_name["days"]["utc_offset_minutes"] == 420
    assert by_name["yearly"] == here.run(*HERE, "--days", "local", "--json").json()["yearly"]


def test_strict_makes_missing_months_exit_code_4(here: InProcess) -> None:
    strict = here.run(*HERE, "--format", "csv", "--strict", code=4)
    assert strict.out == here.run(*HERE, "--format", "csv").out
    here.run(*HERE, "--to", "2009", "--format", "csv", "--strict")


@pytest.mark.parametrize(
    ("arguments", "what", "remedy"),
    [
        ((), "no place is given", "Give --place NAME"),
        (("--lat", "1", "--lon", "1", "--area", "1/1/0/2"), "a place and --area cannot be combined", "one of them"),
        (("--area", "1/1/0/2", "--days", "local"), "no time zone of its own", "--utc-offset"),
        ((*HERE[1:], "--days", "utc", "--utc-offset", "7"), "cannot be combined", "one of them"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_asked_is_refused_before_a_database_is_needed(
    here: InProcess, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], what: str, remedy: str
) -> None:
    monkeypatch.delenv("ERA5_DATABASE_URL")
    assert_explained(here.run("climate", *arguments, code=2), what, remedy)


def test_an_area_that_is_not_loaded_says_how_to_load_it(here: InProcess) -> None:
    printed = here.run("climate", "--area", "50/8/49/9", code=3)
    assert_explained(printed, "area 50/8/49/9: the table has no data there", "era5 load --from YYYY-MM --area")


def test_json_has_no_number_that_is_none() -> None:
    # NaN and infinity are not JSON; the command writes with allow_nan=False, which would fail.
    value = answer_as_json(answer_to(warming_hours("2020-01-01T00", "2021-06-30T23")), with_days=True)
    assert json.loads(json.dumps(value, allow_nan=False))["yearly"][0]["temperature_anomaly"] is None
