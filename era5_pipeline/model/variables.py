"""Variables: the catalogue of each data set, their names, units, step types and bounds, and the order of columns."""

from __future__ import annotations

import csv
import difflib
import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Accumulations (totals), means and extremes cover the hour that ends at the valid time.
StepType = Literal["instant", "accum", "avg", "max", "min"]
STEP_TYPES: tuple[StepType, ...] = get_args(StepType)

# Where the data set has values: at every grid point; over the sea only, at the same points at all hours; only where and
# when the thing exists (a cloud has a base), so that a missing value means something; or over land only, at the same
# points at all hours, and its table has rows for no others.
Extent = Literal["everywhere", "sea", "sometimes", "land"]


@dataclass(frozen=True)
class Quantity:
    """A physical quantity: its units in files, the table's unit, and `table = file * scale + offset`.

    `quantum` is the greatest difference, in the unit of files, between two decodings of one field of GRIB.
    """

    file_units: tuple[str, ...]
    unit: str
    scale: float = 1.0
    offset: float = 0.0
    quantum: float = 0.0


@dataclass(frozen=True)
class Variable:
    """One variable. `stored = in_file * scale + offset`, computed in float64 and stored as float32.

    `minimum` and `maximum` are in the unit of the table. `cds_name` is the name in requests; `short_name` that in
    current files of the Climate Data Store (ecCodes' cfVarName), `long_name` ECMWF's, as in files, and `param_id` its
    number in ECMWF's parameter database. `other_names` are names in files from other services or earlier versions of
    the Climate Data Store; `ncar_name` is the name in monthly files of NSF NCAR's archive (dataset d633000), which has
    no hourly accumulations. `description` is in the table's comments. `first_valid` is its first valid time.
    `quantum` is how far two decodings of one value may differ, in the table's unit and beyond the rounding to float32;
    0: none is known, so they are the same number.
    """

    column: str
    cds_name: str
    short_name: str
    param_id: int
    long_name: str
    file_units: tuple[str, ...]
    step_type: StepType
    unit: str
    scale: float
    offset: float
    minimum: float
    maximum: float
    description: str
    extent: Extent
    first_valid: datetime
    ncar_name: str | None = None
    other_names: tuple[str, ...] = ()
    quantum: float = 0.0

    @property
    def file_step_type(self) -> StepType:
        """The step type by which the Climate Data Store splits variables into files: minima go with the maxima.

        Both are extremes since the last hour, which ERA5's GRIB edition 1 does not distinguish.
        """
        return "max" if self.step_type == "min" else self.step_type

    @property
    def is_never_negative(self) -> bool:
        """True for rain, downward radiation and the like: a value below zero is the rounding of packed numbers.

        The bound of those lies so little below zero; of fluxes in both directions, such as evaporation, a third of the
        other bound at least.
        """
        return self.step_type != "instant" and 0 <= -self.minimum <= self.maximum / 100

    def rounded(self, value: float) -> str:
        """Format a value for reading; -0.00 becomes 0.00. Small amounts, such as rates, get three digits.

        What is never negative is not below zero here.
        """
        value = max(value, 0.0) if self.is_never_negative else value
        greatest = max(abs(self.minimum), abs(self.maximum))
        if greatest < 1:
            return f"{value:.3g}"
        digits = 3 if self.unit in ("mm", "m3/m3") else 0 if greatest >= 1e5 else 2
        return f"{round(float(value), digits) + 0.0:.{digits}f}"

    @property
    def names_in_files(self) -> tuple[str, ...]:
        """Every name it may have in a file, the usual one first; ARCO-ERA5 and KrigR use the name in requests."""
        ncar = () if self.ncar_name is None else (self.ncar_name,)
        return tuple(dict.fromkeys((self.short_name, *ncar, *self.other_names, self.cds_name)))

    @property
    def checksum_scale(self) -> float:
        """The factor applied to values before rounding down and summing (`flat_month.checksum_of`), a power of two.

        The largest that keeps products within 2**29, so that 2**24 of them sum exactly in float64: below the spacing
        of float32 at the bounds. For bounds of 1 to 512 it is 2**20, as in months that are loaded.
        """
        greatest = max(abs(self.minimum), abs(self.maximum))
        return 2.0**20 if 1 <= greatest <= 512 else 2.0 ** (29 - math.ceil(math.log2(greatest)))


