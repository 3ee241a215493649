"""Signs in a file of its data set, and of the period that its accumulations cover.

Files of ERA5-Land look like those of ERA5, and nothing in them says that their accumulations run since 00 UTC: steps of
GRIB are written as if they were of an hour. So the data set is told first, by what each sign stands for, and its
accumulations follow from it; only some services have taken them apart before.

Does not judge whether values are hourly: `refusals` does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.dataset import DATASETS, ERA5, ERA5_LAND, Accumulation, Dataset
from era5_pipeline.model.grid import TOLERANCE_DEGREES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

# Names in texts of files, in names of files, members of archives and stores; DOIs. The first that matches counts.
_NAMES: tuple[tuple[re.Pattern[str], Dataset, Accumulation], ...] = (
    # Point series, and ECMWF's Zarr stores behind them, have amounts of hours.
    (re.compile(r"reanalysis[-_]era5[-_]land[-_]timeseries|10\.24381/ee82e357"), ERA5_LAND, "hour"),
    (re.compile(r"reanalysis_era5_land/sfc-"), ERA5_LAND, "hour"),
    # Also the hourly store of the Earth Data Hub, reanalysis-era5-land-no-antartica.
    (re.compile(r"reanalysis-era5-land|10\.24381/cds\.e2161bac"), ERA5_LAND, "day"),
    (
        re.compile(r"reanalysis-era5-(single-levels|complete)(?!-monthly)|10\.24381/cds\.adbb2d47"),
        ERA5,
        "hour",
    ),
)
# ECMWF's archive, MARS, has each data set in a class.
_CLASSES = {"ea": ERA5, "l5": ERA5_LAND}
GRID_STEPS = ("GRIB_iDirectionIncrementInDegrees", "GRIB_jDirectionIncrementInDegrees")
_TYPES = {"an": "analysis", "fc": "forecast"}


@dataclass(frozen=True)
class Sign:
    """The data set and accumulation that a text or number in a file stands for; `evidence` names it."""

    dataset: Dataset
    accumulation: Accumulation
    evidence: str


@dataclass(frozen=True)
class Told:
    """The data set and accumulation by all signs of a file; None: not stated, or the signs contradict each other."""

    dataset: Dataset | None
    accumulation: Accumulation | None
    signs: tuple[Sign, ...]


def class_of(dataset: Dataset) -> str | None:
    """The data set's class in ECMWF's archive."""
    return next((name for name, one in _CLASSES.items() if one == dataset), None)


def named_in(text: str) -> Sign | None:
    """The data set that a text names, by its id at the Climate Data Store, its DOI or a store's name."""
    for pattern, dataset, accumulation in _NAMES:
        if match := pattern.search(text):
            return Sign(dataset, accumulation, match[0])
    return None


def told_by(
    attributes: Mapping[str, Any],
    of_file: Mapping[str, Any],
    shown: str,
    column: str | None = None,
    axes: Iterable[npt.NDArray[np.float64]] = (),
) -> Told:
    """Recognise the data set of a variable in a file, and the period that its accumulations cover, by their signs.

    `attributes` are the variable's, `shown` is the name of the file and of its member, `column` that of the catalogues,
    `axes` its latitudes and longitudes in degrees.
    """
    signs = (*_in_texts(of_file, shown), *_of_archive(attributes, column), *_of_grid(attributes, axes))
    if len({sign.dataset.name for sign in signs}) != 1:
        return Told(None, None, signs)
    dataset = signs[0].dataset
    # Who takes accumulations apart says so by a name; all else stays as in the data set's own files.
    apart = (sign.accumulation for sign in signs if sign.accumulation != dataset.accumulation)
    return Told(dataset, next(apart, dataset.accumulation), signs)


def _in_texts(of_file: Mapping[str, Any], shown: str) -> Iterator[Sign]:
    texts = {"name": shown} | {str(name): text for name, text in of_file.items() if isinstance(text, str)}
    for name, text in texts.items():
        if (found := named_in(text)) is not None:
            yield Sign(found.dataset, found.accumulation, f"{found.evidence} in its {name}")


def _of_archive(attributes: Mapping[str, Any], column: str | None) -> Iterator[Sign]:
    """Class and type, which GRIB has and cfgrib writes: near the ground, ERA5 has analyses, ERA5-Land forecasts."""
    if (found := _CLASSES.get(str(attributes.get("GRIB_class")))) is not None:
        yield _usual(found, f"GRIB_class {attributes['GRIB_class']}")
    kind = _TYPES.get(str(attributes.get("GRIB_dataType")))
    holders = [dataset for dataset in DATASETS.values() if column in dataset.catalogue.by_column]
    having = [dataset for dataset in holders if column is not None and _kind(dataset, column) == kind]
    if len(holders) > 1 and len(having) == 1:
        yield _usual(having[0], f"GRIB_dataType {attributes['GRIB_dataType']}")


def _kind(dataset: Dataset, column: str) -> str:
    """Return `analysis` or `forecast`, from which the data set has the variable."""
    first = dataset.catalogue.by_column[column].first_valid
    return next(kind for kind, time in dataset.first_valid.items() if time == first)


def _of_grid(attributes: Mapping[str, Any], axes: Iterable[npt.NDArray[np.float64]]) -> Iterator[Sign]:
    """The distance of its points, as stated and as they are: also of points that the store has interpolated."""
    for name in GRID_STEPS:
        try:
            step = float(attributes.get(name, np.nan))
        except (TypeError, ValueError):
            continue
        if (found := _with_step(np.array([step]))) is not None:
            yield _usual(found, f"{name} {step:g}")
    for degrees in axes:
        if (found := _with_step(np.abs(np.diff(degrees)))) is not None:
            yield _usual(found, f"points {found.grid.step_degrees:g} degrees apart")


def _with_step(steps: npt.NDArray[np.float64]) -> Dataset | None:
    for dataset in DATASETS.values():
        if steps.size and (np.abs(steps - dataset.grid.step_degrees) <= TOLERANCE_DEGREES).all():
            return dataset
    return None


def _usual(dataset: Dataset, evidence: str) -> Sign:
    return Sign(dataset, dataset.accumulation, evidence)
