"""Data that answer a request: generated weather in the store's layout, final or preliminary."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.dataset import ERA5, Dataset
from era5_pipeline.model.grid import Area
from era5_pipeline.model.variables import STEP_TYPES
from era5_pipeline.netcdf.cds_files import Axes, CdsFilePart, suffix_of, write_cds
from era5_pipeline.sources.sample import weather_blocks
from era5_pipeline.sources.sample_weather import SampleWeather
from era5_pipeline_tests.grib_files import Form, Message, encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.model.variables import StepType, Variable
    from era5_pipeline.netcdf.cds_files import Block

FINAL, PRELIMINARY = "0001", "0005"
_ACCUMULATIONS_BEGIN = datetime(1940, 1, 1, 7, tzinfo=UTC)
# Difference of the preliminary temperature from the final one.
PRELIMINARY_KELVIN = np.float32(0.5)


@dataclass(frozen=True)
class Availability:
    """The state of the data: the newest hour, the last final hour, and whether preliminary values differ."""

    newest: datetime
    final_until: datetime
    preliminary_differs: bool

    def expver(self, hour: int, step_type: StepType) -> str:
        """The version of an hour (since 1970). Accumulations of the last final forecast extend past midnight."""
        late = timedelta(0) if step_type == "instant" else timedelta(hours=7)
        return FINAL if _time(hour) <= self.final_until + late else PRELIMINARY


def _time(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * 3600, tz=UTC)


def _hour(time: datetime) -> int:
    return int(time.timestamp()) // 3600


def fields_of(inputs: dict[str, Any]) -> int:
    """The number of fields that the request costs; days that the month lacks are counted too."""
    return int(np.prod([len(inputs[name]) for name in ("variable", "year", "month", "day", "time")]))


def hours_of(inputs: dict[str, Any]) -> range:
    """The hours of a request for the first days of a month, all days of several months, or a day or its last hour."""
    (year,) = map(int, inputs["year"])
    months = sorted(map(int, inputs["month"]))
    assert months == list(range(months[0], months[-1] + 1)), "only consecutive months are produced"
    first = _hour(datetime(year, months[0], 1, tzinfo=UTC))
    end = _hour(datetime(year + months[-1] // 12, months[-1] % 12 + 1, 1, tzinfo=UTC))
    if len(inputs["day"]) == 1:
        first += 24 * (int(inputs["day"][0]) - 1)
        return range(first + 23 if inputs["time"] == ["23:00"] else first, first + 24)
    assert sorted(inputs["time"]) == [f"{hour:02d}:00" for hour in range(24)], "only whole days are produced"
    if len(months) > 1:
        assert len(inputs["day"]) == 31, "only whole months are produced together"
        return range(first, end)
    return range(first, min(end, first + 24 * len(inputs["day"])))


def produce(
    inputs: dict[str, Any], availability: Availability, folder: Path, number: int, dataset: Dataset = ERA5
) -> Path:
    """Write the file that answers a request into `folder`; each `number` gives other bytes."""
    assert inputs.get("product_type") == (None if dataset.cds_product_type is None else [dataset.cds_product_type])
    asked = hours_of(inputs)
    hours = range(asked.start, min(asked.stop, _hour(availability.newest) + 1))
    by_cds_name = {variable.cds_name: variable for variable in dataset.catalogue.variables}
    wanted = dataset.catalogue.in_table_order(by_cds_name[name].column for name in inputs["variable"])
    axes = Axes.of(Area(*(float(text) for text in inputs.get("area", (90, -180, -90, 180))), grid=dataset.grid))
    if dataset.accumulation == "hour":
        parts = tuple(_parts(wanted, hours, availability))
        variables = [variable for part in parts for variable in part.variables]
        blocks = _blocks(axes, hours, availability, variables)
    else:
        # Everything is of forecasts, and so in one file.
        expver = tuple(availability.expver(hour, "instant") for hour in hours)
        parts = (CdsFilePart("instant", wanted, hours, expver),)
        blocks = weather_blocks(axes, hours, wanted, dataset)
    if inputs.get("data_format") == ["grib"]:
        assert dataset == ERA5, "GRIB is produced of ERA5 alone"
        return _write_grib(folder / f"{number}.grib", parts, axes, blocks)
    target = folder / f"{number}{suffix_of(parts)}"
    attributes = {"Conventions": "CF-1.7", "title": "Generated, not ERA5", "history": f"made as number {number}"}
    write_cds(target, parts, axes, attributes, blocks)
    return target


def _write_grib(target: Path, parts: Sequence[CdsFilePart], axes: Axes, blocks: Iterable[Block]) -> Path:
    """One file with all messages, hour by hour, as the archive writes them: edition 1, 16 bits."""
    with target.open("wb") as file:
        for block, fields in blocks:
            for part in parts:
                for variable in part.variables:
                    for number, hour in enumerate(block):
                        if hour not in part.hours:
                            continue
                        instant = part.step_type == "instant"
                        version = part.expver[part.hours.index(hour)] if part.expver else FINAL
                        values = fields[variable.column][number].astype(np.float64)
                        message = Message(
                            *(variable.param_id, hour, axes.latitudes, axes.longitudes, values, version),
                            *(None if instant else (5, 6), part.step_type),
                        )
                        file.write(encoded(message, Form(bits=16)))
    return target


def _parts(variables: Sequence[Variable], hours: range, availability: Availability) -> Iterator[CdsFilePart]:
    for step_type in STEP_TYPES:
        alike: tuple[Variable, ...] = tuple(v for v in variables if v.file_step_type == step_type)
        begin = hours.start if step_type == "instant" else _hour(_ACCUMULATIONS_BEGIN)
        own = range(max(hours.start, begin), hours.stop)
        if alike and own:
            expver = tuple(availability.expver(hour, step_type) for hour in own)
            yield CdsFilePart(step_type, alike, own, expver)


def _blocks(axes: Axes, hours: range, availability: Availability, variables: list[Variable]) -> Iterator[Block]:
    weather = SampleWeather(axes.latitudes, axes.longitudes)
    for start in hours[:: weather.hours_at_once]:
        block = range(start, min(start + weather.hours_at_once, hours.stop))
        fields = weather.at(np.array(block, dtype=np.int64), variables)
        if availability.preliminary_differs:
            preliminary = [n for n, hour in enumerate(block) if availability.expver(hour, "instant") == PRELIMINARY]
            fields["temperature_2m"][preliminary] += PRELIMINARY_KELVIN
        yield block, fields


def damaged(path: Path) -> bytes:
    """The ZIP with one byte of a member's data changed."""
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    return bytes(content)


def zip_with_outside_members() -> bytes:
    """A ZIP with members that would be unpacked outside of its folder."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in ("../../evil.nc", "/tmp/evil.nc"):
            archive.writestr(name, b"CDF\x01" + bytes(100))
    return made.getvalue()


def zip_bomb(megabytes: int = 200) -> bytes:
    """A small ZIP with a member of the given number of megabytes of zeros."""
    made = io.BytesIO()
    entry = zipfile.ZipInfo("data.nc")
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(made, "w") as archive, archive.open(entry, "w", force_zip64=True) as member:
        zeros = bytes(1 << 20)
        for _ in range(megabytes):
            member.write(zeros)
    return made.getvalue()