# --- The catalogues: `variables.csv` for ERA5, `variables_land.csv` for ERA5-Land, a line for each variable ---
#
# Requests, DDL, checks, plots and docs are all derived from them.
#
# To add a variable, add a line; its position there is its position in every list. Source: ECMWF's parameter database
# (names, numbers, units, as in ecCodes 2.50) and the documentation of ERA5 (request names, first times, grids). Bounds
# include every value of ERA5 (2 m temperature from about -90 to +58 degC), and half a step of 16-bit packing beyond
# zero.
#
# A line of ERA5-Land's without `param_id` is a variable of ERA5, by its column; it says what differs. Which of its
# variables begin with the analysis is what the Climate Data Store offers of 1950-01-01 00:00: 21 of the 50.


# ERA5 is archived as GRIB, whose packed numbers have steps. Decoded in two ways, a temperature differed by up to half a
# step, 2**-10 K: seen by others between Earthmover's store and ARCO-ERA5, of 2 m temperature (2026-11-27); the other
# temperatures are packed alike. Of other quantities no difference is known.
_TEMPERATURE_QUANTUM = 2.0**-10

# First the units of GRIB and current files, then those of other services and earlier versions.
QUANTITIES: dict[str, Quantity] = {
    "column_mass": Quantity(("kg m**-2", "kg m-2", "kg/m2", "kg/m^2"), "kg/m2"),
    "density": Quantity(("kg m**-3", "kg m-3", "kg/m3", "kg/m^3"), "kg/m3"),
    "energy": Quantity(("J m**-2", "J m-2", "J/m2", "J/m^2"), "J/m2"),
    "energy_flux": Quantity(("W m**-2", "W m-2", "W/m2", "W/m^2"), "W/m2"),
    "fraction": Quantity(("(0 - 1)", "(0-1)", "1"), "fraction"),
    "geopotential": Quantity(("m**2 s**-2", "m2 s-2", "m2/s2", "m^2/s^2"), "m2/s2"),
    "height": Quantity(("m",), "m"),
    "leaf_area": Quantity(("m**2 m**-2", "m2 m-2", "1"), "m2/m2"),
    "mass_flux": Quantity(("kg m**-2 s**-1", "kg m-2 s-1", "kg/m2/s", "kg/m^2/s"), "kg/m2/s"),
    "momentum": Quantity(("N m**-2 s", "N m-2 s", "N s m-2"), "N s/m2"),
    "number": Quantity(("Numeric", "~", "1", "dimensionless"), "1"),
    "percentage": Quantity(("%",), "%"),
    "pressure": Quantity(("Pa",), "hPa", scale=0.01),
    "soil_water": Quantity(("m**3 m**-3", "m3 m-3", "m3/m3", "m^3/m^3"), "m3/m3"),
    "specific_energy": Quantity(("J kg**-1", "J kg-1", "J/kg"), "J/kg"),
    "speed": Quantity(("m s**-1", "m s-1", "m/s"), "m/s"),
    "stress": Quantity(("N m**-2", "N m-2", "N/m2"), "N/m2"),
    "temperature": Quantity(("K",), "degC", offset=-273.15, quantum=_TEMPERATURE_QUANTUM),
    # An index computed from temperature differences.
    "temperature_index": Quantity(("K",), "K"),
    "vapour_flux": Quantity(("kg m**-1 s**-1", "kg m-1 s-1", "kg/m/s"), "kg/m/s"),
    "water_depth": Quantity(("m",), "mm", scale=1000.0),
    "water_equivalent": Quantity(("m of water equivalent",), "mm", scale=1000.0),
}


# In a list of variables, stands for all default ones: `default,d2m`.
DEFAULT_NAME = "default"
# Stands for every catalogue variable that the user's files hold.
ALL_NAME = "all"
_SHOWN_NAMES = 5
_SHOWN_COLUMNS = 6


