"""The page as a file: self-contained, small, escaped, and saying what it must."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline import __version__
from era5_pipeline.climate.answer import ClimatePlace
from era5_pipeline.climate.question import ClimateQuestion, DayChoice, Period
from era5_pipeline.climate.reading import read_climate
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.report.page import report_page, statements, write_page
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.climate.tamar import tamar_hours
from era5_pipeline_tests.climate_answers import (
    CREDIT,
    answer_of,
    made_hours,
    mekong_answer,
    mekong_hours,
    tamar_answer,
    tamar_years,
)

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.climate.answer import ClimateAnswer
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths


MOST_BYTES = 1_000_000
# Elements and attributes by which a page loads something, or runs it.
LOADING = {"script", "img", "link", "iframe", "object", "embed", "video", "audio", "source", "base", "form", "image"}
VOID = {"meta", "br", "hr"}


class Page(HTMLParser):
    """A page as a browser reads it: elements, attributes, and the text that a person sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        self.ids += [str(attributes["id"])] if "id" in attributes else []
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open and "svg" not in self._open:
            self._texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())


@pytest.fixture(scope="module")
def mekong_page() -> str:
    return report_page(mekong_answer())


def test_it_loads_nothing_and_runs_nothing(mekong_page: str) -> None:
    written = mekong_page
    page = Page(written)
    assert LOADING.isdisjoint(tag for tag, _ in page.elements)
    for tag, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes), tag
        for name in ("src", "srcset", "action", "background", "poster"):
            assert name not in attributes, tag
        if tag != "a" and attributes.get("href"):
            assert str(attributes["href"]).startswith("#")
    styles = "".join(re.findall(r"<style>(.*?)</style>", written, re.DOTALL))
    assert "url(" not in styles
    assert "@import" not in styles
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_it_is_small_whole_and_the_same_twice(mekong_page: str, tmp_path: Path) -> None:
    path = tmp_path / "pages" / "mekong.html"
    write_page(mekong_answer(), path)
    once = path.read_bytes()
    assert len(once) < MOST_BYTES
    assert mekong_page.encode("utf-8") == once
    assert [one.name for one in path.parent.iterdir()] == ["mekong.html"]
    page = Page(once.decode("utf-8"))
    assert len(page.ids) == len(set(page.ids))
    headings = [tag for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert headings.count("h1") == 1
    labelled = {
        name for _, attributes in page.elements for name in str(attributes.get("aria-labelledby") or "").split()
    }
    assert labelled
    assert labelled <= set(page.ids)
    # Every picture in both sizes but the map, each with a name.
    pictures = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert len(pictures) == 2 * 6 + 1
    assert all(attributes["role"] == "img" and attributes["aria-labelledby"] for attributes in pictures)


def test_five_years_are_said_to_be_no_climate(mekong_page: str) -> None:
    text = Page(mekong_page).text
    for wanted in (
        "Five complete years are not a climate",
        "not the reading of a station",
        "about 28 km",
        "UTC+07:00",
        CREDIT,
        "Neither the European Commission nor ECMWF is responsible",
        "CC BY 4.0",
        "doi:10.24381/cds.adbb2d47",
        "docs/climate.md#what-era5-itself-is-uncertain-of",
        "OpenStreetMap",
        "Natural Earth",
        f"era5-pipeline {__version__}",
        "location_id = 581465",
        "65 months, 47,472 hours; loaded from files; version not stated in the files; version unknown for "
        "100.0 % of the hours.",
    ):
        assert wanted in text, wanted
    assert "GeoNames" not in text
    assert "degC" not in text
    assert "nan" not in text.lower().split()


def test_records_are_those_of_the_file(mekong_page: str) -> None:
    """Against pandas on the same file: the hottest hour, and when it was in Vietnam."""
    text = Page(mekong_page).text
    local = mekong_hours()["temperature_2m"].tz_convert("Asia/Ho_Chi_Minh")
    hottest = f"Hottest hour {local.max():.1f} °C {local.idxmax():%Y-%m-%d %H:%M}"
    assert hottest in text


def test_a_long_record_is_answered_with_its_interval() -> None:
    written = report_page(answer_of(made_hours(range(1970, 2024)), name="Jakarta, Indonesia"))
    text = Page(written).text
    assert "Is Jakarta, Indonesia getting warmer?" in text
    assert "Yes. Jakarta, Indonesia became warmer by 0." in text
    assert "since 1979" in text
    assert "Place names: GeoNames (geonames.org), CC BY 4.0, changed: shortened." in text
    assert "not a climate" not in text
    assert len(written.encode()) < MOST_BYTES


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert('x')</script>\"><img src=x onerror=alert(1)> a & b \u00d1u\u00f1oa \u6771\u4eac",
        "\x00\ud800\u202e",
    ],
)
def test_any_name_of_a_place_is_text(name: str) -> None:
    answer = answer_of(made_hours([2001]), name=name)
    written = report_page(answer)
    page = Page(written)
    assert LOADING.isdisjoint(tag for tag, _ in page.elements)
    written.encode("utf-8")
    assert not any(attribute.startswith("on") for _, attributes in page.elements for attribute in attributes)
    if name.isprintable():
        assert f"Is {name} getting warmer?" in page.text


