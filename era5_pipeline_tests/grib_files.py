"""GRIB files written for tests with ecCodes: any edition, order of the scan, packing and attributes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.netcdf.grib import ec_codes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

eccodes = ec_codes()
MISSING = 9999.0


@dataclass(frozen=True)
class Form:
    """How messages are written. `scan` has the flags east first, south first, by columns, every second line back."""

    edition: int = 1
    bits: int = 24
    packing: str = "grid_simple"
    scan: tuple[bool, bool, bool, bool] = (False, False, False, False)
    keys: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """A field (latitude, longitude) at an hour since 1970, north and west first, NaN where there is none.

    `step` is the range of forecast hours whose end is the hour, None for an analysis.
    """

    param: int
    hour: int
    latitudes: Floats
    longitudes: Floats
    values: Floats
    expver: str = "0001"
    step: tuple[int, int] | None = None
    step_type: str = "accum"


def encoded(message: Message, form: Form) -> bytes:
    """The message in GRIB."""
    with _handle(message, form) as handle:
        return bytes(eccodes.codes_get_message(handle))


@contextmanager
def _handle(message: Message, form: Form) -> Iterator[int]:
    handle = eccodes.codes_grib_new_from_samples(f"regular_ll_sfc_grib{form.edition}")
    try:
        for name, value in _keys(message, form).items():
            eccodes.codes_set(handle, name, value)
        if np.isnan(message.values).any():
            eccodes.codes_set(handle, "bitmapPresent", 1)
            eccodes.codes_set(handle, "missingValue", MISSING)
        values = np.where(np.isnan(message.values), MISSING, message.values)
        eccodes.codes_set_values(handle, _scanned(values, form).astype(np.float64))
        for name, value in form.keys.items():
            eccodes.codes_set(handle, name, value)
        yield handle
    finally:
        eccodes.codes_release(handle)


def _keys(message: Message, form: Form) -> dict[str, Any]:
    east_first, south_first, by_columns, back = form.scan
    last = 0 if message.step is None else message.step[1]
    base = np.datetime64(message.hour - last, "h")
    east, north = message.longitudes[[0, -1]] % 360.0, message.latitudes[[0, -1]]
    forecast = {"dataType": "an"} if message.step is None else {"dataType": "fc", "stepType": message.step_type}
    steps = {} if message.step is None else dict(zip(("startStep", "endStep"), message.step, strict=True))
    return {
        "setLocalDefinition": 1,
        "localDefinitionNumber": 1,
        "class": "ea",
        "stream": "oper",
        "expver": message.expver,
        **forecast,
        "paramId": message.param,
        "dataDate": int(str(base.astype("datetime64[D]")).replace("-", "")),
        "dataTime": int(base.astype(np.int64)) % 24 * 100,
        **steps,
        "Ni": message.longitudes.size,
        "Nj": message.latitudes.size,
        "iScansNegatively": int(east_first),
        "jScansPositively": int(south_first),
        "jPointsAreConsecutive": int(by_columns),
        **({"alternativeRowScanning": int(back)} if form.edition == 2 else {}),
        "latitudeOfFirstGridPointInDegrees": north[1 if south_first else 0],
        "latitudeOfLastGridPointInDegrees": north[0 if south_first else 1],
        "longitudeOfFirstGridPointInDegrees": east[1 if east_first else 0],
        "longitudeOfLastGridPointInDegrees": east[0 if east_first else 1],
        "iDirectionIncrementInDegrees": 0.25,
        "jDirectionIncrementInDegrees": 0.25,
        "packingType": form.packing,
        "bitsPerValue": form.bits,
    }


def _scanned(values: Floats, form: Form) -> Floats:
    """The values one after another, in the order of the scan."""
    east_first, south_first, by_columns, back = form.scan
    values = values[:: -1 if south_first else 1, :: -1 if east_first else 1]
    lines = values.T.copy() if by_columns else values.copy()
    if back:
        lines[1::2] = lines[1::2, ::-1].copy()
    return lines.reshape(-1)


def half_step(values: Floats, form: Form) -> float:
    """Half the step between two packed numbers, a power of two; in edition 1 also what the least value is rounded by.

    Edition 1 writes the least value of a message with 24 bits and an exponent of 16; a constant message has no more.
    """
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0
    spread = float(finite.max() - finite.min())
    rounding = float(np.abs(finite).max()) * 2.0**-20 if form.edition == 1 else 0.0
    return rounding + (0.5 * 2.0 ** np.ceil(np.log2(spread / (2.0**form.bits - 1))) if spread else 0.0)


def together(path: Path, messages: list[Message], form: Form) -> Path:
    """Write fields into one message with several (edition 2 only)."""
    several = eccodes.codes_grib_multi_new()
    try:
        for message in messages:
            with _handle(message, form) as handle:
                # From the section of the product on; those before are the same.
                eccodes.codes_grib_multi_append(handle, 4, several)
        with path.open("wb") as file:
            eccodes.codes_grib_multi_write(several, file)
    finally:
        eccodes.codes_grib_multi_release(several)
    return path