@dataclass(frozen=True)
class VariableChoice:
    """A requested list of variables, and how strictly it is required (the table in docs/variables.md).

    `named` are columns named individually, not by `default` or `all`. If `is_open`, a month gets those of the list that
    its files have; otherwise it must have all of them.
    """

    variables: tuple[Variable, ...]
    named: frozenset[str] = frozenset()
    is_open: bool = False


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The variables of a data set, in the order of the table's columns, and how each is found.

    The first `defaults` of them are columns of every table, and loaded by default. `first_valid` is the data set's
    first valid time by the kind of field. `base` is the catalogue that it shares variables with.
    """

    name: str
    variables: tuple[Variable, ...] = field(repr=False)
    defaults: int
    first_valid: Mapping[str, datetime]
    base: Catalogue | None = None

    @property
    def default_variables(self) -> tuple[Variable, ...]:
        """The variables that are loaded unless others are named."""
        return self.variables[: self.defaults]

    @cached_property
    def default_columns(self) -> tuple[str, ...]:
        """Their columns."""
        return tuple(variable.column for variable in self.default_variables)

    @cached_property
    def by_column(self) -> dict[str, Variable]:
        """Every variable by its column of the table."""
        return {variable.column: variable for variable in self.variables}

    @cached_property
    def by_short_name(self) -> dict[str, Variable]:
        """Every variable by its name in current files."""
        return {variable.short_name: variable for variable in self.variables}

    @cached_property
    def by_long_name(self) -> dict[str, Variable]:
        """Variables by ECMWF's name in lower case, without those that share one: it does not tell them apart."""
        names = [variable.long_name.casefold() for variable in self.variables]
        return {name: variable for name, variable in zip(names, self.variables, strict=True) if names.count(name) == 1}

    @cached_property
    def by_param_id(self) -> dict[int, Variable]:
        """Every variable by ECMWF's number."""
        return {variable.param_id: variable for variable in self.variables}

    @cached_property
    def by_name_in_file(self) -> dict[str, Variable]:
        """Every variable by each of its names in files."""
        return {name: variable for variable in self.variables for name in variable.names_in_files}

    @cached_property
    def _by_any_name(self) -> dict[str, Variable]:
        return {name.casefold(): variable for name, variable in self.by_name_in_file.items()} | self.by_column

    def find(self, name: str) -> Variable:
        """Find a variable by its column or any of its names in files, that of requests among them."""
        wanted = name.strip().casefold()
        if (found := self._by_any_name.get(wanted)) is not None:
            return found
        if self.base is None and (why := why_unsupported(wanted)) is not None:
            meant = _meant(_named(variable) for variable in self._with_words(_written(wanted)))
            raise UsageError(f"{name!r} {why}", remedy=f"{meant}era5 variables lists those that can be loaded.")
        if self.base is not None and wanted in self.base._by_any_name:
            raise UsageError(
                f"{self.name} has no {name!r}, a variable of {self.base.name}",
                remedy=f"Leave it out, or load it from {self.base.name}.",
            )
        meant = _meant(self._nearest(wanted))
        of = "" if self.base is None else f" of {self.name}"
        raise UsageError(
            f"{name!r} is not in the catalogue of variables{of}",
            remedy=f"{meant}era5 variables lists all {len(self.variables)}; CONTRIBUTING.md says how to add one.",
        )

    def find_all(self, names: str) -> tuple[Variable, ...]:
        """Parse a comma-separated list of variables, in table order; `default` stands for the default ones."""
        columns: list[str] = []
        for name in (part.strip() for part in names.split(",")):
            if name == DEFAULT_NAME:
                columns += self.default_columns
            elif name:
                columns.append(self.find(name).column)
        return self.in_table_order(columns)

    def choose(self, names: str | None, *, strict: bool = False) -> VariableChoice | None:
        """Parse a requested list of variables; return None if nothing in particular is requested.

        With `strict`, no list is open, and no list means the default variables.
        """
        parts = [part for part in map(str.strip, (names or "").split(",")) if part]
        if not parts:
            return VariableChoice(self.default_variables) if strict else None
        sets = {DEFAULT_NAME, ALL_NAME} & set(parts)
        listed = self.find_all(",".join(part for part in parts if part not in sets))
        variables = listed
        if sets:
            columns = self.by_column if ALL_NAME in sets else self.default_columns
            variables = self.in_table_order([*columns, *(variable.column for variable in listed)])
        return VariableChoice(variables, frozenset(v.column for v in listed), is_open=bool(sets) and not strict)

    def in_table_order(self, columns: Iterable[str]) -> tuple[Variable, ...]:
        """The variables of these columns, in catalogue order."""
        wanted = set(columns)
        return tuple(variable for variable in self.variables if variable.column in wanted)

    def named_columns(self, columns: Iterable[str]) -> str:
        """Name columns briefly; if all default ones are included, as a list of variables: `default, d2m`."""
        names = list(columns)
        if set(self.default_columns) <= set(names):
            others = (column for column in names if column not in self.default_columns)
            known = self.by_column
            names = [DEFAULT_NAME, *(known[one].short_name if one in known else one for one in others)]
        more = [f"{len(names) - _SHOWN_COLUMNS} more"] if len(names) > _SHOWN_COLUMNS + 1 else []
        return ", ".join([*(names[:_SHOWN_COLUMNS] if more else names), *more])

    def variable_names(self, columns: Iterable[str]) -> str:
        """Write these columns as a list of variables that `find_all` reads: `default,d2m`."""
        wanted = self.in_table_order(columns)
        defaults = self.default_variables
        has_default = set(defaults) <= set(wanted)
        others = (variable.short_name for variable in wanted if not (has_default and variable in defaults))
        return ",".join([*([DEFAULT_NAME] if has_default else []), *others])

    def _nearest(self, wanted: str) -> list[str]:
        """Variables with a name similar to `wanted`, or its words in name or description: `dewpoint_2m (d2m)`."""
        written = _written(wanted)
        close = difflib.get_close_matches(written, self._by_any_name, n=3 * _SHOWN_NAMES, cutoff=0.6)
        found = dict.fromkeys((*(self._by_any_name[name] for name in close), *self._with_words(written)))
        return [_named(variable) for variable in found]

    def _with_words(self, written: str) -> list[Variable]:
        """Variables with all words of the text in name or description."""
        words = [word for word in written.split("_") if len(word) > 2]
        described = {one: f"{' '.join(_names(one))} {one.description}".casefold() for one in self.variables}
        return [variable for variable, text in described.items() if words and all(word in text for word in words)]


