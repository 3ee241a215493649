"""The catalogue of variables: `variables.csv`, a line for each. Requests, DDL, checks, plots and docs all come from it.

Here: reading that table, whose columns are the fields of `Variable`, and the quantities that its lines name. A new
variable is a line there; its place is its place in every list of variables. Source: ECMWF's parameter database (names,
numbers, units, as ecCodes 2.50 has them) and the documentation of ERA5 (names of requests, first times, grids). Bounds
include every value of ERA5 (2 m temperature from about -90 to +58 degC), and half a step of 16-bit packing beyond zero.
"""

from __future__ import annotations

import csv
from pathlib import Path

from era5_pipeline.model.variable_type import Quantity, Variable, entry

_FILE = Path(__file__).with_name("variables.csv")

# Units as GRIB and today's files write them come first, then as other services and earlier versions did.
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
    "pressure": Quantity(("Pa",), "hPa", scale=0.01),
    "soil_water": Quantity(("m**3 m**-3", "m3 m-3", "m3/m3", "m^3/m^3"), "m3/m3"),
    "specific_energy": Quantity(("J kg**-1", "J kg-1", "J/kg"), "J/kg"),
    "speed": Quantity(("m s**-1", "m s-1", "m/s"), "m/s"),
    "stress": Quantity(("N m**-2", "N m-2", "N/m2"), "N/m2"),
    "temperature": Quantity(("K",), "degC", offset=-273.15),
    # An index that is made of differences of temperatures.
    "temperature_index": Quantity(("K",), "K"),
    "vapour_flux": Quantity(("kg m**-1 s**-1", "kg m-1 s-1", "kg/m/s"), "kg/m/s"),
    "water_depth": Quantity(("m",), "mm", scale=1000.0),
    "water_equivalent": Quantity(("m of water equivalent",), "mm", scale=1000.0),
}


def read_catalogue(path: Path) -> tuple[Variable, ...]:
    """Read a table of variables, in its order.

    Raises:
        OSError, ValueError, KeyError: if the file is not such a table.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        return tuple(
            entry(
                column=line["column"],
                cds_name=line["cds_name"],
                short_name=line["short_name"],
                other_names=tuple(line["other_names"].split()),
                ncar_name=line["ncar_name"] or None,
                param_id=int(line["param_id"]),
                step_type=line["step_type"],
                first_of=line["first_of"],
                quantity=QUANTITIES[line["quantity"]],
                bounds=(float(line["minimum"]), float(line["maximum"])),
                extent=line["extent"],
                long_name=line["long_name"],
                description=line["description"],
            )
            for line in csv.DictReader(lines)
        )


VARIABLES = read_catalogue(_FILE)