def test_another_title_replaces_the_question() -> None:
    hours = made_hours([2001])
    text = report_page(answer_of(hours[hours.index < "2001-01-20"]), "Near <Ho Chi Minh City>")
    assert "<title>Near &lt;Ho Chi Minh City&gt;</title>" in text
    assert "Is it getting warmer" not in text


def test_a_few_days_without_a_whole_month_still_give_a_page() -> None:
    hours = made_hours([2001])
    text = Page(report_page(answer_of(hours[hours.index < "2001-01-20"]))).text
    assert "No year is complete; a climate is the mean of at least 30 years" in text
    assert "No year is complete, so there is nothing to draw." in text
    assert "There are fewer than three other years" in text
    assert "No month is complete" in text


def test_precipitation_alone_gives_a_page_without_temperature() -> None:
    answer = answer_of(made_hours(range(1991, 2024))[["total_precipitation"]])
    text = Page(report_page(answer)).text
    assert "No answer yet." in text
    assert "Hot days" not in text
    assert "Rain and snow (as water) of each complete year" in text


@cache
def generated_answer() -> ClimateAnswer:
    """The answer of generated data, as many as would have a trend."""
    return answer_of(made_hours(range(2000, 2024)), sources={"sample": 288})


@pytest.mark.parametrize("title", [None, "Near Ho Chi Minh City"])
def test_generated_data_say_so_first_and_draw_no_conclusion(title: str | None) -> None:
    answer = generated_answer()
    assert answer.is_significant is None
    written = report_page(answer, title)
    text = Page(written).text
    assert "Neither the European Commission" not in text
    begin = "Generated sample data, not ERA5"
    heading = title or "Made-up weather for 10.75° N 106.25° E"
    assert f"<title>{begin}: {heading}</title>" in written
    header = re.search(r"<header>(.*?)</header>", written, re.DOTALL)
    assert header is not None
    assert Page(header[1]).text.startswith(f"{begin}, 2000-01-01 to 2023-12-31 {begin}: {heading} {begin}.")
    for word in ("warmer", "colder", "excludes zero", "includes zero", "significant"):
        # The legend of the stripes.
        assert word not in text.replace("if it was colder than", "").replace("red if it was warmer", ""), word
    captions = re.findall(r"<figcaption>([^<]*)", written)
    assert len(captions) >= 5
    assert all(caption.startswith(f"{begin}. ") for caption in captions if "red rectangle" not in caption)
    names = re.findall(r'<title id="(?!cell)[\w-]+-title">([^<]*)', written)
    assert len(names) >= 10
    assert all(name.startswith(f"{begin}: ") for name in names)
    # In both sizes of each picture.
    assert len(re.findall(r">generated, not ERA5</text>", written)) == len(names)


_TREND = (
    "Not clearly. The yearly mean temperature at Plymouth, United Kingdom changed by +0.20 °C per decade from 1994 to "
    "2023 (95 % interval \u22120.03 to +0.42). The interval includes zero: neither warming nor cooling is shown."
)
_OTHER_METHODS = "Theil-Sen's slope: +0.166."


def test_real_yearly_means_are_answered_with_their_trend() -> None:
    """The slopes are those of statsmodels and scipy: OLS 0.196, Theil-Sen 0.166."""
    text = Page(report_page(tamar_answer(tamar_years()))).text
    assert _TREND in text
    assert _OTHER_METHODS in text
    assert "not a climate" not in text
    for record in ("Warmest year 11.89 °C 2023", "Coldest year 9.69 °C 2010"):
        assert record in text


def test_thirty_real_years_are_answered_with_their_trend(tmp_path: Path) -> None:
    """All hours at the Tamar, where ERA5_SAMPLES has them: the trend of the means, and records of the hours."""
    hours = tamar_hours(tmp_path)
    written = report_page(tamar_answer(hours))
    text = Page(written).text
    assert len(written.encode()) < MOST_BYTES
    assert _TREND in text
    assert _OTHER_METHODS in text
    hottest = hours["temperature_2m"]
    assert f"Hottest hour {hottest.max():.1f} °C {hottest.idxmax():%Y-%m-%d %H:%M}" in text
    assert "2023, day by day" in text
    assert "the baseline 1994 to 2020" in text


# --- SQL on the page gives the page's numbers ---