def read_catalogue(
    name: str, path: Path, defaults: int, first_valid: Mapping[str, datetime], base: Catalogue | None = None
) -> Catalogue:
    """Read the table of a data set's variables; in that of a data set with a `base`, lines may be of its variables."""
    with path.open(encoding="utf-8", newline="") as lines:
        variables = tuple(_variable(line, first_valid, base) for line in csv.DictReader(lines))
    return Catalogue(name, variables, defaults, first_valid, base)


def _variable(line: Mapping[str, str], first_valid: Mapping[str, datetime], base: Catalogue | None) -> Variable:
    """The variable of a line; `first_of` says whether its values begin with the analysis or the forecast."""
    column, is_own = line["column"], base is None or bool(line["param_id"])
    known: tuple[tuple[str, Iterable[str]], ...] = (("extent", get_args(Extent)), ("first_of", tuple(first_valid)))
    for name, words in (("step_type", STEP_TYPES), *known) if is_own else known:
        if line[name] not in words:
            raise ValueError(f"{column}: {line[name]!r} is not one of {', '.join(words)}")
    extent, first = cast("Extent", line["extent"]), first_valid[line["first_of"]]
    if base is not None and not is_own:
        shared = base.by_column[column]
        name = line["cds_name"] or shared.cds_name
        return replace(shared, cds_name=name, extent=extent, first_valid=first, ncar_name=None)
    quantity = QUANTITIES[line["quantity"]]
    return Variable(
        column=column,
        cds_name=line["cds_name"],
        short_name=line["short_name"],
        param_id=int(line["param_id"]),
        long_name=line["long_name"],
        file_units=quantity.file_units,
        step_type=cast("StepType", line["step_type"]),
        unit=quantity.unit,
        scale=quantity.scale,
        offset=quantity.offset,
        minimum=float(line["minimum"]),
        maximum=float(line["maximum"]),
        description=line["description"],
        extent=extent,
        first_valid=first,
        ncar_name=line.get("ncar_name") or None,
        other_names=tuple(line["other_names"].split()),
        quantum=quantity.quantum * quantity.scale,
    )


# A value is rounded to float32 in its file and in the table, each time by up to 2**-24 of it; of two values, both are.
ROUNDINGS = 2.0**-22

