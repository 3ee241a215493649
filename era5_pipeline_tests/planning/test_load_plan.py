"""Plans of loads: sums, states of months, measured and documented rates, and warnings."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import netCDF4
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month, month_range, spans
from era5_pipeline.model.settings import read_settings
from era5_pipeline.model.variables import BY_SHORT_NAME, DEFAULT_VARIABLES, find_variables, in_table_order
from era5_pipeline.planning import estimates
from era5_pipeline.planning.current_contents import CurrentContents, DiskSpace
from era5_pipeline.planning.estimates import measured_rates
from era5_pipeline.planning.extent import Load, Size
from era5_pipeline.planning.load_plan import TO_LOAD, make_plan
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.ledger_entry import Addition, LedgerEntry, LedgerFile
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import MonthSpace, Space, read_space
from era5_pipeline_tests.commands import assert_says
from era5_pipeline_tests.ledgers import column_facts, contents_of
from era5_pipeline_tests.samples import unpacked

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.model.settings import SourceName
    from era5_pipeline.planning.load_plan import Plan
    from era5_pipeline_tests.flat_months import FlatMonths

NOW = datetime(2026, 11, 21, tzinfo=UTC)
JAVA = Area(-5.0, 106.0, -7.5, 108.5)  # 11 x 11 points
ALL = "t2m,u10,v10,tcc,tp,sf"


def variables_of(names: str) -> Any:
    return in_table_order(BY_SHORT_NAME[name].column for name in names.split(","))


def load_of(first: str, last: str | None = None, source: SourceName = "cds", **more: Any) -> Load:
    return Load(tuple(month_range(Month.parse(first), Month.parse(last or first))), source, **more)


def plan_of(
    load: Load, *entries: LedgerEntry, disks: DiskSpace | None = None, now: datetime = NOW, **held: Any
) -> Plan:
    by_month = tuple(map(contents_of, entries))
    return make_plan(load, CurrentContents(by_month, **held), disks or DiskSpace(), now=now, available_after_days=6)


def entry_of(month: str, names: str = ALL, **more: Any) -> LedgerEntry:
    """A ledger entry of a month of Java, loaded from the source cds, final."""
    hours = Month.parse(month).hours
    values = hours * 121
    expver = {variable.column: {"0001": hours} for variable in variables_of(names)}
    entry = LedgerEntry(
        month=Month.parse(month),
        state="loaded",
        rows=values,
        part=1,
        location_ids=LocationSet.of_area(JAVA),
        is_cut=False,
        hours=hours,
        hours_expected=hours,
        missing_hours={},
        source="cds",
        area=str(JAVA),
        expver=expver,
        columns=tuple(column_facts(column, values=values) for column in expver),
        files=(),
        warnings=(),
        raw_bytes=values * len(expver) * 2,
        flat_bytes=values * 10,
        seconds={"raw": 1800.0, "flat": values / 1e6, "load": values / 5e5},
        software_versions={},
        fingerprint="f",
        loaded_at=NOW,
        flat_file=LedgerFile("flat.parquet", 1, "x"),
        has_summaries=True,
    )
    return replace(entry, **more)


months = st.builds(Month, st.integers(1940, 2025), st.integers(1, 12))
areas = st.builds(
    lambda south, north, west, width: Area(max(south, north) / 4, west / 4, min(south, north) / 4, (west + width) / 4),
    st.integers(-360, 360),
    st.integers(-360, 360),
    st.integers(-720, 719),
    st.integers(0, 700),
)
some_variables = st.sets(st.sampled_from(DEFAULT_VARIABLES), min_size=1).map(
    lambda chosen: in_table_order(variable.column for variable in chosen)
)
SOURCES: tuple[SourceName, ...] = ("cds", "arco", "files", "sample")


@st.composite
def loads(draw: st.DrawFn) -> Load:
    first, count = draw(months), draw(st.integers(1, 30))
    last = min(first.number + count, Month(2025, 12).number)
    source = draw(st.sampled_from(SOURCES))
    return Load(
        tuple(month_range(first, Month.from_number(last))),
        source,
        draw(some_variables),
        draw(areas),
        hours_at_most=draw(st.none() | st.integers(1, 744)) if source == "sample" else None,
    )


def test_a_plan_of_all_of_era5() -> None:
    plan = plan_of(load_of("1940-01", "2024-12"), layout="columnstore")
    size = plan.size
    # 85 years of which 22 are leap years.
    assert size.hours == (85 * 365 + 22) * 24 == 745_128
    assert (len(plan.to_load), size.requests) == (1020, 1020)
    assert size.rows == 745_128 * 1_038_240 == 773_621_694_720
    assert size.fields == 6 * 745_128
    # Rain and snow begin at 07:00 of the first day.
    assert size.values == 6 * size.rows - 2 * 7 * 1_038_240
    assert plan.largest.fields == 744 * 6
    value = plan.to_json()
    assert (value["months"], value["months_to_load"], value["first_to_load"]) == (1020, 1020, "1940-01")
    assert 11.5 <= value["parquet_bytes"] / size.rows <= 21.5
    assert 16 <= value["table_bytes"] / size.rows <= 21
    assert value["table_bytes"] == value["table_bytes_in_columnstore"]
    # Between the ZIP of smooth fields and values that do not compress at all.
    assert 5.7e9 / 772_450_560 < value["download_bytes"] / size.rows < 4 * 6
    assert value["hours"]["all_but_raw"] == pytest.approx((size.rows / measured_rates().load + 1020) / 3600)
    assert value["hours"]["all"] == pytest.approx(value["hours"]["raw"] + value["hours"]["all_but_raw"])


def test_months_of_a_small_area_are_requested_together() -> None:
    plan = plan_of(load_of("1940-01", "2024-12", area=JAVA))
    assert (len(plan.to_load), plan.size.requests) == (1020, 340)
    assert plan.to_json()["fields_of_largest_request"] == 3 * 4464
    # Only where all months of a part of the year are loaded, and none may be preliminary.
    assert plan_of(load_of("2020-02", "2020-08", area=JAVA)).size.requests == 2 + 1 + 2
    assert plan_of(load_of("2020-04", "2020-06", area=JAVA), entry_of("2020-05")).size.requests == 2
    late = plan_of(load_of("2020-04", "2020-06", area=JAVA), now=datetime(2020, 9, 1, tzinfo=UTC))
    assert (late.size.requests, late.to_json()["fields_of_largest_request"]) == (3, 4464)


@given(loads())
def test_a_plan_is_the_sum_of_its_months(load: Load) -> None:
    whole = plan_of(load, layout="partitions")
    parts = [plan_of(replace(load, months=(month,)), layout="partitions") for month in load.months]
    alone = sum((part.size for part in parts), Size())
    assert whole.size == replace(alone, requests=whole.size.requests)
    # A request may be for several months.
    most = whole.load.months_a_request
    assert alone.requests / most <= whole.size.requests <= alone.requests
    for name in ("download", "raw", "parquet", "table"):
        total = sum(getattr(part.bytes, name).value for part in parts)
        assert getattr(whole.bytes, name).value == pytest.approx(total)
    assert whole.seconds.load.value == pytest.approx(sum(part.seconds.load.value for part in parts))
    assert whole.bytes.columnstore == pytest.approx(sum(part.bytes.columnstore for part in parts))


@given(loads())
def test_counts_follow_from_hours_variables_and_locations(load: Load) -> None:
    for month in load.months:
        size = load.size_of(month)
        hours = min(load.hours_at_most or 744, month.hours)
        assert size.fields == len(load.variables) * hours
        assert size.rows == size.hours * load.locations
        assert size.values <= size.rows * len(load.variables)
        assert size.requests == (load.source == "cds")
        if month > Month(1940, 1):
            assert size.hours == hours
            assert size.values == size.fields * load.locations


@given(loads(), st.integers(0, 29))
def test_fewer_months_take_less(load: Load, fewer: int) -> None:
    shorter = replace(load, months=load.months[: max(1, len(load.months) - fewer)])
    more, less = plan_of(load).to_json(), plan_of(shorter).to_json()
    for name in ("fields", "rows", "values", "download_bytes", "parquet_bytes", "table_bytes"):
        assert less[name] <= more[name]
    # The months of a part of the year of which one is left out are requested one at a time.
    assert less["requests"] < more["requests"] + max(1, load.months_a_request)
    assert less["hours"]["all_but_raw"] <= more["hours"]["all_but_raw"]


@given(loads())
def test_rows_and_bytes_grow_with_the_area(load: Load) -> None:
    around = replace(load, area=Area.parse("global"))
    ratio = ERA5_GRID.locations / load.locations
    assert plan_of(around).size.rows == pytest.approx(plan_of(load).size.rows * ratio)
    here, there = plan_of(load).bytes, plan_of(around).bytes
    assert there.table.value == pytest.approx(here.table.value * ratio)
    if load.source == "arco":  # which downloads whole fields
        assert there.download.value == pytest.approx(here.download.value)


def test_accumulations_lack_the_first_seven_hours_of_1940() -> None:
    assert load_of("1940-01", variables=variables_of("tp")).size_of(Month(1940, 1)).hours == 744 - 7
    assert load_of("1940-01", variables=variables_of("t2m,tp")).size_of(Month(1940, 1)).hours == 744
    assert load_of("1940-01", source="sample", hours_at_most=5, variables=variables_of("sf")).size_of(
        Month(1940, 1)
    ) == Size(fields=5, files=1)


def test_settings_that_leave_variables_or_area_to_the_files() -> None:
    asked = (Month(2024, 1),)
    cds = Load.of(read_settings(source="cds"), asked)
    assert (cds.variables, cds.locations, cds.is_open) == (DEFAULT_VARIABLES, ERA5_GRID.locations, False)
    sample = Load.of(read_settings(source="sample", sample_hours=24), asked)
    assert (sample.locations, sample.size_of(asked[0]).hours, sample.is_open) == (121, 24, False)
    files = Load.of(read_settings(source="files", variables="t2m"), asked)
    assert (len(files.variables), files.any_variables, files.any_area) == (1, False, True)
    assert any("the files are not opened" in warning for warning in plan_of(files).warnings)
    both = read_settings(source="files", variables="t2m", area="10/0/0/10", sample_hours=24)
    assert not Load.of(both, asked).is_open
    assert Load.of(both, asked).size_of(asked[0]).hours == 744


def test_every_month_has_one_state() -> None:
    preliminary = {"temperature_2m": {"0001": 6, "0005": 738}}
    plan = plan_of(
        load_of("2026-01", "2027-01", area=JAVA),
        entry_of("2026-01"),
        entry_of("2026-02", expver=preliminary),
        entry_of("2026-03", state="incomplete"),
        entry_of("2026-04", source="arco"),
        entry_of("2026-05", "t2m,tp"),
        entry_of("2026-06", area=None),
        entry_of("2026-07", area="10/0/9/1", location_ids=LocationSet.of_area(Area.parse("10/0/9/1"))),
        entry_of("2026-08", area="-4.9/105.9/-7.6/108.6"),  # the same locations
        entry_of("2026-11", state="incomplete"),
    )
    assert {str(month): state for month, state in plan.states.items()} == {
        "2026-01": "loaded",
        "2026-02": "loaded",
        "2026-03": "incomplete",
        "2026-04": "other",
        "2026-05": "other",
        "2026-06": "other",
        "2026-07": "elsewhere",
        "2026-08": "loaded",
        "2026-09": "missing",
        "2026-10": "missing",
        "2026-11": "early",
        "2026-12": "future",
        "2027-01": "future",
    }
    assert plan.preliminary == (Month(2026, 2),)
    assert spans(plan.to_load) == "2026-03 to 2026-07, 2026-09 to 2026-10"
    assert plan.size.requests == 5  # three of the seven months are a part of the year that is requested together
    value = plan.to_json()
    held = ("loaded", "preliminary", "incomplete", "held_otherwise", "held_elsewhere")
    assert [value[f"months_{name}"] for name in held] == [3, 1, 1, 3, 1]
    assert [value[f"months_{name}"] for name in ("not_complete_yet", "not_begun", "to_load")] == [1, 2, 7]
    assert "2026-11 cannot be complete yet, and is not counted: load it from 2026-12-07 on" in plan.warnings
    assert any("2026-12 to 2027-01 have not begun" in text and "--to 2026-11" in text for text in plan.warnings)


@given(loads(), st.lists(months, unique=True), st.datetimes(datetime(1950, 1, 1), datetime(2030, 1, 1)))  # noqa: DTZ001
def test_the_states_of_all_months_add_up(load: Load, held: list[Month], now: datetime) -> None:
    plan = plan_of(load, *(entry_of(str(month)) for month in held), now=now.replace(tzinfo=UTC))
    value = plan.to_json()
    parts = ("loaded", "not_complete_yet", "not_begun", "to_load")
    assert sum(value[f"months_{name}"] for name in parts) == value["months"] == len(load.months)
    assert plan.size.hours == sum(load.size_of(m).hours for m, state in plan.states.items() if state in TO_LOAD)


def test_a_month_with_added_variables_is_loaded_by_each_of_its_loads_and_by_all_together() -> None:
    added = ("dewpoint_2m",)
    addition = Addition(added, "cds", None, "2", (), LedgerFile("flat", 1, ""), "2026-01-01T00:00:00+00:00")
    held = replace(entry_of("2023-01", f"{ALL},d2m"), additions=(addition,))
    assert held.first_columns == tuple(variable.column for variable in variables_of(ALL))

    def state_of(names: str, entry: LedgerEntry = held) -> str:
        load = load_of("2023-01", variables=variables_of(names), area=JAVA)
        return plan_of(load, entry).states[Month(2023, 1)]

    assert {state_of(names) for names in (ALL, "d2m", f"{ALL},d2m")} == {"loaded"}
    assert state_of("t2m,d2m") == "other"
    from_elsewhere = replace(held, additions=(replace(addition, source="arco"),))
    assert state_of("d2m", from_elsewhere) == "other"


def test_months_are_complete_some_days_after_their_end() -> None:
    october = load_of("2026-10")
    for day, state in ((31, "early"), (6, "early"), (7, "missing")):
        now = datetime(2026, 10 if day == 31 else 11, day, tzinfo=UTC)
        assert plan_of(october, now=now).states == {Month(2026, 10): state}
    # Generated months are always complete.
    assert plan_of(replace(october, source="sample"), now=datetime(2026, 10, 2, tzinfo=UTC)).size.hours == 744


def test_a_plan_with_an_unknown_ledger() -> None:
    plan = make_plan(
        load_of("2024-01", "2024-03"), CurrentContents(None, "no server"), DiskSpace(), now=NOW, available_after_days=6
    ).to_json()
    assert (plan["months_loaded"], plan["months_incomplete"], plan["loaded_not_known"]) == (None, None, "no server")
    assert (plan["months_to_load"], plan["layout"]) == (3, None)
    assert "the layout is not known" in plan["known_from"]["table_bytes"]


def test_measured_rates_take_precedence_over_documented_ones() -> None:
    held = [entry_of("2024-01"), entry_of("2024-02"), entry_of("2024-03", flat_bytes=0)]
    space = Space(months={entry.month: MonthSpace(entry.rows, 1, entry.rows * 50) for entry in held})
    load = load_of("2024-01", "2024-12", area=JAVA)
    plan = plan_of(load, *held, layout="partitions", space=space)
    size = plan.size
    assert size.requests == 3
    assert plan.bytes.download.value == pytest.approx(size.values * 2)
    assert_says(plan.bytes.download.known_from, "measured here on 3 months", "2 bytes a value")
    assert plan.bytes.parquet.value == pytest.approx(size.rows * 10)
    assert plan.bytes.parquet.known_from.startswith("measured here on 2 months")
    assert plan.bytes.table.value == pytest.approx(size.rows * 50)
    seconds = plan.seconds
    rates = measured_rates()
    # The ledger has no time of the comparison.
    of_rows = size.rows / 1e6 + size.rows / 5e5 + size.rows / rates.compare
    assert seconds.load.value == pytest.approx(of_rows + 9 * rates.record_seconds)
    assert_says(seconds.load.known_from, "measured here on 3 months", "0.3 million rows/s", "1 s a month")
    assert seconds.raw.value == pytest.approx(9 * 1800)
    assert_says(seconds.raw.known_from, "measured here on 3 months", "30.0 minutes a month", "queue")
    assert seconds.all == pytest.approx(9 * 1800 + seconds.load.value)


@pytest.mark.parametrize(
    "other",
    [
        {"source": "sample"},
        {"state": "incomplete"},
        {"columns": (column_facts("temperature_2m", values=1000),)},
        {"location_ids": LocationSet.of_ids(range(1, 13))},
    ],
    ids=str,
)
def test_months_that_are_not_comparable_measure_nothing(other: dict[str, Any]) -> None:
    entry = entry_of("2024-01", **other)
    space = Space(months={entry.month: MonthSpace(entry.rows, 1, entry.rows * 50)})
    plan = plan_of(load_of("2024-02", "2024-03", area=JAVA), entry, layout="partitions", space=space).to_json()
    texts = plan["known_from"].values()
    assert not any("measured here on" in text for text in texts)


def test_months_that_share_chunks_use_the_rate_of_the_whole_table() -> None:
    entry = entry_of("2024-01")
    space = Space(chunks=1, bytes=8000, rows=100, months={entry.month: MonthSpace(entry.rows, 2, None)})
    plan = plan_of(load_of("2024-02", area=JAVA), entry, layout="hypertable", space=space)
    assert plan.bytes.table.value == pytest.approx(80 * plan.size.rows)


def test_the_time_of_the_download_is_assumed_until_it_was_measured() -> None:
    plan = plan_of(load_of("2024-01", "2024-05"))
    # Five requests, two at once: three rounds.
    assert plan.seconds.raw.value == 3 * 30 * 60
    assert_says(plan.seconds.raw.known_from, "assumed until a month is measured", "30 minutes a request, 2 at once")
    arco = plan_of(load_of("2024-01", source="arco"))
    assert (arco.size.files, plan_of(load_of("2024-01", source="cds")).size.files) == (31, 2)
    assert arco.seconds.raw.value == pytest.approx(arco.bytes.download.value / 50e6)
    assert plan_of(load_of("2024-01", source="files")).seconds.raw.value == 0
    sample = plan_of(load_of("2024-01", source="sample"))
    assert sample.seconds.raw.value == pytest.approx(sample.size.rows / measured_rates().generate)


def test_months_that_do_not_arrive_one_by_one_are_planned_as_one_run() -> None:
    rates = measured_rates()

    def of_each_month(source: SourceName) -> float:
        plan = plan_of(load_of("1940-01", "1940-12", source=source, area=Area.parse("10.75/106.25/10.75/106.75")))
        return (plan.seconds.load.value - plan.size.rows / rates.load) / 12

    assert of_each_month("files") == pytest.approx(rates.series_seconds)
    assert of_each_month("cds") == pytest.approx(rates.record_seconds)


def test_a_plan_with_nothing_to_load_is_all_zero() -> None:
    plan = plan_of(load_of("2024-01", area=JAVA), entry_of("2024-01"), disks=DiskSpace(0, 0, is_one=True))
    value = plan.to_json()
    assert (value["months_loaded"], value["months_to_load"], value["first_to_load"]) == (1, 0, None)
    assert {value[n] for n in ("requests", "fields", "rows", "download_bytes", "parquet_bytes", "table_bytes")} == {0}
    assert (value["hours"]["all"], value["warnings"]) == (0, [])


def test_a_load_that_does_not_fit_on_the_disks_gets_warnings() -> None:
    load = load_of("2024-01", "2024-12")

    def warnings(home: float, table: float, *, is_one: bool) -> str:
        return "\n".join(plan_of(load, layout="partitions", disks=DiskSpace(int(home), int(table), is_one)).warnings)

    plan = plan_of(load, layout="partitions")
    home, table = plan.bytes.home, plan.bytes.table.value
    assert warnings(home + 1, table + 1, is_one=False) == ""
    assert warnings(home + table + 1, home + table + 1, is_one=True) == ""
    # Each would fit alone.
    shared = warnings(home + table - 1e9, home + table - 1e9, is_one=True)
    assert "raw and Parquet files and the table take" in shared
    assert "embedded server" not in shared
    small = warnings(home - 1e9, table - 1e9, is_one=False)
    assert "disk of ERA5_HOME" in small
    assert "those of one month take 26.0 GB" in small
    assert "disk of the embedded server" in small
    assert small.count("--area") == small.count("--variables") == 2
    assert plan_of(load, disks=DiskSpace()).warnings == ()


@pytest.mark.parametrize("names", ["t2m", "t2m,tp", "t2m,u10,v10", "t2m,u10,v10,tcc,tp", ALL])
def test_rows_outside_the_columnstore_take_the_estimated_bytes(
    names: str, database_url: str, flat_months: FlatMonths
) -> None:
    warehouse = Warehouse(database_url)
    load_month(warehouse, flat_months(points=(10, 20), names=tuple(names.split(","))))
    with warehouse.connect() as connection:
        measured = read_space(connection).bytes_per_row
    # The server extends files by up to half a megabyte in advance: less than 4 bytes a row here.
    assert 0 <= (measured or 0) - estimates.heap_bytes_per_row(find_variables(names)) < 5


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gulf-2023/era5_t2m_2023.zip", "instant"),
        ("delhi-2018-offgrid/delhi_weather_2018_01.nc", "instant"),
        ("telangana-2023-09/data_stream-oper_stepType-accum.nc", "accumulated"),
    ],
)
def test_real_files_are_not_larger_than_estimated(name: str, kind: str, era5_samples: Path, tmp_path: Path) -> None:
    (path,) = unpacked(era5_samples / name, tmp_path)
    with netCDF4.Dataset(path) as file:
        values = sum(variable.size for variable in file.variables.values() if variable.ndim == 3)
        files = math.ceil(file.dimensions["valid_time"].size / 744)
    size = Size(files=files, **{f"{kind}_values": values})
    estimated = estimates.estimate_bytes(load_of("2024-01"), size, (), None, None).raw.value
    assert path.stat().st_size <= estimated <= 2 * path.stat().st_size


def test_a_plan_of_a_place_is_one_request_for_all_months() -> None:
    place = ERA5_GRID.nearest_location(-6.25, 106.75)
    where = LocationSet.of_ids([place.location_id])
    five = variables_of("t2m,u10,v10,tcc,tp")
    load = load_of("1940-01", "2024-12", "point", variables=five, points=where, series_hours=761_664)
    plan = plan_of(load)
    assert (plan.size.requests, plan.size.rows, plan.load.locations) == (1, 745_128, 1)
    assert plan.bytes.download.value == 761_664 * (5 * 4 + 8)
    assert plan.seconds.raw.value == 2 * 60
    value = plan.to_json()
    assert (value["requests"], value["points"], value["area"]) == (1, "-6.25/106.75", None)
    assert value["fields_allowed_per_request"] is None

    of_place = entry_of(
        "1940-02", "t2m,u10,v10,tcc,tp", source="point", area=None, location_ids=where, rows=29 * 24, raw_bytes=1
    )
    elsewhere = replace(of_place, month=Month(1940, 3), location_ids=LocationSet.of_ids([1]))
    held = plan_of(load, of_place, elsewhere)
    assert held.months("loaded") == (Month(1940, 2),)
    assert (held.months("other"), held.months("elsewhere")) == ((), (Month(1940, 3),))
    assert plan_of(load_of("1940-02", source="point", variables=five, points=where), of_place).size.requests == 0