@pytest.fixture(scope="module")
def polar(shared_warehouse: Warehouse, flat_months: FlatMonths) -> Warehouse:
    """Three months at the north pole, across the antimeridian."""
    for month, parallels in (("2023-06", 5), ("2023-07", 4), ("2023-08", 4)):
        load_month(shared_warehouse, flat_months(month, points=(parallels, 5), north=90.0, west=179.25))
    return shared_warehouse


def test_days_of_an_offset_are_cut_there_and_totals_belong_to_the_hour_before() -> None:
    (_, years), (_, days), (_, rain) = statements(mekong_answer())
    assert "(time AT TIME ZONE 'UTC' + interval '420 minutes')" in years
    assert "(time AT TIME ZONE 'UTC' + interval '420 minutes')::date AS day" in days
    assert "(time AT TIME ZONE 'UTC' + interval '360 minutes')" in rain
    for statement in (years, days, rain):
        assert "location_id = 581465" in statement
    assert "time >= '2019-12-31 17:00Z' AND time < '2025-06-01 17:00Z'" in years
    assert "time >= '2019-12-31 18:00Z' AND time < '2025-06-01 18:00Z'" in rain


def test_days_in_utc_have_no_offset() -> None:
    (_, years), _, (_, rain) = statements(answer_of(made_hours([2001])))
    assert "(time AT TIME ZONE 'UTC'))" in years
    assert "(time AT TIME ZONE 'UTC' - interval '60 minutes')" in rain


def test_without_precipitation_there_is_no_statement_of_it() -> None:
    assert len(statements(answer_of(made_hours([2001])[["temperature_2m"]]))) == 2


@pytest.mark.parametrize(
    ("area", "rows", "longitudes"),
    [
        (Area(26.5, 50.5, 24.5, 52.0), "659521 AND 672480", "longitude BETWEEN 50.5 AND 52"),
        (Area(26.6, 50.4, 24.4, 52.1), "659521 AND 672480", "longitude BETWEEN 50.5 AND 52"),
        (Area(-16.0, 177.0, -19.0, -178.0), "408961 AND 427680", "(longitude >= 177 OR longitude <= -178)"),
        (Area(1.0, -180.0, 0.0, -179.0), "518401 AND 525600", "(longitude >= 180 OR longitude <= -179)"),
        (Area(1.0, 179.0, 0.0, 180.0), "518401 AND 525600", "longitude BETWEEN 179 AND 180"),
        (Area(1.0, 300.0, 0.0, 310.0), "518401 AND 525600", "longitude BETWEEN -60 AND -50"),
        (Area(90.0, -180.0, -90.0, 180.0), "1 AND 1038240", ""),
    ],
)
def test_the_rows_of_an_area_are_found_by_their_numbers(area: Area, rows: str, longitudes: str) -> None:
    locations = LocationSet.of_area(area)
    answer = replace(answer_of(made_hours([2001])), place=ClimatePlace(None, None, None, area, None, None, locations))
    for _, statement in statements(answer):
        assert f"location_id BETWEEN {rows}" in statement
        assert (longitudes in statement) if longitudes else ("longitude" not in statement)
        assert "cosd(latitude)" in statement
        assert f"= {len(locations)}" in statement


@pytest.mark.parametrize(
    ("area", "period", "offset", "points"),
    [
        # July and August have these four parallels, June a fifth one, to the south.
        (Area(90.0, 179.25, 88.75, -179.5), Period(), 0, 20),
        (Area(90.0, 179.25, 89.5, 180.0), Period(), 90, 12),
        (Area(90.0, -180.0, 89.5, -179.75), Period(date(2023, 6, 10), date(2023, 7, 20)), 0, 6),
        (Area(89.75, 179.25, 89.5, -179.75), Period(date(2023, 7, 2), None), -210, 10),
    ],
)
def test_the_statements_give_the_pages_numbers_of_an_area_at_a_pole(
    polar: Warehouse, area: Area, period: Period, offset: int, points: int
) -> None:
    asked = ClimatePlace(None, None, None, area, None, None)
    with polar.connect() as connection:
        answer = read_climate(connection, ClimateQuestion(asked, period, days=DayChoice(offset)))
        assert answer.place.points == points
        (_, years), (_, days), (_, rain) = statements(answer)
        found = [connection.execute(statement).fetchall() for statement in (years, days, rain)]
    row = answer.yearly.loc[2023]
    for name, element, rows in (
        ("mean_temperature", "temperature", found[0]),
        ("precipitation", "precipitation", found[2]),
    ):
        assert [(year, hours) for year, _, hours in rows] == [(2023, row[f"{element}_hours"])]
        assert rows[0][1] == pytest.approx(row[name], rel=1e-9)
    daily = answer.daily[["mean_temperature", "min_temperature", "max_temperature"]].dropna()
    assert [day for day, *_ in found[1]] == [stamp.date() for stamp in daily.index]
    np.testing.assert_allclose([values for _, *values in found[1]], daily.to_numpy(), rtol=1e-9)