# Why the table cannot hold other variables of ERA5; `unsupported_variables.csv` has their names. Sources: the pages of
# reanalysis-era5-single-levels (ocean waves are on a grid of 0.5 degrees) and reanalysis-era5-pressure-levels.
_REASONS = {
    "waves": "describes ocean waves, which ERA5 has on another grid, of 0.5 degrees: the table holds the grid of 0.25 "
    "degrees of all other single-level variables",
    "pressure_levels": "is at pressure levels (dataset reanalysis-era5-pressure-levels): the table holds single "
    "levels, one value for each place and hour",
}


def _named(variable: Variable) -> str:
    return f"{variable.column} ({variable.short_name})"


def _meant(names: Iterable[str]) -> str:
    """Suggest the first of these names, `Did you mean snowfall (sf)? `; empty without names."""
    shown = list(names)[:_SHOWN_NAMES]
    return f"Did you mean {' or '.join(shown)}? " if shown else ""


def _names(variable: Variable) -> tuple[str, ...]:
    return (variable.column, variable.long_name, *variable.names_in_files)


def why_unsupported(name: str) -> str | None:
    """Explain why the table cannot hold this ERA5 variable; None if the name is not a known unsupported one."""
    kind = _unsupported_kinds().get(_written(name))
    return None if kind is None else _REASONS[kind]


@cache
def _unsupported_kinds() -> dict[str, str]:
    with Path(__file__).with_name("unsupported_variables.csv").open(encoding="utf-8", newline="") as lines:
        return {line[name]: line["kind"] for line in csv.DictReader(lines) for name in ("cds_name", "short_name")}


def _written(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


# Forecasts of ERA5 start with the run of 1940-01-01 06:00, whose first step ends at 07:00; of ERA5-Land, with that of
# 1950-01-01 00:00. All accumulations, means and extremes come from forecasts, and some instant variables.
ERA5_CATALOGUE = read_catalogue(
    "ERA5",
    Path(__file__).with_name("variables.csv"),
    defaults=6,
    first_valid={"analysis": datetime(1940, 1, 1, tzinfo=UTC), "forecast": datetime(1940, 1, 1, 7, tzinfo=UTC)},
)
ERA5_LAND_CATALOGUE = read_catalogue(
    "ERA5-Land",
    Path(__file__).with_name("variables_land.csv"),
    defaults=5,  # those of ERA5 without the total cloud cover, which ERA5-Land lacks
    first_valid={"analysis": datetime(1950, 1, 1, tzinfo=UTC), "forecast": datetime(1950, 1, 1, 1, tzinfo=UTC)},
    base=ERA5_CATALOGUE,
)
CATALOGUES = {catalogue.name: catalogue for catalogue in (ERA5_CATALOGUE, ERA5_LAND_CATALOGUE)}

# The columns of all tables: one means the same in each, with the same unit, number, bounds and quantum. Where and from
# when it has values is in the data set's own catalogue.
_OWN_OF_LAND = [one for one in ERA5_LAND_CATALOGUE.variables if one.column not in ERA5_CATALOGUE.by_column]
BY_COLUMN = ERA5_CATALOGUE.by_column | {one.column: one for one in _OWN_OF_LAND}


def in_table_order(columns: Iterable[str]) -> tuple[Variable, ...]:
    """The variables of these columns, in the order of every table."""
    wanted = set(columns)
    return tuple(variable for column, variable in BY_COLUMN.items() if column in wanted)


# Of ERA5 alone, until their callers take a catalogue. The default variables are those of the study.
VARIABLES, DEFAULT_VARIABLES = ERA5_CATALOGUE.variables, ERA5_CATALOGUE.default_variables
DEFAULT_COLUMNS, BY_SHORT_NAME = ERA5_CATALOGUE.default_columns, ERA5_CATALOGUE.by_short_name
BY_LONG_NAME, BY_PARAM_ID = ERA5_CATALOGUE.by_long_name, ERA5_CATALOGUE.by_param_id
BY_NAME_IN_FILE = ERA5_CATALOGUE.by_name_in_file
find_variable, find_variables = ERA5_CATALOGUE.find, ERA5_CATALOGUE.find_all
choose_variables, named_columns = ERA5_CATALOGUE.choose, ERA5_CATALOGUE.named_columns
variable_names = ERA5_CATALOGUE.variable_names
